// The choices that hold for every view: which profile, against which, which number, by what.

import type { Source, SourcePage } from "../api_types.ts";
import { h } from "../dom.ts";
import { moment } from "../format.ts";
import type { State } from "../state/location.ts";
import { go } from "../state/navigate.ts";
import { typeTitle } from "../views/overview.ts";

const GRANULARITIES = [["functions", "Functions"], ["lines", "Lines"], ["files", "Files"], ["modules", "Modules"], ["addresses", "Addresses"]];
/// The value of the entry that takes a new profile; no stored profile can be called that.
const NEW = "<new profile>";

export interface ChoicesInput {
  state: State;
  page: SourcePage;
  sampleTypes: string[];
  /// Other files and recordings, which have one profile each.
  otherSources: Source[];
  takeNew: () => void;
}

export function choices({ state, page, sampleTypes, otherSources, takeNew }: ChoicesInput): HTMLElement[] {
  const names = page.profiles.map((stored) => [stored.name, label(stored.name, stored.time_unix_ms)]);
  const fresh = page.source.can_snapshot ? [[NEW, NEW]] : [];
  const view = select("View", [...fresh, ...names], state.profile, (name) => (name === NEW ? takeNew() : go({ profile: name, at: "" })));
  const others = names.filter(([name]) => name !== state.profile);
  // Of other sources, the value is the source and the name with a slash between: neither has one.
  const foreign = otherSources.map((source) => [`${source.id}/${source.title}`, source.title]);
  const chosen = state.from ? `${state.from}/${state.base}` : state.base;
  const base = select("Diff", [["", "<none>"], ...others, ...foreign], chosen, (name) => {
    const slash = name.indexOf("/");
    go({ from: slash < 0 ? "" : name.slice(0, slash), base: name.slice(slash + 1), since: "" });
  });
  const types = sampleTypes.includes(state.type) ? sampleTypes : [state.type, ...sampleTypes];
  const type = select("Sample", types.map((name) => [name, typeTitle(name)]), state.type, (name) => go({ type: name }));
  const by = select("By", GRANULARITIES, state.by, (name) => go({ by: name, zoom: "" }));
  return [view, base, type, by];
}

function label(name: string, unixMs: number | null): string {
  // Names of our own are times; others say more than the time of their file.
  if (unixMs === null || !/^\d{8}\.\d{6}/.test(name)) return name;
  return moment(unixMs) + name.slice(15).replace(/\.heap$/, "").replace(/^\.(\d+)/, " #$1");
}

function select(title: string, options: string[][], value: string, change: (value: string) => void): HTMLElement {
  const box = h("select", { onchange: () => change(box.value) },
    options.map(([name, text]) => h("option", { value: name, selected: name === value }, text)));
  return h("label.choice", null, h("span", null, title), box);
}
