// The top line: where one is, and the page's own settings.

import { h } from "../dom.ts";
import { allKeys } from "../keys.ts";
import { t, word } from "../strings.ts";
import { toggleTheme } from "../state/theme.ts";

export function header(title: string, kind: string | null, ...right: (HTMLElement | null)[]): HTMLElement {
  return h("header.top", null,
    h("a.brand", { href: "/", "data-go": true, title: t("home.back") }, h("span.logo", { "aria-hidden": "true" }, h("i"), h("i"), h("i")), "heapwise"),
    title ? h("h1", { title }, title) : null, kind ? h(`span.pill.${kind}` as "span", null, word("kind", kind)) : null,
    h("span.space"), ...right,
    h("button.icon", { "aria-label": t("theme"), title: t("theme"), onclick: switchTheme }, "◐"),
    h("button.icon.help", { "aria-label": t("keys"), title: `${t("keys")}  ?`, onclick: showHelp }, "?"));
}

export function switchTheme(): void {
  toggleTheme();
  dispatchEvent(new Event("themechange"));
}

/// Keys whose name is longer than their sign.
const NAMES: Record<string, string> = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Enter: "⏎", Backspace: "⌫", Escape: "Esc" };

export function showHelp(): void {
  const dialog = h("dialog", { onclose: () => dialog.remove() },
    h("h2", null, t("keys")),
    h("dl.keys", null, allKeys().flatMap((key) => [h("dt", null, h("kbd", null, NAMES[key.key] ?? key.key)), h("dd", null, key.about)])),
    h("form", { method: "dialog" }, h("button.primary", null, t("close"))));
  document.body.append(dialog);
  dialog.showModal();
}
