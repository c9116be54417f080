// What the allocator and the kernel say about the same memory.

import { get } from "../api.ts";
import type { Statistics } from "../api_types.ts";
import { h } from "../dom.ts";
import { duration, quantity } from "../format.ts";
import { setViewKeys } from "../keys.ts";
import { t } from "../strings.ts";
import { nothing } from "../widgets/message.ts";
import type { Draw } from "./view.ts";

export const drawAllocator: Draw = async (input) => {
  setViewKeys([]);
  const statistics = await get<Statistics>(`sources/${encodeURIComponent(input.state.source)}/statistics`);
  if (!statistics.sections.length) return nothing(t("nothing.allocator"), t("nothing.allocator.why"));
  return h("section.columns", null, statistics.sections.map((section) => h("div.card", null, h("h2", null, section.title),
    h("table.plain", null, h("tbody", null, section.rows.map((row) => h("tr", null,
      h("th.left", { scope: "row" }, row.name, row.about && h("small", null, row.about)), h("td.number", null, row.unit === "nanoseconds" ? duration(row.value / 1e6) : quantity(row.value, row.unit)))))))));
};
