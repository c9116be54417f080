// What stands where a picture would: waiting, nothing to show, or what went wrong.

import { h } from "../dom.ts";
import { ApiError } from "../api.ts";
import { t } from "../strings.ts";

export function waiting(): HTMLElement {
  return h("div.message.waiting", { role: "status" }, t("wait"));
}

export function nothing(title: string, hint: string): HTMLElement {
  return h("div.message", null, h("b", null, title), h("p", null, hint));
}

/// Shown in place of every view of a process of which nothing was recorded: no number is known.
export function notRecording(): HTMLElement {
  return nothing(t("off"), t("off.hint"));
}

export function trouble(why: unknown): HTMLElement {
  const text = why instanceof ApiError ? why.message : t("trouble.page", { why: String(why) });
  return h("div.message.trouble", { role: "alert" }, h("b", null, t("trouble")), h("p", null, text));
}
