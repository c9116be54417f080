// The ranking of all functions (lines, files, …), sortable, of any length.

import type { Row, Top } from "../api_types.ts";
import { h } from "../dom.ts";
import { change, count, percent, quantity } from "../format.ts";
import { compile } from "../../../crates/render/src/flame/script/search.js";
import { setViewKeys } from "../keys.ts";
import { go, remember } from "../state/navigate.ts";
import { bar } from "../widgets/bar.ts";
import { frameActions } from "../widgets/frame_actions.ts";
import { showMenu } from "../widgets/menu.ts";
import { nothing } from "../widgets/message.ts";
import { VirtualRows } from "../widgets/virtual_rows.ts";
import { ask, type Draw } from "./view.ts";

const ORDERS: Record<string, (a: Row, b: Row) => number> = {
  flat: (a, b) => b.flat - a.flat || b.cum - a.cum,
  cum: (a, b) => b.cum - a.cum || b.flat - a.flat,
  name: (a, b) => a.name.localeCompare(b.name),
  "-flat": (a, b) => a.flat - b.flat,
  "-cum": (a, b) => a.cum - b.cum,
  "-name": (a, b) => b.name.localeCompare(a.name),
};

const CELL = { role: "gridcell" };

export const drawTable: Draw = async (input) => {
  const top = await ask<Top>(input, "top");
  if (!top.rows.length) return nothing("Nothing to list", "No sample passes the filter, or the total is zero.");
  const { state } = input;
  const whole = top.base_total || top.total;
  const amount = (value: number) => (top.base_total ? change(value, top.unit) : quantity(value, top.unit));
  let rows = top.rows;
  const cells = (row: Row) => h("div.vrow.table-row", { role: "row" },
    h("span.number", CELL, amount(row.flat)), h("span.share", CELL, bar(row.flat / whole), percent(row.flat, whole)),
    h("span.number", CELL, amount(row.cum)), h("span.share", CELL, bar(row.cum / whole), percent(row.cum, whole)),
    h("span.name", { ...CELL, title: row.name }, row.name),
    h("span.where", { ...CELL, title: row.file || row.module }, row.file ? `${row.file.split("/").pop()}${row.line ? `:${row.line}` : ""}` : row.module));
  const list = new VirtualRows((index) => cells(rows[index]), (index, event) => {
    const at = event ?? list.element.getBoundingClientRect();
    showMenu("clientX" in at ? at.clientX : at.x + 40, "clientY" in at ? at.clientY : at.y + 40, rows[index].name, frameActions(rows[index].name));
  });
  const found = h("span.found", { role: "status" });
  const filter = (pattern: string) => {
    const matcher = pattern ? compile(pattern) : null;
    const kept = matcher ? top.rows.filter((row) => matcher.test(row.name) || matcher.test(row.file)) : top.rows;
    rows = kept.toSorted(ORDERS[state.sort] ?? ORDERS["flat"]);
    found.textContent = `${count(rows.length)} of ${count(top.rows.length)} rows`;
    list.resize(rows.length);
  };
  const field = h("input", {
    type: "search", placeholder: "Search  /", value: state.search, "aria-label": "Search rows",
    oninput: () => {
      remember({ search: field.value });
      filter(field.value);
    },
  });
  filter(state.search);
  setViewKeys([
    { key: "/", about: "search", run: () => field.focus() },
    { key: "ArrowDown", about: "next row", run: () => list.move(1) },
    { key: "ArrowUp", about: "previous row", run: () => list.move(-1) },
    { key: "PageDown", about: "20 rows down", run: () => list.move(20) },
    { key: "PageUp", about: "20 rows up", run: () => list.move(-20) },
    { key: "Enter", about: "what can be done with the selected row", run: () => list.enter() },
  ]);
  return h("section.table", null,
    h("div.view-tools", null, field, found),
    h("div.grid", { role: "grid", "aria-label": "Functions", "aria-rowcount": String(rows.length + 1) },
      h("div", { role: "rowgroup" }, h("div.table-row.table-head", { role: "row" }, heading("flat", "Self", state.sort, 2),
        heading("cum", "With callees", state.sort, 2), heading("name", "Name", state.sort, 1), h("span.where", { role: "columnheader" }, "Where"))),
      list.element));
};

function heading(order: string, label: string, sort: string, span: number): HTMLElement {
  const down = sort === order;
  const up = sort === `-${order}`;
  return h("span", {
    role: "columnheader", style: { gridColumn: `span ${span}` }, "aria-colspan": String(span),
    "aria-sort": down ? "descending" : up ? "ascending" : "none",
  }, h("button.heading", { onclick: () => go({ sort: down ? `-${order}` : order }) }, label, down ? " ↓" : up ? " ↑" : ""));
}
