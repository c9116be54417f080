// Focus, ignore, hide, show: what takes part, as chips that can be taken off one by one.

import { h } from "../dom.ts";
import type { State } from "../state/location.ts";
import { go } from "../state/navigate.ts";
import { t } from "../strings.ts";

const KINDS = ["focus", "ignore", "hide", "show"] as const;

export function refine(state: State): HTMLElement[] {
  const kind = h("select", { "aria-label": t("refine.kind") }, KINDS.map((name) => h("option", { value: name, title: t(`refine.${name}.about`) }, t(`refine.${name}`))));
  const pattern = h("input", { type: "search", placeholder: t("refine.placeholder"), "aria-label": t("refine.pattern"), spellcheck: "false" });
  const apply = (event: Event) => {
    event.preventDefault();
    pattern.blur();
    if (pattern.value) go({ [kind.value]: pattern.value, zoom: "" });
  };
  const form = h("form.choice.refine", { onsubmit: apply }, h("span", null, t("refine")), kind, pattern);
  const chips = [...KINDS, "thread" as const].filter((name) => state[name])
    .map((name) => chip(`${t(`refine.${name}`)}: ${readable(state[name])}`, () => go({ [name]: "", zoom: "" })));
  return [form, ...chips];
}

function chip(text: string, remove: () => void): HTMLElement {
  return h("span.chip", null, h("span", { title: text }, text), h("button", { "aria-label": t("refine.remove", { text }), onclick: remove }, "×"));
}

/// A pattern made from one name, as that name.
function readable(pattern: string): string {
  const exact = /^\^(.*)\$$/.exec(pattern);
  return exact ? exact[1].replace(/\\(.)/g, "$1") : pattern;
}
