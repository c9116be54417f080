// The call tree to open step by step: callees of callers, or callers of what allocated.

import type { FlameColumns } from "../api_types.ts";
import { h } from "../dom.ts";
import { change, percent, quantity, withoutFolder } from "../format.ts";
import { buildModel } from "../../../crates/render/src/flame/script/model.js";
import type { FlameModel } from "../../../crates/render/src/flame/script/types.d.ts";
import { setViewKeys } from "../keys.ts";
import { selectFunction } from "../state/selected_function.ts";
import { href } from "../state/navigate.ts";
import { t } from "../strings.ts";
import { bar } from "../widgets/bar.ts";
import { frameActions } from "../widgets/frame_actions.ts";
import { showMenu } from "../widgets/menu.ts";
import { nothing } from "../widgets/message.ts";
import { VirtualRows } from "../widgets/virtual_rows.ts";
import { ask, type Draw } from "./view.ts";

/// A path is opened at the start while its heaviest child holds at least this share of it.
const OPEN_SHARE = 0.6;

export const drawTree: Draw = async (input) => {
  const shape = input.state.shape === "bottomup" ? "bottomup" : "topdown";
  const model = buildModel(await ask<FlameColumns>(input, "flame", { shape }));
  if (!model.count) return nothing(t("nothing.list"), t("nothing.why"));
  const tree = new TreeRows(model);
  setViewKeys([
    { key: "ArrowDown", about: t("key.row.next"), run: () => tree.list.move(1) },
    { key: "ArrowUp", about: t("key.row.previous"), run: () => tree.list.move(-1) },
    { key: "ArrowRight", about: t("key.open"), run: () => tree.setOpen(true) },
    { key: "ArrowLeft", about: t("key.close"), run: () => tree.setOpen(false) },
    { key: "Enter", about: t("key.toggle"), run: () => tree.list.enter() },
  ]);
  const link = (name: string, label: string) =>
    h("a", { href: href({ shape: name }), "data-go": true, "aria-current": shape === name }, label);
  return h("section.table", null,
    h("div.view-tools", null, h("nav.segments", { "aria-label": t("flame.shape") }, link("topdown", t("flame.topdown")), link("bottomup", t("flame.bottomup")))),
    h("div.grid", { role: "treegrid", "aria-label": t("tree.label") },
      h("div", { role: "rowgroup" }, h("div.tree-row.table-head", { role: "row" },
        h("span.number", HEAD, t("tree.total")), h("span.share", HEAD, t("tree.share")), h("span.number", HEAD, t("table.self")), h("span.name", HEAD, t("table.name")))),
      tree.list.element));
};

const HEAD = { role: "columnheader" };
const CELL = { role: "gridcell" };

class TreeRows {
  readonly list: VirtualRows;
  private readonly open = new Set<number>();
  /// Steps to the right: only where a path branches, so that long chains stay readable.
  private readonly indent: Uint16Array;
  private rows: number[] = [];

  constructor(private readonly model: FlameModel) {
    this.list = new VirtualRows((index) => this.row(this.rows[index]), (index, event) => this.click(index, event));
    this.indent = indents(model);
    this.openHeaviest();
    this.refresh();
  }

  setOpen(open: boolean): void {
    const box = this.rows[this.list.selected];
    if (box === undefined) return;
    if (open) this.open.add(box);
    else if (!this.open.delete(box)) {
      const parent = this.rows.indexOf(this.model.parent[box]);
      if (parent >= 0) this.list.move(parent - this.list.selected);
    }
    this.refresh();
  }

  private hasChildren(box: number): boolean {
    return this.model.end[box] > box + 1;
  }

  private openHeaviest(): void {
    let box = 0;
    while (this.hasChildren(box) && this.open.size < 64) {
      this.open.add(box);
      const child = box + 1;
      if (this.model.span[child] < OPEN_SHARE * this.model.span[box]) break;
      box = child;
    }
  }

  private refresh(): void {
    const { model, open } = this;
    this.rows = [];
    for (let box = 0; box < model.count; box = open.has(box) ? box + 1 : model.end[box]) this.rows.push(box);
    this.list.resize(this.rows.length);
  }

  private click(index: number, event: MouseEvent | null): void {
    const box = this.rows[index];
    if (event && (event.target as Element).closest(".more")) {
      showMenu(event.clientX, event.clientY, this.name(box), frameActions(this.name(box)));
      return;
    }
    selectFunction(this.name(box));
    if (!this.open.delete(box)) this.open.add(box);
    this.refresh();
  }

  private name(box: number): string {
    return this.model.names[this.model.frame[box]];
  }

  private row(box: number): HTMLElement {
    const { model } = this;
    const amount = (value: number) => (model.isDiff ? change(value, model.unit) : quantity(value, model.unit));
    const arrow = this.hasChildren(box) ? (this.open.has(box) ? "▾" : "▸") : "·";
    return h("div.vrow.tree-row", { role: "row", "aria-expanded": this.hasChildren(box) ? String(this.open.has(box)) : null },
      h("span.number", CELL, amount(model.sum[box])),
      h("span.share", CELL, bar(model.sum[box] / model.width), percent(model.sum[box], model.width)),
      h("span.number", CELL, model.own[box] ? amount(model.own[box]) : ""),
      h("span.name", { ...CELL, title: this.name(box), style: { paddingLeft: `${this.indent[box] * 14}px` } },
        h("span.arrow", null, arrow), withoutFolder(this.name(box)), h("button.more", { "aria-label": t("actions"), tabindex: "-1" }, "⋯")));
  }
}

function indents(model: FlameModel): Uint16Array {
  const indent = new Uint16Array(model.count);
  for (let box = 0; box < model.count; box += 1) {
    const parent = model.parent[box];
    if (parent < 0) continue;
    const isOnly = model.end[parent + 1] === model.end[parent];
    indent[box] = indent[parent] + (isOnly ? 0 : 1);
  }
  return indent;
}
