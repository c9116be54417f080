// How large the blocks are: a histogram, and who allocates the largest.

import type { Sizes } from "../api_types.ts";
import { h } from "../dom.ts";
import { bytes, count, percent } from "../format.ts";
import { setViewKeys } from "../keys.ts";
import { bar } from "../widgets/bar.ts";
import { nothing } from "../widgets/message.ts";
import { ask, type Draw } from "./view.ts";

export const drawSizes: Draw = async (input) => {
  const sizes = await ask<Sizes>(input, "sizes", { n: "20" });
  setViewKeys([]);
  if (!sizes.classes.length) return nothing("No block sizes", "This profile holds no blocks that pass the filter.");
  const all = sizes.classes.reduce((sum, item) => ({ bytes: sum.bytes + item.bytes, objects: sum.objects + item.objects }), { bytes: 0, objects: 0 });
  const most = { bytes: Math.max(...sizes.classes.map((item) => item.bytes)), objects: Math.max(...sizes.classes.map((item) => item.objects)) };
  const rows = sizes.classes.map((item) => h("tr", null,
    h("th", { scope: "row" }, label(item.min, item.max)),
    h("td.number", null, bytes(item.bytes)), h("td.wide", null, bar(item.bytes / most.bytes)), h("td.number.aside", null, percent(item.bytes, all.bytes)),
    h("td.number", null, count(item.objects)), h("td.wide", null, bar(item.objects / most.objects)), h("td.number.aside", null, percent(item.objects, all.objects))));
  return h("section.sizes", null,
    sizes.source === "means" && h("p", null, "Stacks that mix sizes count as blocks of their mean size."),
    h("div.card", null, h("table.plain", null, h("thead", null, h("tr", null, h("th", null, "Block size"), h("th", null, "Bytes"), h("td.wide"), h("td.aside"), h("th", null, "Blocks"), h("td.wide"), h("td.aside"))), h("tbody", null, rows))),
    h("h2", null, "Largest blocks"),
    h("div.card", null, h("table.plain", null, h("thead", null, h("tr", null, h("th.aside", null, "Smallest"), h("th.aside", null, "Mean"), h("th", null, "Largest"), h("th", null, "Blocks"), h("th", null, "Bytes"), h("th.left", null, "Allocated by"))),
      h("tbody", null, sizes.largest.map((site) => h("tr", null, h("td.number.aside", null, size(site.min_bytes)), h("td.number.aside", null, size(site.mean_bytes)), h("td.number", null, size(site.max_bytes)), h("td.number", null, count(site.objects)), h("td.number", null, bytes(site.bytes)),
        h("td.name", null, h("code", null, site.name))))))));
};

function label(min: number, max: number): string {
  return `${bytes(min)} – ${bytes(max)}`;
}

function size(value: number | null): string {
  return value === null ? "–" : bytes(value);
}
