// A histogram of block sizes: a column per class, as wide as its part of the axis, bytes above and
// blocks below.

import type { SizeClass } from "../api_types.ts";
import { h } from "../dom.ts";
import { bytes, count } from "../format.ts";
import { t } from "../strings.ts";
import { hideTooltip, showTooltip } from "./tooltip.ts";

export function sizeLabel({ min, max }: SizeClass): string {
  return min === max ? bytes(min) : `${bytes(min)} – ${bytes(max)}`;
}

export function histogram(classes: SizeClass[]): HTMLElement {
  const most = { bytes: Math.max(1, ...classes.map((item) => item.bytes)), objects: Math.max(1, ...classes.map((item) => item.objects)) };
  const height = (share: number) => `${(100 * share).toFixed(1)}%`;
  const column = (item: SizeClass) => {
    const text = t("sizes.bar", { size: sizeLabel(item), bytes: bytes(item.bytes), blocks: count(item.objects) });
    return h("div.column", { onpointermove: (event: PointerEvent) => showTooltip(event.clientX, event.clientY, text), onpointerleave: hideTooltip },
      h("div.up", null, h("i", { style: { height: height(item.bytes / most.bytes) } })),
      h("div.down", null, h("i", { style: { height: height(item.objects / most.objects) } })));
  };
  const ticks = [classes[0], classes[Math.floor(classes.length / 4)], classes[Math.floor(classes.length / 2)], classes[Math.floor((3 * classes.length) / 4)], classes[classes.length - 1]];
  return h("figure.histogram", null,
    h("div.columns-of", { role: "img", "aria-label": t("sizes.chart") }, classes.map(column)),
    h("div.axis", { "aria-hidden": "true" }, [...new Set(ticks)].map((item) => h("span", null, bytes(item.max)))),
    h("figcaption.legend", null, h("i.of-bytes"), h("span", null, t("sizes.bytes")), h("i.of-blocks"), h("span", null, t("sizes.blocks"))));
}
