// The list of everything served: live processes, dead ones, files.

import { get } from "../api.ts";
import type { Kind, Source } from "../api_types.ts";
import { h, show } from "../dom.ts";
import { bytes, duration } from "../format.ts";
import { setPageKeys, setViewKeys } from "../keys.ts";
import { repeatWhileShown } from "../state/repeat.ts";
import { nothing, trouble, waiting } from "../widgets/message.ts";
import { header, showHelp } from "./header.ts";

/// Processes start and end: the list is read this often.
const FOLLOW_MS = 2000;

const TITLES: [Kind, string][] = [
  ["live", "Live processes"], ["dead", "Ended processes"], ["recording", "Recordings"], ["directory", "Directories"], ["file", "Files"],
];

export async function drawSources(root: HTMLElement): Promise<void> {
  document.title = "heapwise";
  setViewKeys([]);
  setPageKeys([{ key: "?", about: "this help", run: showHelp }]);
  const main = h("main.sources", null, waiting());
  show(root, header("Processes and files", null), main);
  let shown = "";
  const fill = async () => {
    const { sources } = await get<{ sources: Source[] }>("sources");
    // Cards are replaced only when that matters: one may have the focus.
    const facts = JSON.stringify(sources.map(({ id, kind, mode, rate_bytes }) => [id, kind, mode, rate_bytes]));
    if (facts === shown) return;
    shown = facts;
    show(main, sources.length ? TITLES.map(([kind, title]) => group(title, sources.filter((source) => source.kind === kind))) : empty());
  };
  try {
    await fill();
    repeatWhileShown(main, FOLLOW_MS, fill);
  } catch (why) {
    show(main, trouble(why));
  }
}

function empty(): HTMLElement {
  return nothing("Nothing to look at yet", "Start a program with `heapwise run -- PROGRAM`, or name files: `heapwise serve app.heap`.");
}

function group(title: string, sources: Source[]): HTMLElement | null {
  if (!sources.length) return null;
  return h("section", null, h("h2", null, title), h("div.source-list", null, sources.map(card)));
}

function card(source: Source): HTMLElement {
  const facts = [
    source.pid !== null && `pid ${source.pid}`,
    source.mode && (source.mode === "sampled" && source.rate_bytes ? `sampled, 1 in ${bytes(source.rate_bytes)}` : source.mode),
    source.started_unix_ms && source.kind === "live" && `for ${duration(Date.now() - source.started_unix_ms)}`,
  ].filter(Boolean).join(" · ");
  return h("a.source", { href: `/s/${encodeURIComponent(source.id)}/overview`, "data-go": true },
    h("b", null, source.title), h("span.muted.detail", { title: source.detail }, source.detail), h("span.muted", null, facts),
    source.live_bytes !== null && h("span.amount", null, bytes(source.live_bytes), h("span.muted", null, " live")));
}
