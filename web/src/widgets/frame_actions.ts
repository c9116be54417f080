// What can be done with one frame, the same in every view.

import { go } from "../state/navigate.ts";
import { escapePattern } from "../../../crates/render/src/flame/script/search.js";
import { toast } from "./toast.ts";
import type { Action } from "./menu.ts";

export function frameActions(name: string): Action[] {
  const exactly = `^${escapePattern(name)}$`;
  return [
    { label: "Callers and callees", run: () => go({ view: "flame", shape: "sandwich", pivot: name, zoom: "" }) },
    { label: "Focus on stacks with this", run: () => go({ focus: exactly, zoom: "" }) },
    { label: "Ignore stacks with this", run: () => go({ ignore: exactly, zoom: "" }) },
    { label: "Hide this frame", run: () => go({ hide: exactly, zoom: "" }) },
    { label: "Copy name", run: () => void copy(name) },
  ];
}

async function copy(text: string): Promise<void> {
  await navigator.clipboard.writeText(text);
  toast("Copied");
}
