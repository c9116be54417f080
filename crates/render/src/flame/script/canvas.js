// One flame graph on a canvas: a window over a model that scrolls, zooms, and answers the pointer.

import { palette } from "./drawing.js";
import { boxAt, paint, ROW, rowTop } from "./paint.js";

/** @import { FlameEvents, FlameModel, Matches, Window } from "./types.d.ts" */

export class FlameCanvas {
  selected = -1;
  zoomed = -1;
  /** @type {Matches | null} */
  matches = null;
  #hovered = -1;
  #scheduled = false;

  /** @param {FlameModel} model @param {FlameEvents} events @param {{ upwards: boolean, dark: boolean }} look */
  constructor(model, events, look) {
    this.model = model;
    this.events = events;
    this.upwards = look.upwards;
    this.colors = palette(model.columns, look.dark);
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", "flame graph");
    const space = document.createElement("div");
    space.className = "flame-space";
    space.style.height = `${Math.max(model.levels, 1) * ROW}px`;
    space.append(this.canvas);
    this.element = document.createElement("div");
    this.element.className = "flame-scroll";
    this.element.tabIndex = 0;
    this.element.append(space);
    this.element.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.#listen();
    if (this.upwards) requestAnimationFrame(() => (this.element.scrollTop = this.element.scrollHeight));
  }

  /// Takes the theme's colors again.
  /** @param {boolean} dark */
  recolor(dark) {
    this.colors = palette(this.model.columns, dark);
    this.draw();
  }

  /// Draws on the next frame.
  draw() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#drawNow();
    });
  }

  /// Scrolls a box into sight.
  /** @param {number} box */
  reveal(box) {
    if (box < 0) return;
    const top = rowTop(this.model, { ...this.#window(), topPx: 0 }, this.model.depth[box]);
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.element.scrollTop = top + ROW - clientHeight;
    this.draw();
  }

  /** @returns {Window} */
  #window() {
    const zoomed = this.zoomed;
    const from = zoomed < 0 ? 0 : this.model.start[zoomed];
    const to = zoomed < 0 ? this.model.width : from + this.model.span[zoomed];
    return {
      from, to, widthPx: this.element.clientWidth, topPx: this.element.scrollTop,
      heightPx: this.element.clientHeight, upwards: this.upwards,
    };
  }

  #drawNow() {
    const view = this.#window();
    const ratio = devicePixelRatio;
    this.canvas.width = Math.round(view.widthPx * ratio);
    this.canvas.height = Math.round(view.heightPx * ratio);
    this.canvas.style.width = `${view.widthPx}px`;
    this.canvas.style.height = `${view.heightPx}px`;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.scale(ratio, ratio);
    const marks = { selected: this.selected, hovered: this.#hovered, matches: this.matches };
    paint(context, this.model, view, this.colors, marks);
  }

  #listen() {
    /** @param {MouseEvent} event */
    const at = (event) => boxAt(this.model, this.#window(), event.offsetX, event.offsetY);
    this.canvas.addEventListener("mousemove", (event) => {
      const box = at(event);
      if (box !== this.#hovered) {
        this.#hovered = box;
        this.draw();
      }
      this.events.hover(box, event.clientX, event.clientY);
    });
    this.canvas.addEventListener("mouseleave", () => {
      this.#hovered = -1;
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
