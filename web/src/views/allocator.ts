// What the allocator and the kernel say about the same memory.

import { get } from "../api.ts";
import type { Statistics } from "../api_types.ts";
import { h } from "../dom.ts";
import { duration, quantity } from "../format.ts";
import { setViewKeys } from "../keys.ts";
import { t, word } from "../strings.ts";
import { nothing } from "../widgets/message.ts";
import type { Draw } from "./view.ts";

export const drawAllocator: Draw = async (input) => {
  setViewKeys([]);
  const statistics = await get<Statistics>(`sources/${encodeURIComponent(input.state.source)}/statistics`);
  if (!statistics.sections.length) return nothing(t("nothing.allocator"), t("nothing.allocator.why"));
  return h("section.columns", null, statistics.sections.map((section) => h("div.card", null, h("h2", null, t(`section.${section.key}`, { name: section.allocator ?? "" })),
    h("table.plain", null, h("tbody", null, section.rows.map((row) => h("tr", null,
      h("th.left", { scope: "row" }, name(row.name), row.about && h("small", null, about(row))), h("td.number", null, row.unit === "nanoseconds" ? duration(row.value / 1e6) : quantity(row.value, row.unit)))))))));
};

/// A number of the allocator, the kernel or the probe, or a line of the ledger.
function name(english: string): string {
  const known = word("stat", english);
  return known === english ? word("line", english) : known;
}

/// What a number is; a line of a runtime has a name of its own.
function about(row: { name: string; about?: string }): string {
  const known = word("about", row.name);
  return known === row.name ? row.about ?? "" : known;
}
