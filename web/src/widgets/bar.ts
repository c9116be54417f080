// A share as a thin bar behind or beside a number.

import { h } from "../dom.ts";

/// `share` of the full width; negative shares are drawn in the color of shrinking.
export function bar(share: number): HTMLElement {
  const width = `${Math.min(100, Math.abs(share) * 100).toFixed(2)}%`;
  return h("span.bar", { "aria-hidden": "true" }, h(share < 0 ? "i.less" : "i", { style: { width } }));
}
