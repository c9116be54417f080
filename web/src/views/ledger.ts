// Where the resident memory of a running process is: a stacked bar and its lines.

import { get } from "../api.ts";
import type { Ledger } from "../api_types.ts";
import { h, show } from "../dom.ts";
import { bytes, percent } from "../format.ts";
import type { ViewInput } from "./view.ts";

/// Filled when the server has read the pages; nothing for a process that has ended.
export function ledgerCard(input: ViewInput): HTMLElement {
  const card = h("div.card", { hidden: true });
  get<{ ledger: Ledger | null }>(`sources/${encodeURIComponent(input.state.source)}/ledger`).then(({ ledger }) => {
    if (!ledger) return;
    show(card, h("h3", null, "Resident memory", h("span.muted", null, ` ${bytes(ledger.resident)}`)), stack(ledger), rows(ledger));
    card.hidden = false;
  }, () => {});
  return card;
}

function color(at: number, kind: string): string {
  if (kind === "unexplained") return "var(--muted)";
  return kind.startsWith("heap") ? `hsl(24 55% ${45 + at * 9}%)` : `hsl(${(at * 47 + 150) % 360} 38% 55%)`;
}

function stack(ledger: Ledger): HTMLElement {
  const part = (line: Ledger["lines"][number], at: number) =>
    h("i", { title: `${line.name}: ${bytes(line.bytes)}`, style: { width: `${(100 * line.bytes / ledger.resident).toFixed(2)}%`, background: color(at, line.kind) } });
  return h("div.stacked", { role: "img", "aria-label": ledger.lines.map((line) => `${line.name} ${bytes(line.bytes)}`).join(", ") }, ledger.lines.map(part));
}

function rows(ledger: Ledger): HTMLElement {
  const row = (line: Ledger["lines"][number], at: number) => h("tr", null,
    h("td", null, h("span.swatch", { style: { background: color(at, line.kind) } })),
    h("th.left", { scope: "row", title: line.about }, line.name),
    h("td.number", null, bytes(line.bytes)), h("td.number.muted", null, percent(line.bytes, ledger.resident)));
  return h("table.plain", null, h("tbody", null, ledger.lines.map(row)));
}
