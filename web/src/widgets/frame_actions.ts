// What can be done with one frame, the same in every view.

import { go } from "../state/navigate.ts";
import { escapePattern } from "../../../crates/render/src/flame/script/search.js";
import { t } from "../strings.ts";
import { toast } from "./toast.ts";
import type { Action } from "./menu.ts";

export function frameActions(name: string): Action[] {
  const exactly = `^${escapePattern(name)}$`;
  return [
    { label: t("action.sandwich"), run: () => go({ view: "flame", shape: "sandwich", pivot: name, zoom: "" }) },
    { label: t("action.source"), run: () => go({ view: "source", function: name }) },
    { label: t("action.focus"), run: () => go({ focus: exactly, zoom: "" }) },
    { label: t("action.ignore"), run: () => go({ ignore: exactly, zoom: "" }) },
    { label: t("action.hide"), run: () => go({ hide: exactly, zoom: "" }) },
    { label: t("action.copy"), run: () => void copy(name) },
  ];
}

async function copy(text: string): Promise<void> {
  await navigator.clipboard.writeText(text);
  toast(t("done.copy"));
}
