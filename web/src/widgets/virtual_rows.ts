// Rows of one height, of which only those on screen exist: tables of a hundred thousand rows.

import { h, show } from "../dom.ts";

export const ROW_PX = 28;
/// Rows kept beyond the edges, so that scrolling shows no gaps.
const MARGIN = 8;

export class VirtualRows {
  readonly element: HTMLElement;
  selected = -1;
  private readonly body = h("div.vrows-body", { role: "presentation" });
  private count = 0;

  constructor(
    private readonly row: (index: number) => HTMLElement,
    private readonly activate: (index: number, event: MouseEvent | null) => void,
  ) {
    this.element = h("div.vrows", { tabindex: "0", role: "rowgroup" }, this.body);
    this.element.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.body.addEventListener("click", (event) => {
      const hit = (event.target as Element).closest<HTMLElement>("[data-row]");
      if (hit) this.select(Number(hit.dataset["row"]), event);
    });
  }

  /// Shows `count` rows.
  resize(count: number): void {
    this.count = count;
    this.body.style.height = `${count * ROW_PX}px`;
    this.draw();
  }

  draw(): void {
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_PX) - MARGIN);
    const last = Math.min(this.count, Math.ceil((this.element.scrollTop + this.element.clientHeight) / ROW_PX) + MARGIN);
    const rows: HTMLElement[] = [];
    for (let index = first; index < last; index += 1) {
      const row = this.row(index);
      row.dataset["row"] = String(index);
      row.style.top = `${index * ROW_PX}px`;
      if (index === this.selected) row.setAttribute("aria-selected", "true");
      rows.push(row);
    }
    show(this.body, rows);
  }

  /// Moves the selection by some rows and brings it into sight.
  move(by: number): void {
    this.selected = Math.max(0, Math.min(this.count - 1, this.selected + by));
    const top = this.selected * ROW_PX;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + ROW_PX > scrollTop + clientHeight) this.element.scrollTop = top + ROW_PX - clientHeight;
    this.draw();
  }

  /// Activates the selected row, as a click would.
  enter(): void {
    if (this.selected >= 0 && this.selected < this.count) this.activate(this.selected, null);
  }

  private select(index: number, event: MouseEvent): void {
    this.selected = index;
    this.draw();
    this.activate(index, event);
  }
}
