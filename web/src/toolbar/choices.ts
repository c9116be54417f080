// The choices that hold for every view: which profile, against which, which number, by what.

import { get } from "../api.ts";
import type { Source, SourcePage, Summary } from "../api_types.ts";
import { h } from "../dom.ts";
import { moment } from "../format.ts";
import type { State } from "../state/location.ts";
import { go } from "../state/navigate.ts";
import { t, word } from "../strings.ts";

const GRANULARITIES = ["functions", "lines", "files", "modules", "addresses"];

export interface ChoicesInput {
  state: State;
  page: SourcePage;
  /// Nothing before the server has answered.
  summary: Summary | null;
  otherSources: Source[];
}

export function choices(input: ChoicesInput): (HTMLElement | null)[] {
  const { state, page, summary } = input;
  const names = page.profiles.map((stored) => [stored.name, label(stored.name, stored.time_unix_ms)]);
  const now = page.source.kind === "live" ? [["", t("choice.now")]] : [];
  const profile = names.length + now.length > 1 || now.length
    ? select(t("choice.profile"), [...now, ...names], state.profile, (name) => go({ profile: name, at: "" })) : null;
  const sampleTypes = summary?.sample_types.map((type) => type.name) ?? [];
  const types = sampleTypes.includes(state.type) ? sampleTypes : [state.type, ...sampleTypes];
  return [
    profile, ...base(input, names),
    select(t("choice.type"), types.map((name) => [name, typeTitle(name)]), state.type, (name) => go({ type: name })),
    select(t("choice.by"), GRANULARITIES.map((name) => [name, word("by", name)]), state.by, (name) => go({ by: name, zoom: "" })),
    summary?.runtime || state.native ? native(state) : null,
  ];
}

export function typeTitle(name: string): string {
  const title = word("type", name);
  return title === name ? name.replaceAll("_", " ") : title;
}

/// What is compared with: another profile of this source, or any other source; of a recording, at a
/// moment.
function base({ state, page, otherSources }: ChoicesInput, names: string[][]): (HTMLElement | null)[] {
  const own = page.source.kind === "recording" ? [] : names.filter(([name]) => name !== state.profile);
  // Of other sources, the value is the source with a slash before: no name of a profile has one.
  const foreign = otherSources.map((source) => [`/${source.id}`, source.pid === null ? source.title : `${source.title} ${source.pid}`]);
  const value = state.from ? `/${state.from}` : page.source.kind === "recording" ? "" : state.base;
  const pick = async (name: string) => {
    if (!name.startsWith("/")) return go({ base: name, from: "", since: "" });
    const from = name.slice(1);
    const { profiles } = await get<SourcePage>(`sources/${encodeURIComponent(from)}`);
    if (profiles[0]) go({ base: profiles[0].name, from, since: "" });
  };
  const other = otherSources.find((source) => source.id === state.from);
  return [
    own.length + foreign.length ? select(t("choice.base"), [["", t("choice.none")], ...own, ...foreign], value, (name) => void pick(name)) : null,
    other?.kind === "recording" ? select(t("choice.base.at"), [["", t("strip.end")], ["peak", t("strip.peak")]], state.since, (since) => go({ since })) : null,
  ];
}

function native(state: State): HTMLElement {
  const box = h("input", { type: "checkbox", checked: state.native === "1", onchange: () => go({ native: box.checked ? "1" : "", zoom: "" }) });
  return h("label.choice.switch", null, box, t("choice.native"));
}

function label(name: string, unixMs: number | null): string {
  // Names of our own are times; others say more than the time of their file.
  if (unixMs === null || !/^\d{8}\.\d{6}/.test(name)) return name;
  return moment(unixMs) + name.slice(15).replace(/\.heap$/, "").replace(/^\.(\d+)/, " #$1");
}

function select(title: string, options: string[][], value: string, change: (value: string) => void): HTMLElement {
  const box = h("select", { onchange: () => { box.blur(); change(box.value); } },
    options.map(([name, text]) => h("option", { value: name, selected: name === value }, text)));
  return h("label.choice", null, h("span", null, title), box);
}
