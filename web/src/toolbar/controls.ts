// Controls of a live process: start, stop, rate, mark, a new profile.

import { post } from "../api.ts";
import type { Source } from "../api_types.ts";
import { h } from "../dom.ts";
import { bytes } from "../format.ts";
import { t, word } from "../strings.ts";
import { toast } from "../widgets/toast.ts";

const RATES = [1, 1024, 4096, 16384, 65536, 524288, 4194304];

/// The rate in force, or that "Start" will use: mean bytes between samples, 1 for every block.
let chosenRate = 1;

export function controls(source: Source, refresh: () => void, takeNew: () => void): HTMLElement | null {
  if (!source.can_snapshot && !source.can_control) return null;
  const tell = async (action: string, value: string, done: string) => {
    try {
      await post(`sources/${encodeURIComponent(source.id)}/control`, { action, value });
      toast(done);
      refresh();
    } catch (why) {
      toast((why as Error).message);
    }
  };
  const button = (label: string, about: string, run: () => void) => h("button", { title: about, onclick: run }, label);
  const running = source.mode !== null && source.mode !== "off";
  if (running) chosenRate = source.rate_bytes ?? 1;
  // While nothing is recorded, a choice is what "Start" will use.
  const choose = () => {
    chosenRate = Number(rate.value);
    if (running) void tell("rate", rate.value, t("done.rate", { bytes: bytes(chosenRate) }));
  };
  const rate = h("select", { "aria-label": t("rate.label"), onchange: choose },
    rates(chosenRate).map((value) => h("option", { value: String(value), selected: value === chosenRate }, value === 1 ? t("rate.every") : t("rate", { bytes: bytes(value) }))));
  const mark = () => {
    const name = prompt(t("mark.name"));
    if (name) void tell("mark", name, t("done.mark", { name }));
  };
  const start = h("button.primary", { title: t("start.about"), onclick: () => void tell("rate", rate.value, t("done.start")) }, t("start"));
  return h("div.controls", null,
    source.can_control && h(running ? "span.pill.on" : "span.pill", null, word("mode", source.mode ?? "off")),
    source.can_control && (running ? button(t("stop"), t("stop.about"), () => void tell("stop", "", t("done.stop"))) : start),
    source.can_control && rate,
    source.can_control && button(t("reset"), t("reset.about"), () => void tell("reset", "", t("done.reset"))),
    source.can_control && button(t("mark"), t("mark.about"), mark),
    source.can_snapshot && h(running ? "button.primary" : "button", { title: `${t("keep.about")}  n`, onclick: takeNew }, t("keep")));
}

function rates(own: number): number[] {
  return RATES.includes(own) ? RATES : [...RATES, own].sort((a, b) => a - b);
}
