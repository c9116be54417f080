// The top line: where one is, and the page's own settings.

import { h } from "../dom.ts";
import { allKeys } from "../keys.ts";
import { toggleTheme } from "../state/theme.ts";

export function header(title: string, kind: string | null, ...right: (HTMLElement | null)[]): HTMLElement {
  return h("header.top", null,
    h("a.brand", { href: "/", "data-go": true, title: "All processes and files" }, h("span.logo", { "aria-hidden": "true" }, h("i"), h("i"), h("i")), "heapwise"),
    title ? h("h1", { title }, title) : null, kind ? h(`span.pill.${kind}` as "span", null, kind) : null,
    h("span.space"), ...right,
    h("button.icon", { "aria-label": "Light or dark", title: "Light or dark", onclick: switchTheme }, "◐"),
    h("button.icon", { "aria-label": "Keyboard", title: "Keyboard  ?", onclick: showHelp }, "?"));
}

function switchTheme(): void {
  toggleTheme();
  dispatchEvent(new Event("themechange"));
}

export function showHelp(): void {
  const dialog = h("dialog", { onclose: () => dialog.remove() },
    h("h2", null, "Keyboard"),
    h("dl.keys", null, allKeys().flatMap((key) => [h("dt", null, h("kbd", null, key.key)), h("dd", null, key.about)])),
    h("form", { method: "dialog" }, h("button.primary", null, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}
