// One flame graph on a canvas: a window over a model that scrolls, zooms, and answers the pointer.

import { h } from "../dom.ts";
import { palette, type Palette } from "./color.ts";
import type { FlameModel } from "./model.ts";
import { boxAt, paint, ROW, rowTop, type Window } from "./paint.ts";
import type { Matches } from "./search.ts";

export interface FlameEvents {
  hover(box: number, x: number, y: number): void;
  select(box: number): void;
  zoom(box: number): void;
  menu(box: number, x: number, y: number): void;
}

export class FlameCanvas {
  readonly element: HTMLElement;
  selected = -1;
  zoomed = -1;
  matches: Matches | null = null;
  private readonly canvas = h("canvas", { role: "img", "aria-label": "flame graph" });
  private readonly spacer: HTMLElement;
  colors: Palette;
  private hovered = -1;
  private scheduled = false;

  constructor(
    readonly model: FlameModel,
    private readonly events: FlameEvents,
    private readonly upwards: boolean,
  ) {
    this.colors = palette(model.columns);
    this.spacer = h("div.flame-space", { style: { height: `${Math.max(model.levels, 1) * ROW}px` } }, this.canvas);
    this.element = h("div.flame-scroll", { tabindex: "0" }, this.spacer);
    this.element.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.listen();
    if (upwards) requestAnimationFrame(() => (this.element.scrollTop = this.element.scrollHeight));
  }

  /// Takes the theme's colors again.
  recolor(): void {
    this.colors = palette(this.model.columns);
    this.draw();
  }

  /// Draws on the next frame.
  draw(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.drawNow();
    });
  }

  /// Scrolls a box into sight.
  reveal(box: number): void {
    if (box < 0) return;
    const top = rowTop(this.model, { ...this.window(), topPx: 0 }, this.model.depth[box]);
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.element.scrollTop = top + ROW - clientHeight;
    this.draw();
  }

  private window(): Window {
    const zoomed = this.zoomed;
    const from = zoomed < 0 ? 0 : this.model.start[zoomed];
    const to = zoomed < 0 ? this.model.width : from + this.model.span[zoomed];
    return {
      from, to, widthPx: this.element.clientWidth, topPx: this.element.scrollTop,
      heightPx: this.element.clientHeight, upwards: this.upwards,
    };
  }

  private drawNow(): void {
    const view = this.window();
    const ratio = devicePixelRatio;
    this.canvas.width = Math.round(view.widthPx * ratio);
    this.canvas.height = Math.round(view.heightPx * ratio);
    this.canvas.style.width = `${view.widthPx}px`;
    this.canvas.style.height = `${view.heightPx}px`;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.scale(ratio, ratio);
    const marks = { selected: this.selected, hovered: this.hovered, matches: this.matches };
    paint(context, this.model, view, this.colors, marks);
  }

  private listen(): void {
    const at = (event: MouseEvent) => boxAt(this.model, this.window(), event.offsetX, event.offsetY);
    this.canvas.addEventListener("mousemove", (event) => {
      const box = at(event);
      if (box !== this.hovered) {
        this.hovered = box;
        this.draw();
      }
      this.events.hover(box, event.clientX, event.clientY);
    });
    this.canvas.addEventListener("mouseleave", () => {
      this.hovered = -1;
      this.events.hover(-1, 0, 0);
      this.draw();
    });
    this.canvas.addEventListener("click", (event) => {
      const box = at(event);
      this.selected = box;
      this.events.select(box);
      this.events.zoom(box);
    });
    this.canvas.addEventListener("contextmenu", (event) => {
      const box = at(event);
      if (box < 0) return;
      event.preventDefault();
      this.selected = box;
      this.draw();
      this.events.menu(box, event.clientX, event.clientY);
    });
  }
}
