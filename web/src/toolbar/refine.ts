// Focus, ignore, hide, show: what takes part, as chips that can be taken off one by one.

import { h } from "../dom.ts";
import type { State } from "../state/location.ts";
import { go } from "../state/navigate.ts";

const KINDS = [
  ["focus", "Focus", "only stacks with a matching frame"],
  ["ignore", "Ignore", "no stacks with a matching frame"],
  ["hide", "Hide", "take matching frames out of their stacks"],
  ["show", "Show", "keep only matching frames"],
] as const;

export function refine(state: State): HTMLElement[] {
  const kind = h("select", { "aria-label": "Kind of refinement" }, KINDS.map(([name, label, about]) => h("option", { value: name, title: about }, label)));
  const pattern = h("input", { type: "search", placeholder: "regular expression", "aria-label": "Refine by regular expression", spellcheck: "false" });
  const apply = (event: Event) => {
    event.preventDefault();
    if (pattern.value) go({ [kind.value]: pattern.value, zoom: "" });
  };
  const form = h("form.choice.refine", { onsubmit: apply }, h("span", null, "Refine"), kind, pattern);
  const chips = KINDS.filter(([name]) => state[name]).map(([name, label]) => chip(`${label}: ${readable(state[name])}`, () => go({ [name]: "", zoom: "" })));
  if (state.at) chips.push(chip(`At: ${state.at}`, () => go({ at: "" })));
  return [form, ...chips];
}

function chip(text: string, remove: () => void): HTMLElement {
  return h("span.chip", null, h("span", { title: text }, text), h("button", { "aria-label": `Remove ${text}`, onclick: remove }, "×"));
}

/// A pattern made from one name, as that name.
function readable(pattern: string): string {
  const exact = /^\^(.*)\$$/.exec(pattern);
  return exact ? exact[1].replace(/\\(.)/g, "$1") : pattern;
}
