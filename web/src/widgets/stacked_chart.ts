// Stacked areas over time: one per line of the ledger, with a legend and the numbers under the
// pointer.

import type { LedgerHistory } from "../api_types.ts";
import { h, show } from "../dom.ts";
import { bytes, duration } from "../format.ts";
import { t, word } from "../strings.ts";
import { hideTooltip, showTooltip } from "./tooltip.ts";

const WIDTH = 1000;
const HEIGHT = 160;
const SVG = "http://www.w3.org/2000/svg";

export class StackedChart {
  readonly element = h("figure.stacked-chart", { hidden: true });
  private history: LedgerHistory = { names: [], rows: [] };

  constructor(private readonly color: (at: number, name: string) => string) {
    this.element.addEventListener("pointerleave", hideTooltip);
  }

  /// Shows a longer history.
  replace(history: LedgerHistory): void {
    this.history = history;
    if (history.rows.length < 2) return;
    const drawing = document.createElementNS(SVG, "svg");
    drawing.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    drawing.setAttribute("preserveAspectRatio", "none");
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", t("resident.chart"));
    drawing.append(...this.areas());
    drawing.addEventListener("pointermove", (event) => this.hint(event, drawing));
    const last = history.rows[history.rows.length - 1];
    const legend = history.names.map((name, at) => h("li", null, h("span.swatch", { style: { background: this.color(at, name) } }), `${word("line", name)} ${bytes(last[at + 1])}`));
    show(this.element, drawing as unknown as HTMLElement, h("figcaption", null,
      h("span.muted", null, t("resident.span", { from: duration(history.rows[0][0]), to: duration(last[0]), bytes: bytes(this.top) })), h("ul.legend", null, legend)));
  }

  private get top(): number {
    return Math.max(1, ...this.history.rows.map((row) => row.slice(1).reduce((total, value) => total + value, 0)));
  }

  private areas(): SVGElement[] {
    const { names, rows } = this.history;
    const [from, to] = [rows[0][0], rows[rows.length - 1][0]];
    const top = this.top;
    const x = (ms: number) => ((ms - from) / Math.max(to - from, 1)) * WIDTH;
    const y = (value: number) => HEIGHT - (value / top) * HEIGHT;
    const floor = rows.map(() => 0);
    return names.map((name, at) => {
      const point = (row: number[], n: number) => `${x(row[0]).toFixed(1)},${y(floor[n]).toFixed(1)}`;
      const below = rows.map(point).reverse();
      rows.forEach((row, n) => (floor[n] += row[at + 1]));
      const area = document.createElementNS(SVG, "polygon");
      area.setAttribute("points", [...rows.map(point), ...below].join(" "));
      area.style.fill = this.color(at, name);
      return area;
    });
  }

  private hint(event: PointerEvent, drawing: SVGSVGElement): void {
    const { names, rows } = this.history;
    const box = drawing.getBoundingClientRect();
    const share = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
    const ms = rows[0][0] + share * (rows[rows.length - 1][0] - rows[0][0]);
    const row = rows.findLast((candidate) => candidate[0] <= ms) ?? rows[0];
    const lines = names.map((name, at) => h("div", null, `${word("line", name)} ${bytes(row[at + 1])}`));
    showTooltip(event.clientX, event.clientY, h("b", null, duration(row[0])), ...lines);
  }
}
