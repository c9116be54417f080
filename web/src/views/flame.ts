// The flame graph: top-down, bottom-up, or callers and callees around one function.

import type { FlameColumns } from "../api_types.ts";
import { h, show } from "../dom.ts";
import { change, count, percent, quantity } from "../format.ts";
import { FlameCanvas } from "../../../crates/render/src/flame/script/canvas.js";
import { buildModel, findRanks, path, rankPath } from "../../../crates/render/src/flame/script/model.js";
import { neighbour } from "../../../crates/render/src/flame/script/move.js";
import { escapePattern, search } from "../../../crates/render/src/flame/script/search.js";
import type { Direction, FlameModel } from "../../../crates/render/src/flame/script/types.d.ts";
import { setViewKeys } from "../keys.ts";
import { go, href, remember, step } from "../state/navigate.ts";
import { isDark } from "../state/theme.ts";
import { frameActions } from "../widgets/frame_actions.ts";
import { showMenu } from "../widgets/menu.ts";
import { nothing } from "../widgets/message.ts";
import { hideTooltip, showTooltip } from "../widgets/tooltip.ts";
import { ask, type Draw, type ViewInput } from "./view.ts";

export const drawFlame: Draw = async (input) => {
  const { state } = input;
  if (state.shape === "sandwich" && state.pivot) return drawSandwich(input);
  const columns = await ask<FlameColumns>(input, "flame", { shape: state.shape });
  if (!columns.boxes.frame.length) return nothing("Nothing to draw", "No sample passes the filter, or the total is zero.");
  const flame = new FlameView(buildModel(columns), false);
  flame.show(state.zoom ? findRanks(flame.model, state.zoom) : -1);
  flame.find(state.search);
  const tools = toolbar(input, flame, [flame]);
  addEventListener("themechange", () => flame.recolor());
  return h("section.flame", null, tools, flame.crumbs, flame.canvas.element, flame.status);
};

async function drawSandwich(input: ViewInput): Promise<HTMLElement> {
  const pivot = `^${escapePattern(input.state.pivot)}$`;
  const [callers, callees] = await Promise.all([
    ask<FlameColumns>(input, "flame", { shape: "callers", pivot }),
    ask<FlameColumns>(input, "flame", { shape: "callees", pivot }),
  ]);
  if (!callers.boxes.frame.length) {
    return nothing(`No stack has ${input.state.pivot}`, "It may be filtered out, or not be in this profile.");
  }
  const up = new FlameView(buildModel(callers), true);
  const down = new FlameView(buildModel(callees), false);
  for (const part of [up, down]) part.find(input.state.search);
  return h("section.flame.sandwich", null, toolbar(input, down, [up, down]),
    h("h2", null, "Callers of ", h("code", null, input.state.pivot)), up.canvas.element,
    h("h2", null, "Callees"), down.canvas.element, down.status);
}

function toolbar(input: ViewInput, main: FlameView, all: FlameView[]): HTMLElement {
  const { state } = input;
  const field = h("input", {
    type: "search", placeholder: "Search  /", value: state.search, "aria-label": "Search frames",
    oninput: () => {
      remember({ search: field.value });
      for (const flame of all) flame.find(field.value);
    },
  });
  const shape = (name: string, label: string) =>
    h("a", { href: href({ shape: name, pivot: "", zoom: "" }), "data-go": true, "aria-current": state.shape === name }, label);
  setViewKeys([
    { key: "/", about: "search", run: () => field.focus() },
    { key: "i", about: "invert: allocating functions first", run: () => go({ shape: state.shape === "bottomup" ? "topdown" : "bottomup", zoom: "" }) },
    { key: "ArrowDown", about: "to the callee", run: () => main.step("in") },
    { key: "ArrowUp", about: "to the caller", run: () => main.step("out") },
    { key: "ArrowRight", about: "to the next sibling", run: () => main.step("next") },
    { key: "ArrowLeft", about: "to the previous sibling", run: () => main.step("previous") },
    { key: "Enter", about: "zoom to the selected box", run: () => main.zoomTo(main.canvas.selected) },
    { key: "Backspace", about: "zoom out to the caller", run: () => main.zoomOut() },
    { key: "Escape", about: "whole picture", run: () => main.zoomTo(-1) },
    { key: "s", about: "callers and callees of the selected box", run: () => main.pivot() },
  ]);
  return h("div.view-tools", null,
    h("nav.segments", { "aria-label": "Shape" }, shape("topdown", "Top-down"), shape("bottomup", "Bottom-up"),
      state.shape === "sandwich" && shape("sandwich", "Sandwich")),
    field, main.found,
    main.legend);
}

class FlameView {
  readonly canvas: FlameCanvas;
  readonly crumbs = h("div.crumbs");
  readonly status = h("div.status", { "aria-live": "polite" });
  readonly found = h("span.found", { role: "status" });
  readonly legend = h("span.legend");

  constructor(readonly model: FlameModel, upwards: boolean) {
    this.canvas = new FlameCanvas(model, {
      hover: (box, x, y) => (box < 0 ? hideTooltip() : showTooltip(x, y, ...this.describe(box))),
      select: (box) => this.tell(box),
      zoom: (box) => this.zoomTo(box),
      menu: (box, x, y) => this.menu(box, x, y),
    }, { upwards, dark: isDark() });
    this.tell(-1);
    this.drawLegend();
  }

  recolor(): void {
    this.canvas.recolor(isDark());
    this.drawLegend();
  }

  private drawLegend(): void {
    show(this.legend, this.canvas.colors.legend.flatMap(({ label, color }) => [
      h("i", { style: { background: color } }), h("span", null, label),
    ]));
  }

  /// Zooms as a step of the browser's history, so that Back returns to the picture before.
  zoomTo(box: number): void {
    if (box === this.canvas.zoomed) return;
    step({ zoom: box < 0 ? "" : rankPath(this.model, box) });
    this.show(box);
  }

  show(box: number): void {
    this.canvas.zoomed = box;
    this.drawCrumbs(box, box < 0 ? [] : path(this.model, box));
    this.canvas.draw();
  }

  /// From the zoomed box to its caller.
  zoomOut(): void {
    this.zoomTo(this.canvas.zoomed < 0 ? -1 : this.model.parent[this.canvas.zoomed]);
  }

  find(pattern: string): void {
    const matches = search(this.model, pattern);
    this.canvas.matches = matches;
    this.found.textContent = matches
      ? `${matches.boxes} found, ${quantity(matches.sum, this.model.unit)} (${percent(matches.sum, this.model.total)})`
      : "";
    this.canvas.draw();
  }

  step(direction: Direction): void {
    this.canvas.selected = neighbour(this.model, this.canvas.selected, direction);
    this.canvas.reveal(this.canvas.selected);
    this.tell(this.canvas.selected);
  }

  pivot(): void {
    const box = this.canvas.selected;
    if (box >= 0) go({ shape: "sandwich", pivot: this.name(box), zoom: "" });
  }

  private name(box: number): string {
    return this.model.names[this.model.frame[box]];
  }

  private menu(box: number, x: number, y: number): void {
    const zoom = { label: "Zoom to this box", run: () => this.zoomTo(box) };
    showMenu(x, y, this.name(box), [zoom, ...frameActions(this.name(box))]);
  }

  private drawCrumbs(box: number, names: string[]): void {
    const boxes: number[] = [];
    for (let at = box; at >= 0; at = this.model.parent[at]) boxes.unshift(at);
    // Long paths keep their ends: where it starts and where one is.
    const shown = names.map((name, at) => ({ name, at })).filter(({ at }) => at < 1 || at > names.length - 4);
    const link = (label: string, to: number) => h("button.link", { onclick: () => this.zoomTo(to) }, label);
    show(this.crumbs, link("all", -1),
      shown.flatMap(({ name, at }) => [" › ", at > 1 && at === names.length - 3 && names.length > 4 ? "… › " : null, link(name, boxes[at])]));
  }

  private tell(box: number): void {
    const { model } = this;
    const whole = `${count(model.count)} boxes, ${model.levels} levels, ${quantity(model.total, model.unit)} in all`;
    show(this.status, box < 0 ? whole : [...this.describe(box)]);
  }

  private describe(box: number): (Node | string)[] {
    const { model } = this;
    const frame = model.frame[box];
    const value = model.sum[box];
    const amount = model.isDiff
      ? `${change(value, model.unit)} (was ${quantity(model.base[box], model.unit)})`
      : `${quantity(value, model.unit)} · ${percent(value, model.total)}`;
    const own = model.own[box] ? ` · ${quantity(model.own[box], model.unit)} itself` : "";
    const place = [model.files[frame] && `${model.files[frame]}${model.lines[frame] ? `:${model.lines[frame]}` : ""}`, model.modules[frame]];
    return [h("b", null, model.names[frame]), h("span.amount", null, amount + own), h("span.place", null, place.filter(Boolean).join(" · "))];
  }
}
