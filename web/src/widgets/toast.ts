// A line at the bottom that says what a click did, and goes away.

import { h } from "../dom.ts";

const SHOWN_MS = 4000;
const box = h("div.toast", { role: "status", hidden: true });
document.body.append(box);
let timer = 0;

export function toast(text: string): void {
  box.textContent = text;
  box.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => (box.hidden = true), SHOWN_MS);
}
