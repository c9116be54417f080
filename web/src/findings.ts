// Findings in words: the server sends kinds and numbers, and the page writes the sentences.

import type { Finding } from "./api_types.ts";
import { bytes, change, count, percent } from "./format.ts";

export interface Sentence {
  title: string;
  detail: string;
}

export function sentence(finding: Finding): Sentence {
  const value = (name: string) => finding.values[name] ?? 0;
  const name = finding.function ?? "";
  switch (finding.kind) {
    case "growth":
      return {
        title: `${name} grew by ${bytes(value("bytes"))}`,
        detail: `from ${bytes(value("baseline_bytes"))}; the whole program ${change(value("total_bytes"), "bytes")}`,
      };
    case "concentration":
      return {
        title: `${name} holds ${percent(value("share"), 1)} of the live bytes`,
        detail: `${bytes(value("bytes"))} in ${count(value("blocks"))} blocks of ${bytes(value("bytes") / Math.max(1, value("blocks")))} on average`,
      };
    case "churn":
      return {
        title: `${name} allocates most of what is freed again`,
        detail: `${bytes(value("bytes"))} of ${bytes(value("allocated_bytes"))} allocated (${percent(value("share"), 1)}), ${bytes(value("live_bytes"))} live`,
      };
    case "lost_events":
      return { title: `${count(value("events"))} events were lost`, detail: "the numbers are too small by what was missed" };
    default:
      return { title: finding.headline ?? finding.kind, detail: finding.stack ?? "" };
  }
}
