// Where the resident memory of a process is, and was: a stacked bar, its lines, and a chart over
// time.

import { get } from "../api.ts";
import type { Ledger, LedgerHistory } from "../api_types.ts";
import { h, show } from "../dom.ts";
import { bytes, count, percent } from "../format.ts";
import { repeatWhileShown } from "../state/repeat.ts";
import { t, word } from "../strings.ts";
import { lineColor } from "../widgets/line_color.ts";
import { StackedChart } from "../widgets/stacked_chart.ts";
import type { ViewInput } from "./view.ts";

/// A reading costs the server more than a point of the other curve.
const FOLLOW_MS = 5000;

/// The card on screen: a view that is drawn again takes it over, with its chart.
let shown: { id: string; card: HTMLElement } | null = null;

type Answer = { ledger: Ledger | null; history: LedgerHistory };

/// Filled when the server has read the pages; nothing for a process that has ended.
export function ledgerCard(input: ViewInput): HTMLElement {
  if (shown?.id === input.state.source && shown.card.isConnected) return shown.card;
  const card = h("div.card.ledger", { hidden: true });
  const now = h("div", null);
  const chart = new StackedChart(lineColor);
  const fill = ({ ledger, history }: Answer): void => {
    const last = history.rows.at(-1);
    if (!ledger && !last) return;
    const resident = ledger ? ledger.resident : sum(last ?? []);
    const when = ledger ? "" : t("resident.last");
    show(now, h("h2", null, t("resident"), h("span.muted", null, ` ${bytes(resident)}${when}`)), ledger && stack(ledger), ledger ? [rows(ledger), calls(ledger)] : history.rows.length < 2 && rows(only(history)));
    chart.element.hidden = history.rows.length < 2;
    card.hidden = false;
    chart.replace(history);
  };
  const ask = () => get<Answer>(`sources/${encodeURIComponent(input.state.source)}/ledger`);
  show(card, now, chart.element);
  ask().then((answer) => {
    fill(answer);
    if (answer.ledger) repeatWhileShown(card, FOLLOW_MS, async () => fill(await ask()));
  }, () => {});
  shown = { id: input.state.source, card };
  return card;
}

/// The only reading of a history as a ledger.
function only({ names, rows }: LedgerHistory): Pick<Ledger, "resident" | "lines"> {
  const row = rows[0] ?? [];
  return { resident: sum(row), lines: names.map((name, at) => ({ kind: name, name, bytes: row[at + 1] ?? 0, about: "", parts: [] })) };
}

/// Bytes of a row of the history.
function sum(row: number[]): number {
  return row.slice(1).reduce((total, value) => total + value, 0);
}

function stack(ledger: Ledger): HTMLElement {
  const part = (line: Ledger["lines"][number], at: number) =>
    h("i", { title: `${word("line", line.name)}: ${bytes(line.bytes)}`, style: { width: `${(100 * line.bytes / ledger.resident).toFixed(2)}%`, background: lineColor(at, line.name) } });
  return h("div.stacked", { role: "img", "aria-label": ledger.lines.map((line) => `${word("line", line.name)} ${bytes(line.bytes)}`).join(", ") }, ledger.lines.map(part));
}

function rows(ledger: Pick<Ledger, "resident" | "lines">): HTMLElement {
  const row = (line: Ledger["lines"][number], at: number) => h("tr", null,
    h("td", null, h("span.swatch", { style: { background: lineColor(at, line.name) } })),
    h("th.left", { scope: "row", title: line.about }, word("line", line.name)),
    h("td.number", null, bytes(line.bytes)), h("td.number.muted", null, percent(line.bytes, ledger.resident)));
  return h("table.plain", null, h("tbody", null, ledger.lines.map(row)));
}

/// What `madvise` gave back and `memfd_create` made, by the program and by the allocator.
function calls(ledger: Ledger): HTMLElement | null {
  if (!ledger.calls.length) return null;
  const row = (name: string, by: "calls.program" | "calls.allocator", size: number, calls: number) => calls > 0 && h("tr", null,
    h("th.left", { scope: "row" }, name), h("td", null, t(by)), h("td.number", null, bytes(size)), h("td.number.muted", null, t("calls.count", { n: count(calls) })));
  return h("table.plain.calls", null, h("caption", null, t("calls")), h("tbody", null, ledger.calls.flatMap((call) => [
    row(call.call, "calls.program", call.bytes, call.calls), row(call.call, "calls.allocator", call.allocator_bytes, call.allocator_calls)])));
}
