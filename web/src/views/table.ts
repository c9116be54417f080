// The ranking of all functions (lines, files, …), sortable, of any length.

import type { Row, Top } from "../api_types.ts";
import { h } from "../dom.ts";
import { change, count, percent, quantity, withoutFolder } from "../format.ts";
import { compile } from "../../../crates/render/src/flame/script/search.js";
import { setViewKeys } from "../keys.ts";
import { selectFunction } from "../state/selected_function.ts";
import { go, remember } from "../state/navigate.ts";
import { t } from "../strings.ts";
import { bar } from "../widgets/bar.ts";
import { frameActions } from "../widgets/frame_actions.ts";
import { showMenu } from "../widgets/menu.ts";
import { nothing } from "../widgets/message.ts";
import { ownPlace } from "../widgets/own_place.ts";
import { VirtualRows } from "../widgets/virtual_rows.ts";
import { ask, type Draw } from "./view.ts";

const ORDERS: Record<string, (a: Row, b: Row) => number> = {
  // The largest change first, where there is a base.
  flat: (a, b) => Math.abs(b.flat) - Math.abs(a.flat) || Math.abs(b.cum) - Math.abs(a.cum),
  cum: (a, b) => Math.abs(b.cum) - Math.abs(a.cum) || Math.abs(b.flat) - Math.abs(a.flat),
  name: (a, b) => a.name.localeCompare(b.name),
  "-flat": (a, b) => a.flat - b.flat,
  "-cum": (a, b) => a.cum - b.cum,
  "-name": (a, b) => b.name.localeCompare(a.name),
};

const CELL = { role: "gridcell" };

export const drawTable: Draw = async (input) => {
  const top = await ask<Top>(input, "top");
  if (!top.rows.length) return nothing(t("nothing.list"), t("nothing.why"));
  const { state } = input;
  const whole = top.base_total || top.total;
  const isCompared = state.base !== "";
  const amount = (value: number) => (isCompared ? change(value, top.unit) : quantity(value, top.unit));
  let rows = top.rows;
  const cells = (row: Row) => h("div.vrow.table-row", { role: "row" },
    h("span.number", CELL, amount(row.flat)), h("span.share", CELL, bar(row.flat / whole), isCompared ? t("table.was", { amount: quantity(row.flat_base, top.unit) }) : percent(row.flat, whole)),
    h("span.number", CELL, amount(row.cum)), h("span.share", CELL, bar(row.cum / whole), isCompared ? t("table.was", { amount: quantity(row.cum_base, top.unit) }) : percent(row.cum, whole)),
    h(row.own?.is_itself ? "span.name" : "span.name.library", { ...CELL, title: row.name }, withoutFolder(row.name)),
    h("span.where", { ...CELL, title: row.own?.file || row.file || row.module }, ownPlace(row)));
  const list = new VirtualRows((index) => cells(rows[index]), (index, event) => {
    const at = event ?? list.element.getBoundingClientRect();
    selectFunction(rows[index].name);
    showMenu("clientX" in at ? at.clientX : at.x + 40, "clientY" in at ? at.clientY : at.y + 40, rows[index].name, frameActions(rows[index].name));
  });
  const found = h("span.found", { role: "status" });
  const filter = (pattern: string) => {
    const matcher = pattern ? compile(pattern) : null;
    const kept = matcher ? top.rows.filter((row) => matcher.test(row.name) || matcher.test(row.file)) : top.rows;
    rows = kept.toSorted(ORDERS[state.sort] ?? ORDERS["flat"]);
    found.textContent = t("table.rows", { n: count(rows.length), all: count(top.rows.length) });
    list.resize(rows.length);
  };
  const field = h("input", {
    type: "search", placeholder: t("search"), value: state.search, "aria-label": t("table.search"),
    oninput: () => {
      remember({ search: field.value });
      filter(field.value);
    },
  });
  filter(state.search);
  setViewKeys([
    { key: "/", about: t("key.search"), run: () => field.focus() },
    { key: "ArrowDown", about: t("key.row.next"), run: () => list.move(1) },
    { key: "ArrowUp", about: t("key.row.previous"), run: () => list.move(-1) },
    { key: "PageDown", about: t("key.page.down"), run: () => list.move(20) },
    { key: "PageUp", about: t("key.page.up"), run: () => list.move(-20) },
    { key: "Enter", about: t("key.row.menu"), run: () => list.enter() },
  ]);
  return h("section.table", { "data-compared": isCompared ? "true" : null },
    h("div.view-tools", null, field, found, isCompared && h("span.found.changed", null, changed(top))),
    h("div.grid", { role: "grid", "aria-label": t("table.functions"), "aria-rowcount": String(rows.length + 1) },
      h("div", { role: "rowgroup" }, h("div.table-row.table-head", { role: "row" }, heading("flat", t("table.self"), state.sort, 2),
        heading("cum", t("table.cum"), state.sort, 2), heading("name", t("table.name"), state.sort, 1), h("span.where", { role: "columnheader" }, t("table.own")))),
      list.element));
};

function changed({ total, base_total: base, unit }: Top): string {
  return t("table.changed", { change: change(total, unit), from: quantity(base, unit), to: quantity(base + total, unit), share: percent(total, base) });
}

function heading(order: string, label: string, sort: string, span: number): HTMLElement {
  const down = sort === order;
  const up = sort === `-${order}`;
  return h("span", {
    role: "columnheader", style: { gridColumn: `span ${span}` }, "aria-colspan": String(span),
    "aria-sort": down ? "descending" : up ? "ascending" : "none",
  }, h("button.heading", { onclick: () => go({ sort: down ? `-${order}` : order }) }, label, down ? " ↓" : up ? " ↑" : ""));
}
