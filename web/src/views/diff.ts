// What changed against the base: grown and shrunk, largest first.

import type { Row, Top } from "../api_types.ts";
import { h } from "../dom.ts";
import { change, percent, quantity } from "../format.ts";
import { setViewKeys } from "../keys.ts";
import { href } from "../state/navigate.ts";
import { bar } from "../widgets/bar.ts";
import { nothing } from "../widgets/message.ts";
import { ask, type Draw, type ViewInput } from "./view.ts";

const SHOWN = 40;

export const drawDiff: Draw = async (input) => {
  setViewKeys([]);
  const range = /^(.+?)\.\.(.+)$/.exec(input.state.at);
  if (!input.state.base && !range) {
    return nothing("Choose what to compare with", wayToCompare(input));
  }
  // A range of a recording is the difference between its two ends.
  const ends: Record<string, string> = range && !input.state.base ? { base: input.state.profile, base_at: range[1], at: range[2] } : {};
  const top = await ask<Top>(input, "top", ends);
  const grown = top.rows.filter((row) => row.flat > 0).sort((a, b) => b.flat - a.flat);
  const shrunk = top.rows.filter((row) => row.flat < 0).sort((a, b) => a.flat - b.flat);
  const most = Math.max(Math.abs(grown[0]?.flat ?? 0), Math.abs(shrunk[0]?.flat ?? 0)) || 1;
  const list = (title: string, rows: Row[]) => h("div.card", null, h("h2", null, title, h("span.muted", null, ` ${rows.length}`)),
    rows.length ? h("table.plain", null, h("tbody", null, rows.slice(0, SHOWN).map((row) => h("tr", null,
      h("td.number", null, change(row.flat, top.unit)), h("td.wide", null, bar(row.flat / most)), h("td.number.muted", null, `was ${quantity(row.flat_base, top.unit)}`),
      h("td.name", null, h("a", { href: href({ view: "flame", shape: "sandwich", pivot: row.name }), "data-go": true }, row.name))))))
      : h("p.note", null, "Nothing."));
  return h("section.diff", null,
    h("p.lead", null, h("b", null, change(top.total, top.unit)), ` from ${quantity(top.base_total, top.unit)} to ${quantity(top.base_total + top.total, top.unit)} (${percent(top.total, top.base_total)}).`),
    h("div.columns", null, list("Grew", grown), list("Shrank", shrunk)));
};

/// How to get at a difference of this source.
function wayToCompare({ page }: ViewInput): string {
  if (page.profiles.length > 1) return "Pick another profile under “Diff” above; the views then show what changed from it to this one.";
  if (page.source.can_snapshot) return "This is the only profile of the process so far. Let it run, take another with “New profile”, and pick this one under “Diff”.";
  if (page.source.has_timeline) return "Drag over a range in the timeline: this view then compares its two ends.";
  return "There is only this profile. Name several files (`heapwise serve before.hwp after.hwp`) or a directory, and each can be compared with any other.";
}
