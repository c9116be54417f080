// The panel beside a picture: the largest functions, and the source of the selected one. A click in
// one selects in the other and highlights in the picture.

import type { Top } from "../api_types.ts";
import { h, show } from "../dom.ts";
import { change, quantity, withoutFolder } from "../format.ts";
import { onFunction, selectFunction } from "../state/selected_function.ts";
import { t } from "../strings.ts";
import { bar } from "../widgets/bar.ts";
import { trouble } from "../widgets/message.ts";
import { ownPlace } from "../widgets/own_place.ts";
import { listing } from "./source.ts";
import type { ViewInput } from "./view.ts";
import { ask } from "./view.ts";

const ROWS = 14;

export async function drawSide(input: ViewInput): Promise<HTMLElement> {
  const top = await ask<Top>(input, "top", { n: String(ROWS), granularity: "functions" });
  const held = top.rows.filter((row) => row.flat !== 0);
  const most = Math.max(...held.map((row) => Math.abs(row.flat))) || 1;
  const amount = (value: number) => (top.base_total ? change(value, top.unit) : quantity(value, top.unit));
  const rows = held.map((row) => h("tr", { "data-name": row.name },
    h("td.number", null, amount(row.flat)), h("td.wide", null, bar(row.flat / most)),
    h("td.name", null, h("button.link", { title: row.name, onclick: () => selectFunction(row.name) }, withoutFolder(row.name)),
      row.own && !row.own.is_itself && h("small.muted", { title: t("table.own") }, ownPlace(row)))));
  const text = h("div.side-source");
  const panel = h("div.side-panels", null,
    h("div.card", null, h("h2", null, t("table.functions")), h("table.plain", null, h("tbody", null, rows))), text);
  const mark = (name: string) => {
    for (const row of rows) row.toggleAttribute("data-selected", row.dataset["name"] === name);
    if (!name) return show(text);
    listing(input, name).then((source) => show(text, source), (why) => show(text, trouble(why)));
  };
  mark(input.state.function);
  onFunction(panel, mark);
  return panel;
}
