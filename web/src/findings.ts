// Findings in words: the server sends kinds and numbers, and the page writes the sentences.

import type { Finding } from "./api_types.ts";
import { bytes, change, count, duration, percent } from "./format.ts";

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
    default:
      return { title: ofRecording(finding, value), detail: finding.stack ?? "" };
  }
}

/// A finding of a whole recording; its stack is the detail.
function ofRecording(finding: Finding, value: (name: string) => number): string {
  const share = `${value("percent").toFixed(1)} %`;
  switch (finding.kind) {
    case "peak":
      return `${bytes(value("bytes"))} were live at the peak, ${duration(value("ms"))} after the start; ${finding.function ?? "one place"} held ${share}`;
    case "growing_sites":
      return `${count(value("sites"))} places were still growing at the end, by ${bytes(value("bytes"))} over the second half`;
    case "still_held":
      return `${bytes(value("bytes"))} in ${count(value("blocks"))} blocks were still held at the end`;
    case "unseen_frees":
      return `${count(value("frees"))} blocks were freed by a call that is not hooked`;
    case "never_freed":
      return `${bytes(value("bytes"))} in ${count(value("blocks"))} blocks were never freed`;
    case "temporaries":
      return `${count(value("blocks"))} of ${count(value("allocations"))} blocks (${share}) were temporary: freed by the next call of their thread`;
    case "turnover":
      return `${bytes(value("bytes"))} were allocated, ${count(value("turnover"))} times the peak`;
    case "realloc_chains":
      return `${count(value("steps"))} steps of realloc on blocks that realloc had made; up to ${count(value("length"))} on average for a block`;
    case "lifetimes":
      return `Freed blocks had lived ${duration(value("mean_ms"))} on average; ${share} less than a millisecond`;
    case "sizes":
      return `${share} of all blocks were of ${count(value("min"))} to ${count(value("max"))} bytes`;
    case "threads":
      return `${count(value("threads"))} threads allocated ${count(value("blocks"))} blocks`;
    default:
      return finding.kind;
  }
}
