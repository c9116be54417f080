// The first look: facts, the timeline, who holds most by each measure, and what stands out.

import type { Finding, SampleType, Summary, Top } from "../api_types.ts";
import { h, show } from "../dom.ts";
import { bytes, change, count, duration, moment, percent, quantity } from "../format.ts";
import { setViewKeys } from "../keys.ts";
import type { View } from "../state/location.ts";
import { href } from "../state/navigate.ts";
import { bar } from "../widgets/bar.ts";
import { Chart } from "../widgets/chart.ts";
import { nothing, trouble, waiting } from "../widgets/message.ts";
import { ledgerCard } from "./ledger.ts";
import { choose, fetchTimeline, follow, selected } from "./timeline.ts";
import { ask, type Draw, type ViewInput } from "./view.ts";

const ROWS = 8;

const TITLES: Record<string, string> = {
  inuse_space: "Live bytes", inuse_objects: "Live blocks", alloc_space: "Allocated bytes", alloc_objects: "Allocations",
  peak_space: "At the peak", peak_objects: "Blocks at the peak", highest_space: "Highest per stack", highest_objects: "Most blocks per stack",
  temporary_objects: "Temporary blocks", inuse_slack: "Slack of live blocks", alloc_slack: "Slack of all blocks", realloc_growth: "Grown by realloc",
};

export const drawOverview: Draw = async (input) => {
  setViewKeys([]);
  const summary = await ask<Summary>(input, "summary");
  const { source } = input.page;
  if (source.kind === "live" && source.mode === "off" && !summary.stacks) {
    return nothing("Not recording", "The probe is in the process and idle. “Start” records from now on; blocks that are live already are not counted.");
  }
  const types = summary.sample_types.filter((type) => type.total !== 0 || type.base !== 0);
  return h("section.overview", null,
    h("div.tiles", null, tiles(summary)),
    findingsCard(input),
    ["live", "recording"].includes(input.page.source.kind) && ledgerCard(input),
    input.page.source.has_timeline && chartCard(input),
    h("div.columns", null, types.map((type) => topCard(input, type))),
    facts(summary));
};

export function typeTitle(name: string): string {
  return TITLES[name] ?? name.replaceAll("_", " ");
}

function tiles(summary: Summary): HTMLElement[] {
  const tile = (label: string, value: string, note = "") => h("div.tile", null, h("span.label", null, label), h("b", null, value), h("span.note", null, note));
  const total = (name: string) => summary.sample_types.find((type) => type.name === name);
  const amount = (type: SampleType) => (type.base ? change(type.total, type.unit) : quantity(type.total, type.unit));
  const live = total("inuse_space");
  const blocks = total("inuse_objects");
  const allocated = total("alloc_space");
  const allocations = total("alloc_objects");
  const shown: HTMLElement[] = [];
  if (live) shown.push(tile("Live", amount(live), blocks ? `${amount(blocks)} blocks` : ""));
  if (summary.peak_bytes) shown.push(tile("Peak", bytes(summary.peak_bytes), live ? `now ${percent(live.total, summary.peak_bytes)} of it` : ""));
  if (allocated?.total) shown.push(tile("Allocated", amount(allocated), allocations ? `${amount(allocations)} allocations` : ""));
  if (summary.duration_ms) shown.push(tile("Time", duration(summary.duration_ms), summary.time_unix_ms ? moment(summary.time_unix_ms) : ""));
  shown.push(tile("Stacks", count(summary.stacks), `${count(summary.functions)} functions, ${count(summary.threads)} ${summary.threads === 1 ? "thread" : "threads"}`));
  const mean = summary.sampling_mean_bytes;
  shown.push(tile("Measured", mean ? "Sampled" : "Exactly", mean ? `one block in ${bytes(mean)}` : "every allocation"));
  return shown;
}

/// Filled when the server has looked; nothing to say leaves no card.
function findingsCard(input: ViewInput): HTMLElement {
  const card = h("div.card", { hidden: true });
  const item = (finding: Finding) => {
    const place = finding.source ? `${finding.stack ?? ""} (${finding.source})` : finding.stack ?? "";
    return h("li", null,
      h("a", { href: link(finding), "data-go": true }, finding.sentence), h("span.muted", null, ` ${place}`));
  };
  // A finding of a recording has its own moment; one of a profile is about the moment on screen.
  const link = (finding: Finding) => href({
    view: finding.view as View, focus: finding.focus, type: finding.sample_type, at: finding.at ?? input.state.at, zoom: "", search: "",
  });
  ask<{ findings: Finding[] }>(input, "findings").then(({ findings }) => {
    show(card, h("h2", null, "Findings"), h("ul.findings", null, findings.map(item)));
    card.hidden = findings.length === 0;
  }, () => {});
  return card;
}

function chartCard(input: ViewInput): HTMLElement {
  const card = h("div.card.chart-card", null, waiting());
  fetchTimeline(input).then(
    (timeline) => {
      if (timeline.points.length < 2) return card.remove();
      const chart = new Chart(timeline, selected(input, timeline), (picked) => choose(timeline, picked));
      follow(input, chart);
      show(card, h("h2", null, "Live bytes over time"), h("div.chart-box.small", null, chart.element));
    },
    (why) => show(card, trouble(why)),
  );
  return card;
}

function topCard(input: ViewInput, type: SampleType): HTMLElement {
  const body = h("div", null, waiting());
  const title = h("h2", null, h("a", { href: href({ view: "table", type: type.name }), "data-go": true }, typeTitle(type.name)),
    h("span.muted", null, ` ${type.base ? change(type.total, type.unit) : quantity(type.total, type.unit)}`));
  ask<Top>(input, "top", { sample_type: type.name, n: String(ROWS) }).then(
    (top) => show(body, topRows(top, type)),
    (why) => show(body, trouble(why)),
  );
  return h("div.card", null, title, body);
}

function topRows(top: Top, type: SampleType): HTMLElement {
  const whole = top.base_total || top.total;
  const most = Math.max(...top.rows.map((row) => Math.abs(row.flat))) || 1;
  const link = (name: string) => h("a", { href: href({ view: "flame", type: type.name, shape: "sandwich", pivot: name }), "data-go": true, title: name }, name);
  return h("table.plain.top-list", null, h("tbody", null, top.rows.map((row) => h("tr", null,
    h("td.number", null, top.base_total ? change(row.flat, top.unit) : quantity(row.flat, top.unit)),
    h("td.wide", null, bar(row.flat / most)), h("td.number.muted", null, percent(row.flat, whole)), h("td.name", null, link(row.name))))));
}

function facts(summary: Summary): HTMLElement {
  const rows: [string, string][] = [["Program", summary.program], ["Command", summary.args.join(" ")], ["Format", summary.format]];
  if (summary.pid) rows.push(["Process", String(summary.pid)]);
  if (summary.time_unix_ms) rows.push(["Taken", moment(summary.time_unix_ms)]);
  for (const gap of summary.coverage.gaps) rows.push(["Incomplete", gap.words]);
  for (const comment of summary.comments) rows.push(["Remark", comment]);
  return h("div.card", null, h("h2", null, "Facts"), h("dl.facts", null,
    rows.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", null, name), h("dd", null, value)])));
}
