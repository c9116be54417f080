// The list of everything served, the largest first: live processes with their children, dead ones,
// files.

import { get } from "../api.ts";
import type { Kind, Source } from "../api_types.ts";
import { h, show } from "../dom.ts";
import { bytes, duration, moment } from "../format.ts";
import { setPageKeys, setViewKeys } from "../keys.ts";
import { repeatWhileShown } from "../state/repeat.ts";
import { t, word } from "../strings.ts";
import { nothing, trouble, waiting } from "../widgets/message.ts";
import { header, showHelp, switchTheme } from "./header.ts";

/// Processes start and end: the list is read this often.
const FOLLOW_MS = 2000;

const KINDS: Kind[] = ["live", "dead", "recording", "directory", "file"];

export async function drawSources(root: HTMLElement): Promise<void> {
  document.title = "heapwise";
  setViewKeys([]);
  setPageKeys([{ key: "t", about: t("theme"), run: switchTheme }, { key: "?", about: t("keys.help"), run: showHelp }]);
  const main = h("main.sources", null, waiting());
  show(root, header(t("home.title"), null), main);
  let shown = "";
  const fill = async () => {
    const { sources } = await get<{ sources: Source[] }>("sources");
    // Cards are replaced only when that matters: one may have the focus.
    const facts = JSON.stringify(sources.map(({ id, kind, mode, rate_bytes }) => [id, kind, mode, rate_bytes]));
    if (facts === shown) return;
    shown = facts;
    show(main, sources.length ? KINDS.map((kind) => group(kind, sources)) : nothing(t("home.empty"), t("home.empty.hint")));
  };
  try {
    await fill();
    repeatWhileShown(main, FOLLOW_MS, fill);
  } catch (why) {
    show(main, trouble(why));
  }
}

function group(kind: Kind, all: Source[]): HTMLElement | null {
  const sources = all.filter((source) => source.kind === kind);
  const size = (source: Source) => source.live_bytes ?? source.file_bytes ?? 0;
  const sorted = sources.sort((a, b) => size(b) - size(a));
  if (!sorted.length) return null;
  const pids = new Set(sorted.map((source) => source.pid));
  const isChild = (source: Source) => source.parent_pid !== null && source.parent_pid !== source.pid && pids.has(source.parent_pid);
  const parents = sorted.filter((source) => !isChild(source));
  return h("section", null, h("h2", null, t(`kinds.${kind}`)), h("div.source-list", null, parents.map((source) => family(source, sorted))));
}

/// A process, and its children behind a line that opens.
function family(source: Source, all: Source[]): HTMLElement {
  const children = source.pid === null ? [] : descendants(source.pid, all);
  if (!children.length) return card(source);
  return h("div.family", null, card(source),
    h("details", null, h("summary", null, children.length === 1 ? t("home.child") : t("home.children", { n: children.length })), children.map(card)));
}

function descendants(pid: number, all: Source[], seen = new Set([pid])): Source[] {
  const children = all.filter((source) => source.parent_pid === pid && source.pid !== null && !seen.has(source.pid));
  for (const child of children) seen.add(child.pid ?? 0);
  return children.flatMap((child) => [child, ...descendants(child.pid ?? 0, all, seen)]);
}

function card(source: Source): HTMLElement {
  const facts = [
    source.pid !== null && `pid ${source.pid}`,
    source.ended && word("ended", source.ended),
    source.mode && (source.mode === "sampled" && source.rate_bytes ? `${t("mode.sampled")}, ${t("rate", { bytes: bytes(source.rate_bytes) })}` : word("mode", source.mode)),
    source.file_bytes !== null && t("home.file", { bytes: bytes(source.file_bytes) }),
    source.modified_unix_ms && moment(source.modified_unix_ms),
    source.started_unix_ms && source.kind === "live" && t("home.for", { time: duration(Date.now() - source.started_unix_ms) }),
  ].filter(Boolean).join(" · ");
  return h("a.source", { href: `/s/${encodeURIComponent(source.id)}/overview`, "data-go": true },
    h("b", null, source.title), source.detail !== source.title && h("span.muted.detail", { title: source.detail }, source.detail), h("span.muted", null, facts),
    source.live_bytes !== null && h("span.amount", null, bytes(source.live_bytes), h("span.muted", null, t("home.live"))));
}
