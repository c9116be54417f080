// How the memory divides: by size of the blocks, by thread, by module.

import type { Modules, SizeClass, Sizes, Threads } from "../api_types.ts";
import { h } from "../dom.ts";
import { bytes, count, percent, quantity } from "../format.ts";
import { setViewKeys } from "../keys.ts";
import { href } from "../state/navigate.ts";
import { t } from "../strings.ts";
import { bar } from "../widgets/bar.ts";
import { nothing } from "../widgets/message.ts";
import { histogram, sizeLabel } from "../widgets/histogram.ts";
import { ask, type Draw } from "./view.ts";

export const drawBreakdown: Draw = async (input) => {
  setViewKeys([]);
  const [sizes, threads, modules] = await Promise.all([
    ask<Sizes>(input, "sizes", { n: "12" }), ask<Threads>(input, "threads", { n: "50" }), ask<Modules>(input, "modules"),
  ]);
  if (!sizes.classes.length && !threads.rows.length) return nothing(t("nothing.sizes"), t("nothing.sizes.why"));
  return h("section.breakdown", null,
    sizes.classes.length > 0 && sizesCard(sizes),
    h("div.columns", null, threadsCard(threads), modulesCard(modules)),
    sizes.largest.length > 0 && largestCard(sizes));
};

function sizesCard(sizes: Sizes): HTMLElement {
  return h("div.card.sizes", null, h("h2", null, t("sizes.title")),
    sizes.source === "means" && h("p.note", null, t("sizes.means")),
    histogram(sizes.fine.length ? sizes.fine : sizes.classes),
    h("details", null, h("summary", null, t("sizes.rows")), classRows(sizes.classes)));
}

function classRows(classes: SizeClass[]): HTMLElement {
  const sum = (of: (item: SizeClass) => number) => classes.reduce((total, item) => total + of(item), 0);
  const all = { bytes: sum((item) => item.bytes), objects: sum((item) => item.objects) };
  const rows = classes.map((item) => h("tr", null, h("th", { scope: "row" }, sizeLabel(item)),
    h("td.number", null, bytes(item.bytes)), h("td.number.aside", null, percent(item.bytes, all.bytes)),
    h("td.number", null, count(item.objects)), h("td.number.aside", null, percent(item.objects, all.objects))));
  return h("table.plain.narrow", null,
    h("thead", null, h("tr", null, h("th", null, t("sizes.size")), h("th", null, t("sizes.bytes")), h("td.aside"), h("th", null, t("sizes.blocks")), h("td.aside"))),
    h("tbody", null, rows));
}

function threadsCard(threads: Threads): HTMLElement {
  const most = Math.max(...threads.rows.map((row) => Math.abs(row.value))) || 1;
  const link = (row: Threads["rows"][number]) =>
    row.tid === null ? row.name || "–" : h("a", { href: href({ view: "flame", thread: String(row.tid), zoom: "" }), "data-go": true }, row.name ? `${row.name} (${row.tid})` : String(row.tid));
  return h("div.card.threads", null, h("h2", null, t("threads")), threads.rows.length ? h("table.plain", null, h("tbody", null, threads.rows.map((row) => h("tr", null,
    h("td.number", null, quantity(row.value, threads.unit)), h("td.wide", null, bar(row.value / most)),
    h("td.number.muted", null, percent(row.value, threads.total)), h("td.name", null, link(row))))))
    : h("p.note", null, t("threads.none")));
}

function modulesCard(modules: Modules): HTMLElement {
  const most = Math.max(...modules.rows.map((row) => Math.abs(row.cum))) || 1;
  return h("div.card.modules", null, h("h2", null, t("modules")), h("table.plain", null,
    h("thead", null, h("tr", null, h("th", null, t("table.self")), h("td"), h("th", null, t("table.cum")), h("th.left", null, t("table.name")))),
    h("tbody", null, modules.rows.map((row) => h("tr", null,
    h("td.number", null, quantity(row.flat, modules.unit)), h("td.wide", null, bar(row.cum / most)),
    h("td.number.muted", null, quantity(row.cum, modules.unit)), h("td.name", { title: `${row.path} ${row.build_id}` }, row.name))))));
}

function largestCard(sizes: Sizes): HTMLElement {
  const size = (value: number | null) => (value === null ? "–" : bytes(value));
  return h("div.card", null, h("h2", null, t("sizes.largest")), h("table.plain", null,
    h("thead", null, h("tr", null, h("th.aside", null, t("sizes.smallest")), h("th.aside", null, t("sizes.mean")), h("th", null, t("sizes.max")), h("th", null, t("sizes.blocks")), h("th", null, t("sizes.bytes")), h("th.left", null, t("sizes.by")))),
    h("tbody", null, sizes.largest.map((site) => h("tr", null, h("td.number.aside", null, size(site.min_bytes)), h("td.number.aside", null, size(site.mean_bytes)),
      h("td.number", null, size(site.max_bytes)), h("td.number", null, count(site.objects)), h("td.number", null, bytes(site.bytes)),
      h("td.name", null, h("code", null, site.name)))))));
}
