// The flame graph: top-down, bottom-up, or callers and callees around one function.

import type { FlameColumns, Top } from "../api_types.ts";
import { h, show } from "../dom.ts";
import { change, count, percent, quantity } from "../format.ts";
import { FlameCanvas } from "../../../crates/render/src/flame/script/canvas.js";
import { buildModel, findRanks, path, rankPath } from "../../../crates/render/src/flame/script/model.js";
import { neighbour } from "../../../crates/render/src/flame/script/move.js";
import { escapePattern, search } from "../../../crates/render/src/flame/script/search.js";
import type { Direction, FlameModel } from "../../../crates/render/src/flame/script/types.d.ts";
import { setViewKeys } from "../keys.ts";
import { onFunction, selectFunction } from "../state/selected_function.ts";
import { t, word } from "../strings.ts";
import type { State } from "../state/location.ts";
import { go, href, remember, step } from "../state/navigate.ts";
import { isDark } from "../state/theme.ts";
import { frameActions } from "../widgets/frame_actions.ts";
import { showMenu } from "../widgets/menu.ts";
import { nothing } from "../widgets/message.ts";
import { hideTooltip, showTooltip } from "../widgets/tooltip.ts";
import { ask, type Draw, type ViewInput } from "./view.ts";

export const drawFlame: Draw = async (input) => {
  const { state } = input;
  if (state.shape === "sandwich") return drawSandwich(input);
  const columns = await ask<FlameColumns>(input, "flame", { shape: state.shape });
  if (!columns.boxes.frame.length) return nothing(t("nothing.draw"), t("nothing.why"));
  const flame = new FlameView(buildModel(columns), false);
  flame.show(state.zoom ? findRanks(flame.model, state.zoom) : -1);
  flame.find(state.search);
  const tools = toolbar(input, flame, [flame]);
  addEventListener("themechange", () => flame.recolor());
  const section = h("section.flame", null, tools, flame.crumbs, flame.canvas.element, flame.status);
  onFunction(section, (name) => flame.highlight(name));
  return section;
};

/// The function in the middle: the selected one, or the one that was.
function sandwichOf(state: State): string {
  return state.function || state.pivot;
}

async function drawSandwich(input: ViewInput): Promise<HTMLElement> {
  // Without a function, the one that allocates most.
  const name = input.state.pivot || (await ask<Top>(input, "top", { n: "1" })).rows[0]?.name || "";
  const pivot = `^${escapePattern(name)}$`;
  const [callers, callees] = await Promise.all([
    ask<FlameColumns>(input, "flame", { shape: "callers", pivot }),
    ask<FlameColumns>(input, "flame", { shape: "callees", pivot }),
  ]);
  if (!callers.boxes.frame.length) {
    return nothing(t("nothing.pivot", { name }), t("nothing.pivot.why"));
  }
  const up = new FlameView(buildModel(callers), true);
  const down = new FlameView(buildModel(callees), false);
  for (const part of [up, down]) part.find(input.state.search);
  return h("section.flame.sandwich", null, toolbar(input, down, [up, down]),
    h("h2", null, t("flame.callers"), h("code", null, name)), up.canvas.element,
    h("h2", null, t("flame.callees")), down.canvas.element, down.status);
}

function toolbar(input: ViewInput, main: FlameView, all: FlameView[]): HTMLElement {
  const { state } = input;
  const field = h("input", {
    type: "search", placeholder: t("search"), value: state.search, "aria-label": t("flame.search"),
    oninput: () => {
      remember({ search: field.value });
      for (const flame of all) flame.find(field.value);
    },
  });
  const shape = (name: string, label: string) =>
    h("a", { href: href({ shape: name, pivot: "", zoom: "" }), "data-go": true, "aria-current": state.shape === name }, label);
  setViewKeys([
    { key: "/", about: t("key.search"), run: () => field.focus() },
    { key: "i", about: t("key.invert"), run: () => go({ shape: state.shape === "bottomup" ? "topdown" : "bottomup", zoom: "" }) },
    { key: "ArrowDown", about: t("key.in"), run: () => main.step("in") },
    { key: "ArrowUp", about: t("key.out"), run: () => main.step("out") },
    { key: "ArrowRight", about: t("key.next"), run: () => main.step("next") },
    { key: "ArrowLeft", about: t("key.previous"), run: () => main.step("previous") },
    { key: "Enter", about: t("key.zoom"), run: () => main.zoomTo(main.canvas.selected) },
    { key: "Backspace", about: t("key.zoomout"), run: () => main.zoomOut() },
    { key: "Escape", about: t("key.whole"), run: () => main.zoomTo(-1) },
    { key: "m", about: t("key.menu"), run: () => main.openMenu() },
    { key: "s", about: t("key.pivot"), run: () => main.pivot() },
  ]);
  return h("div.view-tools", null,
    h("nav.segments", { "aria-label": t("flame.shape") }, shape("topdown", t("flame.topdown")), shape("bottomup", t("flame.bottomup")),
      h("a", { href: href({ shape: "sandwich", pivot: sandwichOf(state), zoom: "" }), "data-go": true, "aria-current": state.shape === "sandwich" }, t("flame.sandwich"))),
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
      select: (box) => this.select(box),
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
      h("i", { style: { background: color } }), h("span", null, word("legend", label)),
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
      ? t("flame.found", { n: matches.boxes, amount: quantity(matches.sum, this.model.unit), share: percent(matches.sum, this.model.total) })
      : "";
    this.canvas.draw();
  }

  step(direction: Direction): void {
    this.canvas.selected = neighbour(this.model, this.canvas.selected, direction);
    this.canvas.reveal(this.canvas.selected);
    this.select(this.canvas.selected);
  }

  private select(box: number): void {
    this.tell(box);
    if (box >= 0) selectFunction(this.name(box));
  }

  /// Highlights every call of a function that another panel selected.
  highlight(name: string): void {
    if (this.canvas.selected >= 0 && this.name(this.canvas.selected) === name) return;
    this.find(name ? `^${escapePattern(name)}$` : "");
  }

  openMenu(): void {
    const { x, y } = this.canvas.element.getBoundingClientRect();
    if (this.canvas.selected >= 0) this.menu(this.canvas.selected, x + 40, y + 40);
  }

  pivot(): void {
    const box = this.canvas.selected;
    if (box >= 0) go({ shape: "sandwich", pivot: this.name(box), zoom: "" });
  }

  private name(box: number): string {
    return this.model.names[this.model.frame[box]];
  }

  private menu(box: number, x: number, y: number): void {
    const zoom = { label: t("action.zoom"), run: () => this.zoomTo(box) };
    showMenu(x, y, this.name(box), [zoom, ...frameActions(this.name(box))]);
  }

  private drawCrumbs(box: number, names: string[]): void {
    const boxes: number[] = [];
    for (let at = box; at >= 0; at = this.model.parent[at]) boxes.unshift(at);
    // Long paths keep their ends: where it starts and where one is.
    const shown = names.map((name, at) => ({ name, at })).filter(({ at }) => at < 1 || at > names.length - 4);
    const link = (label: string, to: number) => h("button.link", { onclick: () => this.zoomTo(to) }, label);
    show(this.crumbs, link(t("flame.all"), -1),
      shown.flatMap(({ name, at }) => [" › ", at > 1 && at === names.length - 3 && names.length > 4 ? "… › " : null, link(name, boxes[at])]));
  }

  private tell(box: number): void {
    const { model } = this;
    const whole = t("flame.status", { boxes: count(model.count), levels: model.levels, amount: quantity(model.total, model.unit) });
    show(this.status, box < 0 ? whole : [...this.describe(box)]);
  }

  private describe(box: number): (Node | string)[] {
    const { model } = this;
    const frame = model.frame[box];
    const value = model.sum[box];
    const amount = model.isDiff
      ? t("flame.was", { amount: change(value, model.unit), base: quantity(model.base[box], model.unit) })
      : `${quantity(value, model.unit)} · ${percent(value, model.total)}`;
    const own = model.own[box] ? t("flame.itself", { amount: quantity(model.own[box], model.unit) }) : "";
    const place = [model.files[frame] && `${model.files[frame]}${model.lines[frame] ? `:${model.lines[frame]}` : ""}`, model.modules[frame]];
    return [h("b", null, model.names[frame]), h("span.amount", null, amount + own), h("span.place", null, place.filter(Boolean).join(" · "))];
  }
}
