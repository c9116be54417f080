// The line above a live process: since when it is recorded, its resident memory, and the part that
// no view shows.

import { get } from "../api.ts";
import type { Ledger, Source } from "../api_types.ts";
import { h, show } from "../dom.ts";
import { bytes, duration, moment, percent } from "../format.ts";
import { repeatWhileShown } from "../state/repeat.ts";
import { t } from "../strings.ts";

/// A reading of the pages costs the server more than a point of the curve.
const FOLLOW_MS = 5000;
const UNSEEN = ["heap_unrecorded", "mappings_before_attach", "unexplained"];

export class LiveLine {
  readonly element = h("section.live-line", { "aria-label": t("live.label"), hidden: true });
  private memory: HTMLElement[] = [];

  constructor(source: Source) {
    if (source.kind !== "live") return;
    const fill = async () => {
      const path = `sources/${encodeURIComponent(source.id)}`;
      const { source: now } = await get<{ source: Source }>(path);
      show(this.element, state(now), this.memory);
      this.element.hidden = false;
      const { ledger } = await get<{ ledger: Ledger | null }>(`${path}/ledger`);
      this.memory = ledger ? memory(ledger) : [];
      show(this.element, state(now), this.memory);
    };
    fill().catch(() => {});
    repeatWhileShown(this.element, FOLLOW_MS, fill);
  }
}

function state(source: Source): HTMLElement {
  const since = source.recording_since_unix_ms;
  const isOff = source.mode === null || source.mode === "off" || since === null;
  return h(isOff ? "span" : "span.on", null, isOff ? t("live.off") : t("live.since", { time: `${moment(since).slice(11)} (${duration(Date.now() - since)})` }));
}

function memory(ledger: Ledger): HTMLElement[] {
  const unseen = ledger.lines.filter((line) => UNSEEN.includes(line.kind)).reduce((sum, line) => sum + line.bytes, 0);
  return [
    h("span", null, t("live.resident", { bytes: bytes(ledger.resident) })),
    h("span", { title: t("live.unseen.about") }, t("live.unseen", { bytes: bytes(unseen), share: percent(unseen, ledger.resident) })),
  ];
}
