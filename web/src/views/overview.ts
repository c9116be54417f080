// The first look: facts, findings, who holds most by each measure, and what stands out.

import type { Finding, FindingPlace, SampleType, Summary, Top } from "../api_types.ts";
import { h, show } from "../dom.ts";
import { bytes, change, count, duration, moment, percent, quantity, withoutFolder } from "../format.ts";
import { setViewKeys } from "../keys.ts";
import type { View } from "../state/location.ts";
import { href } from "../state/navigate.ts";
import { language, t } from "../strings.ts";
import { typeTitle } from "../toolbar/choices.ts";
import { bar } from "../widgets/bar.ts";
import { notRecording, trouble, waiting } from "../widgets/message.ts";
import { ownPlace } from "../widgets/own_place.ts";
import { ledgerCard } from "./ledger.ts";
import { ask, isUnrecorded, type Draw, type ViewInput } from "./view.ts";

const ROWS = 8;

export const drawOverview: Draw = async (input) => {
  setViewKeys([]);
  if (isUnrecorded(input)) return h("section.overview", null, notRecording(), ledgerCard(input));
  const summary = await ask<Summary>(input, "summary", language);
  const types = summary.sample_types.filter((type) => type.total !== 0 || type.base !== 0);
  const cards = [findingsCard(input), ...types.map((type) => topCard(input, type))];
  // The present state is drawn again and again: its cards are filled before they replace the old
  // ones.
  if (!input.state.profile) await Promise.all(cards.map((card) => card.filled));
  const [findings, ...tops] = cards.map((card) => card.element);
  return h("section.overview", null,
    findings,
    h("div.tiles", null, tiles(summary)),
    ["live", "recording"].includes(input.page.source.kind) && ledgerCard(input),
    h("div.columns", null, tops),
    facts(summary));
};

/// A card, and when the answer of the server is in it.
interface Card {
  element: HTMLElement;
  filled: Promise<void>;
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
  if (live) shown.push(tile(t("tile.live"), amount(live), blocks ? t("tile.blocks", { n: amount(blocks) }) : ""));
  if (summary.peak_bytes) shown.push(tile(t("tile.peak"), bytes(summary.peak_bytes), live ? t("tile.peak.now", { share: percent(live.total, summary.peak_bytes) }) : ""));
  if (allocated?.total) shown.push(tile(t("tile.allocated"), amount(allocated), allocations ? t("tile.allocations", { n: amount(allocations) }) : ""));
  if (summary.duration_ms) shown.push(tile(t("tile.time"), duration(summary.duration_ms), summary.time_unix_ms ? moment(summary.time_unix_ms) : ""));
  shown.push(tile(t("tile.stacks"), count(summary.stacks), t("tile.functions", { functions: count(summary.functions), threads: count(summary.threads) })));
  const mean = summary.sampling_mean_bytes;
  shown.push(tile(t("tile.measured"), mean ? t("tile.sampled") : t("tile.exact"), mean ? t("tile.sampled.note", { bytes: bytes(mean) }) : t("tile.exact.note")));
  return shown;
}

/// Filled when the server has looked; nothing to say leaves no card.
function findingsCard(input: ViewInput): Card {
  const card = h("div.card.findings-card", null, h("h2", null, t("findings")), waiting());
  const item = (finding: Finding) => h("li", null,
    h("a", { href: link(finding), "data-go": true }, finding.sentence),
    finding.places.length > 0 && h("table.plain.places", null, h("tbody", null, finding.places.map(placeRow))));
  // A finding of a recording has its own moment; one of a profile is about the moment on screen.
  const link = (finding: Finding) => href({
    view: finding.view as View, focus: finding.focus, type: finding.sample_type, at: finding.at ?? input.state.at, zoom: "", search: "",
  });
  const filled = ask<{ findings: Finding[] }>(input, "findings", language).then(({ findings }) => {
    show(card, h("h2", null, t("findings")), h("ul.findings", null, findings.map(item)));
    card.hidden = findings.length === 0;
  }, () => void (card.hidden = true));
  return { element: card, filled };
}

/// A function of a finding: `31.9 MiB  92.9 %  get (server.cc:9) ← handle ← main`.
function placeRow(place: FindingPlace): HTMLElement {
  const amount = place.unit === "bytes" ? bytes(place.value) : t("tile.blocks", { n: count(place.value) });
  const callers = place.stack.slice(place.function.length);
  return h("tr", null, h("td.number", null, amount), h("td.number.muted", null, `${place.percent.toFixed(1)} %`),
    h("td", { title: place.stack }, h("b", null, place.function), " ", place.source && h("code", null, place.source), h("span.muted", null, callers)));
}

function topCard(input: ViewInput, type: SampleType): Card {
  const body = h("div", null, waiting());
  const title = h("h2", null, h("a", { href: href({ view: "table", type: type.name }), "data-go": true }, typeTitle(type.name)),
    h("span.muted", null, ` ${type.base ? change(type.total, type.unit) : quantity(type.total, type.unit)}`));
  const filled = ask<Top>(input, "top", { sample_type: type.name, n: String(ROWS) }).then(
    (top) => show(body, topRows(top, type)),
    (why) => show(body, trouble(why)),
  );
  return { element: h("div.card", null, title, body), filled };
}

function topRows(top: Top, type: SampleType): HTMLElement {
  const whole = top.base_total || top.total;
  const most = Math.max(...top.rows.map((row) => Math.abs(row.flat))) || 1;
  const link = (name: string) => h("a", { href: href({ view: "flame", type: type.name, shape: "sandwich", pivot: name }), "data-go": true, title: name }, withoutFolder(name));
  const own = (row: Top["rows"][number]) => (row.own && !row.own.is_itself ? ownPlace(row) : "");
  return h("table.plain.top-list", null, h("tbody", null, top.rows.filter((row) => row.flat !== 0).map((row) => h("tr", null,
    h("td.number", null, top.base_total ? change(row.flat, top.unit) : quantity(row.flat, top.unit)),
    h("td.wide", null, bar(row.flat / most)), h("td.number.muted", null, percent(row.flat, whole)), h("td.name", null, link(row.name)), h("td.where.aside", { title: t("table.own") }, own(row))))));
}

function facts(summary: Summary): HTMLElement {
  const rows: [string, string][] = [[t("fact.program"), summary.program], [t("fact.command"), summary.args.join(" ")], [t("fact.format"), summary.format]];
  if (summary.pid) rows.push([t("fact.process"), String(summary.pid)]);
  if (summary.time_unix_ms) rows.push([t("fact.taken"), moment(summary.time_unix_ms)]);
  for (const gap of summary.coverage.gaps) rows.push([t("fact.gap"), gap.words]);
  for (const comment of summary.comments) rows.push([t("fact.remark"), comment]);
  return h("div.card", null, h("h2", null, t("facts")), h("dl.facts", null,
    rows.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", null, name), h("dd", null, value)])));
}
