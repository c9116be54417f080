// Controls of a live process: start, stop, rate, mark, a new profile.

import { post } from "../api.ts";
import type { Source } from "../api_types.ts";
import { h } from "../dom.ts";
import { bytes } from "../format.ts";
import { toast } from "../widgets/toast.ts";

/// After a start, the program allocates for this long before its first profile is taken.
const FIRST_PROFILE_MS = 1500;
const RATES = [1, 1024, 4096, 16384, 65536, 524288, 4194304];

export function controls(source: Source, refresh: () => void, takeNew: () => void): HTMLElement | null {
  if (!source.can_snapshot && !source.can_control) return null;
  const tell = async (action: string, value: string, done: string, after = refresh) => {
    try {
      // The rate on screen is the one in force after the start.
      if (action === "start") await post(`sources/${encodeURIComponent(source.id)}/control`, { action: "rate", value: rate.value });
      await post(`sources/${encodeURIComponent(source.id)}/control`, { action, value });
      toast(done);
      after();
    } catch (why) {
      toast((why as Error).message);
    }
  };
  const startAndShow = () => void tell("start", "", "Started; a profile follows", () => setTimeout(takeNew, FIRST_PROFILE_MS));
  const button = (label: string, about: string, run: () => void) => h("button", { title: about, onclick: run }, label);
  const running = source.mode !== null && source.mode !== "off";
  const rate = h("select", { "aria-label": "Sampling rate", onchange: () => void tell("rate", rate.value, `One block in ${bytes(Number(rate.value))}`) },
    rates(source).map((value) => h("option", { value: String(value), selected: value === source.rate_bytes }, value === 1 ? "every block" : `1 in ${bytes(value)}`)));
  const mark = () => {
    const name = prompt("Name of the mark");
    if (name) void tell("mark", name, `Marked “${name}”`);
  };
  return h("div.controls", null,
    source.can_control && h(running ? "span.pill.on" : "span.pill", null, running ? source.mode : "off"),
    source.can_control && (running ? button("Stop", "Stop collecting", () => void tell("stop", "", "Stopped")) : h("button.primary", { title: "Start collecting", onclick: startAndShow }, "Start")),
    source.can_control && rate,
    source.can_control && button("Reset", "Clear what was collected", () => void tell("reset", "", "Cleared")),
    source.can_control && button("Mark", "Name this moment", mark),
    source.can_snapshot && h(running ? "button.primary" : "button", { title: "Take a new profile  n", onclick: takeNew }, "New profile"));
}

function rates(source: Source): number[] {
  const own = source.rate_bytes;
  return own === null || RATES.includes(own) ? RATES : [...RATES, own].sort((a, b) => a - b);
}
