// Memory over time on a canvas: live bytes, lines of the resident memory, allocation rate, marks,
// and cursors that can be dragged.

import type { LedgerHistory, Timeline } from "../api_types.ts";
import { h, themeColor } from "../dom.ts";
import { bytes, duration } from "../format.ts";
import type { Chosen, Mode, Span } from "../state/moment.ts";
import { t, word } from "../strings.ts";
import { lineColor } from "./line_color.ts";
import { byteTicks, line, timeTicks } from "./ticks.ts";
import { hideTooltip, showTooltip } from "./tooltip.ts";

const PAD = { left: 64, right: 14, top: 14, bottom: 20 };
/// Height of the band of the allocation rate.
const BAND = 22;
/// A drag shorter than this is a click; a cursor this near is taken hold of.
const CLICK_PX = 4;
/// Steps of the keyboard over the whole width.
const KEY_STEPS = 100;

type Pick = (mode: Mode, span: Span, isFinal: boolean) => void;

export class StripChart {
  readonly element: HTMLElement;
  showsResident = true;
  private readonly canvas = h("canvas", { role: "img", "aria-label": t("strip.chart") });
  /// The moment that a drag keeps, while there is one.
  private dragFrom: number | null = null;
  private isDragged = false;

  constructor(private timeline: Timeline, private chosen: Chosen, private readonly pick: Pick) {
    this.element = h("div.chart", null, this.canvas);
    new ResizeObserver(() => this.draw()).observe(this.element);
    addEventListener("themechange", () => this.draw());
    this.listen();
  }

  /// Shows another selection, or a longer curve, unless somebody is dragging over the present one.
  update(timeline: Timeline, chosen: Chosen): void {
    if (this.dragFrom !== null) return;
    this.timeline = timeline;
    this.chosen = chosen;
    this.draw();
  }

  /// Moves a cursor by some steps: the only one, or the first or second of two.
  step(which: keyof Span, by: number): void {
    const { from, to } = this.range;
    const size = Math.max(1, Math.round((to - from) / KEY_STEPS));
    const now = this.chosen.span ?? { from: to, to };
    const moved = (ms: number) => Math.max(from, Math.min(to, ms + by * size));
    const span = which === "to" ? { from: now.from, to: moved(now.to) } : { from: moved(now.from), to: now.to };
    const isOne = which === "from" && now.from === now.to;
    if (isOne) span.to = span.from;
    const mode = isOne ? "moment" : this.chosen.mode === "diff" ? "diff" : "range";
    this.pick(mode, { from: Math.min(span.from, span.to), to: Math.max(span.from, span.to) }, true);
  }

  draw(): void {
    const context = this.prepare();
    if (!context || this.width <= 0) return;
    this.canvas.setAttribute("aria-label", [t("strip.chart"), ...this.timeline.marks.map((mark) => `${mark.name} ${duration(mark.ms)}`)].join("; "));
    this.drawGrid(context);
    if (this.showsResident) this.drawResident(context);
    if (isRecorded(this.timeline)) {
      this.drawRate(context);
      this.drawLive(context);
    }
    this.drawMarks(context);
    this.drawSelection(context);
  }

  private get width(): number {
    return this.element.clientWidth;
  }

  private get height(): number {
    return this.element.clientHeight;
  }

  /// First and last moment.
  private get range(): Span {
    const { points } = this.timeline;
    const from = points[0]?.[0] ?? 0;
    return { from, to: Math.max(points.at(-1)?.[0] ?? 1, from + 1) };
  }

  private get top(): number {
    const live = this.timeline.points.reduce((most, point) => Math.max(most, point[1]), this.timeline.peak?.[1] ?? 0);
    const rows = this.showsResident ? this.timeline.resident.rows : [];
    const rss = this.showsResident ? this.timeline.rss.reduce((most, value) => Math.max(most, value), 0) : 0;
    return Math.max(1, live, rss, rows.reduce((most, row) => Math.max(most, total(row)), 0)) * 1.06;
  }

  private x(ms: number): number {
    const { from, to } = this.range;
    const share = Math.max(0, Math.min(1, (ms - from) / (to - from)));
    return PAD.left + share * (this.width - PAD.left - PAD.right);
  }

  private y(value: number, top: number): number {
    return this.height - PAD.bottom - BAND - (value / top) * (this.height - PAD.top - PAD.bottom - BAND);
  }

  private msAt(px: number): number {
    const { from, to } = this.range;
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
    const top = this.top;
    context.font = "11px system-ui, sans-serif";
    context.strokeStyle = themeColor("--line");
    context.fillStyle = themeColor("--muted");
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const value of byteTicks(top, 3)) {
      const y = Math.round(this.y(value, top)) + 0.5;
      line(context, PAD.left, y, this.width - PAD.right, y);
      context.fillText(bytes(value), PAD.left - 8, y);
    }
    context.textAlign = "center";
    const { from, to } = this.range;
    for (const ms of timeTicks(from, to, Math.max(2, Math.floor(this.width / 110)))) {
      const text = duration(ms);
      context.fillText(text, Math.min(this.x(ms), this.width - context.measureText(text).width / 2), this.height - 9);
    }
  }

  /// Resident memory, and below it the lines of the ledger on top of each other.
  private drawResident(context: CanvasRenderingContext2D): void {
    const { names, rows } = this.timeline.resident;
    const top = this.top;
    const sums = rows.map(() => 0);
    context.lineWidth = 1;
    const drawn = drawnLines(this.timeline.resident);
    names.forEach((name, at) => {
      rows.forEach((row, n) => (sums[n] += row[at + 1]));
      if (!drawn.some((line) => line.at === at)) return;
      context.beginPath();
      rows.forEach((row, n) => context.lineTo(this.x(row[0]), this.y(sums[n], top)));
      context.strokeStyle = name === "unexplained" ? themeColor("--muted") : lineColor(at, name);
      context.globalAlpha = at === names.length - 1 ? 1 : 0.7;
      context.stroke();
    });
    context.globalAlpha = 1;
    const { points, rss } = this.timeline;
    context.beginPath();
    rss.forEach((value, at) => value && context.lineTo(this.x(points[at][0]), this.y(value, top)));
    context.strokeStyle = themeColor("--muted");
    context.lineWidth = 1.5;
    context.stroke();
  }

  private drawRate(context: CanvasRenderingContext2D): void {
    const { points, allocated } = this.timeline;
    const most = allocated.reduce((top, value) => Math.max(top, value), 0);
    if (!most) return;
    const bottom = this.height - PAD.bottom;
    const columns = new Map<number, number>();
    points.forEach(([ms], at) => {
      const x = Math.round(this.x(ms));
      columns.set(x, Math.max(columns.get(x) ?? 0, allocated[at] ?? 0));
    });
    const width = Math.max(1, (this.width - PAD.left - PAD.right) / points.length - 0.5);
    context.fillStyle = themeColor("--less");
    for (const [x, value] of columns) {
      const size = (value / most) * (BAND - 4);
      context.fillRect(x, bottom - size, width, size);
    }
  }

  private drawLive(context: CanvasRenderingContext2D): void {
    const points = this.curve;
    if (!points.length) return;
    const top = this.top;
    context.beginPath();
    context.moveTo(this.x(points[0][0]), this.y(0, top));
    for (const [ms, value] of points) context.lineTo(this.x(ms), this.y(value, top));
    context.lineTo(this.x(points[points.length - 1][0]), this.y(0, top));
    context.fillStyle = themeColor("--accent-soft");
    context.fill();
    context.beginPath();
    for (const [ms, value] of points) context.lineTo(this.x(ms), this.y(value, top));
    context.strokeStyle = themeColor("--accent");
    context.lineWidth = 1.5;
    context.stroke();
  }

  /// The points of the curve, with the peak where it lies between two of them.
  private get curve(): [number, number][] {
    const { points, peak } = this.timeline;
    const at = peak ? points.findIndex(([ms]) => peak[0] !== null && ms >= peak[0]) : -1;
    if (!peak || peak[0] === null || at < 0 || points[at][1] >= peak[1]) return points;
    const ms = peak[0];
    return [...points.slice(0, at), [ms, peak[1]], ...points.slice(at)];
  }

  private drawMarks(context: CanvasRenderingContext2D): void {
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "top";
    const bottom = this.height - PAD.bottom;
    let free = 0;
    for (const mark of this.timeline.marks) {
      const x = Math.round(this.x(mark.ms)) + 0.5;
      context.strokeStyle = themeColor("--muted");
      context.setLineDash([2, 3]);
      line(context, x, PAD.top, x, bottom);
      context.setLineDash([]);
      // A name that would overlap the one before is not drawn.
      if (mark.profile || x < free) continue;
      this.label(context, mark.name, x, 2, "--muted");
      free = x + context.measureText(mark.name).width + 8;
    }
    const peak = this.timeline.peak;
    if (!peak?.[1]) return;
    const [x, y] = [this.x(peak[0] ?? this.range.from), this.y(peak[1], this.top)];
    if (peak[0] === null) {
      this.label(context, t("strip.peak_earlier", { bytes: bytes(peak[1]) }), x, Math.max(0, y - 12), "--text");
      return;
    }
    context.fillStyle = themeColor("--accent");
    context.beginPath();
    context.arc(x, y, 3.5, 0, 7);
    context.fill();
    this.label(context, t("strip.peak_label", { bytes: bytes(peak[1]) }), x, Math.max(0, y - 12), "--text");
  }

  /// Text beside a moment, on the side that has room.
  private label(context: CanvasRenderingContext2D, text: string, x: number, y: number, color: string): void {
    const isRight = x > this.width - 130;
    context.fillStyle = themeColor(color);
    context.textAlign = isRight ? "right" : "left";
    context.fillText(text, x + (isRight ? -6 : 6), y);
  }

  private drawSelection(context: CanvasRenderingContext2D): void {
    const { span, mode } = this.chosen;
    if (!span) return;
    const [from, to] = [this.x(span.from), this.x(span.to)];
    const bottom = this.height - PAD.bottom;
    context.fillStyle = themeColor("--select");
    if (mode === "range") context.fillRect(from, PAD.top, Math.max(to - from, 1), bottom - PAD.top);
    context.strokeStyle = context.fillStyle = themeColor("--select-line");
    context.lineWidth = 1.5;
    for (const x of span.from === span.to ? [to] : [from, to]) {
      line(context, x, PAD.top, x, bottom);
      context.fillRect(x - 4, PAD.top, 8, 8);
    }
  }

  private listen(): void {
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.isDragged = false;
      const { span } = this.chosen;
      const near = (ms: number) => Math.abs(this.x(ms) - event.offsetX) <= CLICK_PX;
      const isTwo = span && span.from !== span.to;
      this.dragFrom = isTwo && near(span.from) ? span.to : isTwo && near(span.to) ? span.from : this.msAt(event.offsetX);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      this.hint(event);
      if (this.dragFrom === null) return;
      if (Math.abs(event.offsetX - this.x(this.dragFrom)) > CLICK_PX) this.isDragged = true;
      if (this.isDragged) this.drag(event, false);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (this.dragFrom === null) return;
      const ms = this.msAt(event.offsetX);
      if (this.isDragged) this.drag(event, true);
      else this.pick("moment", { from: ms, to: ms }, true);
      this.dragFrom = null;
    });
    this.canvas.addEventListener("pointerleave", hideTooltip);
  }

  private drag(event: PointerEvent, isFinal: boolean): void {
    const [a, b] = [this.dragFrom ?? 0, this.msAt(event.offsetX)];
    const mode = this.chosen.mode === "diff" ? "diff" : "range";
    const span = { from: Math.min(a, b), to: Math.max(a, b) };
    this.chosen = { mode, span };
    this.draw();
    this.pick(mode, span, isFinal);
  }

  private hint(event: PointerEvent): void {
    const ms = this.msAt(event.offsetX);
    const { points, allocated, rss, resident } = this.timeline;
    const at = Math.max(0, points.findLastIndex((point) => point[0] <= ms));
    if (!points[at]) return;
    const time = duration(points[at][0]);
    const lines = [h("b", null, isRecorded(this.timeline) ? t("strip.at", { bytes: bytes(points[at][1]), time }) : time)];
    const step = points[at][0] - (points[at - 1]?.[0] ?? points[at][0]);
    if (allocated[at] && step) lines.push(h("div", null, t("strip.per_second", { bytes: bytes((allocated[at] * 1000) / step) })));
    const row = resident.rows.findLast((candidate) => candidate[0] <= ms);
    if (rss[at] || row) lines.push(h("div", null, t("live.resident", { bytes: bytes(rss[at] || total(row ?? [])) })));
    if (row) {
      resident.names.forEach((name, n) => lines.push(h("div.place", null, `${word("line", name)} ${bytes(row[n + 1])}`)));
    }
    showTooltip(event.clientX, event.clientY, ...lines);
  }
}

/// Bytes of a row of the ledger's history.
function total(row: number[]): number {
  return row.slice(1).reduce((sum, value) => sum + value, 0);
}

/// Whether anything was recorded: before that, live bytes are not known.
export function isRecorded({ points, peak }: Timeline): boolean {
  return Boolean(peak?.[1]) || points.some(([, live]) => live > 0);
}

/// Lines of the ledger that are wide enough to be seen: a hundredth of the highest sum.
export function drawnLines({ names, rows }: LedgerHistory): { name: string; at: number }[] {
  if (rows.length < 2) return [];
  const most = rows.reduce((top, row) => Math.max(top, total(row)), 0);
  return names.map((name, at) => ({ name, at })).filter(({ at }) => rows.some((row) => row[at + 1] > most / 100));
}
