// The one tooltip of the page, near the pointer and never over the edge.

import { h, show } from "../dom.ts";

const box = h("div.tooltip", { role: "tooltip", hidden: true });
document.body.append(box);

export function showTooltip(x: number, y: number, ...content: (Node | string)[]): void {
  show(box, ...content);
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  box.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
  box.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 10) : y + 18}px`;
}

export function hideTooltip(): void {
  box.hidden = true;
}
