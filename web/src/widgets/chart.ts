// A chart of bytes over time on a canvas, with marks, the peak, and selection by dragging.

import { h, themeColor } from "../dom.ts";
import { bytes, duration } from "../format.ts";
import type { Timeline } from "../api_types.ts";
import { hideTooltip, showTooltip } from "./tooltip.ts";

/// A moment, or a range from one moment to another, in milliseconds.
export type Selected = { from: number; to: number } | null;

const PAD = { left: 64, right: 14, top: 12, bottom: 22 };
/// A drag shorter than this is a click.
const CLICK_PX = 4;

export class Chart {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { role: "img", "aria-label": "live bytes over time" });
  private dragFrom: number | null = null;

  constructor(
    private timeline: Timeline,
    private selected: Selected,
    private readonly choose: (selected: Selected) => void,
  ) {
    this.element = h("div.chart", null, this.canvas);
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.listen();
  }

  /// Shows a longer curve, unless somebody is dragging over the present one.
  replace(timeline: Timeline): void {
    if (this.dragFrom !== null) return;
    this.timeline = timeline;
    this.draw();
  }

  draw(): void {
    const context = this.prepare();
    if (!context) return;
    this.drawGrid(context);
    this.drawCurve(context);
    this.drawMarks(context);
    this.drawSelection(context);
  }

  private get width(): number {
    return this.element.clientWidth;
  }

  private get height(): number {
    return this.element.clientHeight;
  }

  private get span(): { from: number; to: number } {
    const { points } = this.timeline;
    const from = points[0]?.[0] ?? 0;
    return { from, to: Math.max(points.at(-1)?.[0] ?? 1, from + 1) };
  }

  private get top(): number {
    return Math.max(1, ...[this.timeline.peak?.[1] ?? 0], this.timeline.points.reduce((most, point) => Math.max(most, point[1]), 0)) * 1.06;
  }

  private x(ms: number): number {
    const { from, to } = this.span;
    return PAD.left + ((ms - from) / (to - from)) * (this.width - PAD.left - PAD.right);
  }

  private y(value: number): number {
    return this.height - PAD.bottom - (value / this.top) * (this.height - PAD.top - PAD.bottom);
  }

  private msAt(px: number): number {
    const { from, to } = this.span;
    const share = (px - PAD.left) / (this.width - PAD.left - PAD.right);
    return Math.round(from + Math.max(0, Math.min(1, share)) * (to - from));
  }

  private prepare(): CanvasRenderingContext2D | null {
    this.canvas.width = Math.round(this.width * devicePixelRatio);
    this.canvas.height = Math.round(this.height * devicePixelRatio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    const context = this.canvas.getContext("2d");
    context?.scale(devicePixelRatio, devicePixelRatio);
    return context;
  }

  private drawGrid(context: CanvasRenderingContext2D): void {
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = themeColor("--muted");
    context.strokeStyle = themeColor("--line");
    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const value of byteTicks(this.top, Math.max(3, Math.floor(this.height / 44)))) {
      const y = Math.round(this.y(value)) + 0.5;
      line(context, PAD.left, y, this.width - PAD.right, y);
      context.fillText(bytes(value), PAD.left - 8, y);
    }
    context.textAlign = "center";
    const { from, to } = this.span;
    for (const ms of timeTicks(to - from, Math.max(2, Math.floor(this.width / 110)))) {
      context.fillText(duration(ms), Math.min(this.x(from + ms), this.width - 26), this.height - 9);
    }
  }

  private drawCurve(context: CanvasRenderingContext2D): void {
    const { points } = this.timeline;
    if (!points.length) return;
    context.beginPath();
    context.moveTo(this.x(points[0][0]), this.y(0));
    for (const [ms, value] of points) context.lineTo(this.x(ms), this.y(value));
    context.lineTo(this.x(points[points.length - 1][0]), this.y(0));
    context.fillStyle = themeColor("--accent-soft");
    context.fill();
    context.beginPath();
    for (const [ms, value] of points) context.lineTo(this.x(ms), this.y(value));
    context.strokeStyle = themeColor("--accent");
    context.lineWidth = 1.5;
    context.stroke();
  }

  private drawMarks(context: CanvasRenderingContext2D): void {
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "top";
    for (const mark of this.timeline.marks) {
      const x = Math.round(this.x(mark.ms)) + 0.5;
      context.strokeStyle = themeColor("--muted");
      context.setLineDash([2, 3]);
      line(context, x, PAD.top, x, this.height - PAD.bottom);
      context.setLineDash([]);
      if (!mark.profile) {
        context.fillStyle = themeColor("--muted");
        context.textAlign = x > this.width - 80 ? "right" : "left";
        context.fillText(mark.name, x + (context.textAlign === "left" ? 4 : -4), PAD.top);
      }
    }
    const peak = this.timeline.peak;
    if (!peak) return;
    const [x, y] = [this.x(peak[0]), this.y(peak[1])];
    context.fillStyle = themeColor("--accent");
    context.beginPath();
    context.arc(x, y, 3.5, 0, 7);
    context.fill();
    context.fillStyle = themeColor("--text");
    context.textAlign = x > this.width - 140 ? "right" : "left";
    context.fillText(`peak ${bytes(peak[1])}`, x + (context.textAlign === "left" ? 8 : -8), Math.max(0, y - 10));
  }

  private drawSelection(context: CanvasRenderingContext2D): void {
    if (!this.selected) return;
    const from = this.x(this.selected.from);
    const to = this.x(this.selected.to);
    context.fillStyle = themeColor("--select");
    context.fillRect(from, PAD.top, Math.max(to - from, 1), this.height - PAD.top - PAD.bottom);
    context.strokeStyle = themeColor("--select-line");
    context.lineWidth = 1.5;
    line(context, from, PAD.top, from, this.height - PAD.bottom);
    line(context, to, PAD.top, to, this.height - PAD.bottom);
  }

  private listen(): void {
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.dragFrom = event.offsetX;
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (this.dragFrom !== null && Math.abs(event.offsetX - this.dragFrom) > CLICK_PX) {
        this.selected = this.range(this.dragFrom, event.offsetX);
        this.draw();
      }
      this.hint(event);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (this.dragFrom === null) return;
      const clicked = Math.abs(event.offsetX - this.dragFrom) <= CLICK_PX;
      const ms = this.msAt(event.offsetX);
      this.selected = clicked ? { from: ms, to: ms } : this.range(this.dragFrom, event.offsetX);
      this.dragFrom = null;
      this.draw();
      this.choose(this.selected);
    });
    this.canvas.addEventListener("pointerleave", hideTooltip);
  }

  private range(a: number, b: number): { from: number; to: number } {
    return { from: this.msAt(Math.min(a, b)), to: this.msAt(Math.max(a, b)) };
  }

  private hint(event: PointerEvent): void {
    const ms = this.msAt(event.offsetX);
    const { points } = this.timeline;
    const at = points.findLast((point) => point[0] <= ms) ?? points[0];
    if (at) showTooltip(event.clientX, event.clientY, h("b", null, bytes(at[1])), ` live at ${duration(at[0])}`);
  }
}

function line(context: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

/// Steps that clocks have, in milliseconds.
const TIME_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 21600e3, 86400e3];

function timeTicks(most: number, about: number): number[] {
  const step = TIME_STEPS.find((candidate) => most / candidate <= about) ?? most;
  return multiples(step, most);
}

/// Steps are powers of two, so that labels are round in KiB, MiB, GiB.
function byteTicks(most: number, about: number): number[] {
  return multiples(2 ** Math.ceil(Math.log2(Math.max(most / about, 1))), most);
}

function multiples(step: number, most: number): number[] {
  const values: number[] = [];
  for (let value = 0; value <= most; value += step) values.push(value);
  return values;
}
