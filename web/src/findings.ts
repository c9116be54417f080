// Findings in words: the server sends kinds and numbers, and the page writes the sentences.

import type { Finding } from "./api_types.ts";
import { bytes, change, count, duration } from "./format.ts";

export interface Sentence {
  title: string;
  detail: string;
}

export function sentence(finding: Finding): Sentence {
  const value = (name: string) => finding.values[name] ?? 0;
  const place = finding.source ? `${finding.stack ?? ""} (${finding.source})` : finding.stack ?? "";
  return { title: title(finding, value), detail: place };
}

function title(finding: Finding, value: (name: string) => number): string {
  const share = `${value("percent").toFixed(1)} %`;
  const first = finding.function ?? "one place";
  const held = `${bytes(value("bytes"))} in ${count(value("blocks"))} blocks`;
  switch (finding.kind) {
    case "growth":
      return `${first} grew most, ${share} of ${bytes(value("bytes"))}; the whole program ${change(value("total_bytes"), "bytes")}`;
    case "held":
      return `${held} are held; ${first} holds ${share}`;
    case "peak": {
      const when = value("ms") ? `, ${duration(value("ms"))} after the start` : "";
      return `${bytes(value("bytes"))} were live at the peak${when}; ${first} held ${share}`;
    }
    case "growing_sites":
      return `${count(value("sites"))} places grew steadily until ${duration(value("until_ms"))} after the start, by ${bytes(value("bytes"))}`;
    case "still_held":
      return `${held} were still held at the end`;
    case "unseen_frees":
      return `${count(value("frees"))} blocks were freed by a call that is not hooked`;
    case "never_freed":
      return `${held} were never freed; ${first} holds ${share}`;
    case "temporaries":
      return `${count(value("blocks"))} of ${count(value("allocations"))} blocks were temporary: freed by the next call of their thread`;
    case "turnover":
      return `${bytes(value("bytes"))} were allocated, ${count(value("turnover"))} times the peak`;
    case "realloc_chains":
      return `${count(value("steps"))} steps of realloc on blocks that realloc had made; up to ${count(value("length"))} on average for a block`;
    default:
      return finding.kind;
  }
}
