// Live bytes over time. A click picks a moment, a drag a range; every other view follows.

import { get } from "../api.ts";
import type { Timeline } from "../api_types.ts";
import { h } from "../dom.ts";
import { bytes, duration, moment } from "../format.ts";
import { setViewKeys } from "../keys.ts";
import { go, href } from "../state/navigate.ts";
import { repeatWhileShown } from "../state/repeat.ts";
import { Chart, type Selected } from "../widgets/chart.ts";
import { nothing } from "../widgets/message.ts";
import type { Draw, ViewInput } from "./view.ts";

/// A live curve is fetched again this often while it is on screen.
const FOLLOW_MS = 2000;

export const drawTimeline: Draw = async (input) => {
  const timeline = await fetchTimeline(input);
  setViewKeys([
    { key: "p", about: "the peak", run: () => timeline.peak && choose(timeline, { from: timeline.peak[0], to: timeline.peak[0] }) },
    { key: "Escape", about: "no selection", run: () => go({ at: "" }) },
  ]);
  if (timeline.points.length < 2) {
    return nothing("No timeline yet", "A recording (heapwise run --log) has one from the start; a live process gets one while it is watched.");
  }
  const chart = new Chart(timeline, selected(input, timeline), (picked) => choose(timeline, picked));
  follow(input, chart);
  const marks = timeline.marks.map((mark) => h("tr", null, h("td.number", null, duration(mark.ms)), h("td", null, markLink(mark))));
  return h("section.timeline", null, h("div.chart-box", null, chart.element), h("p.lead", null, hint(timeline, input)),
    h("div.view-tools", null, timeline.peak && h("a.button", { href: peakHref(timeline), "data-go": true }, "At the peak"),
      input.state.at && h("a.button", { href: href({ at: "" }), "data-go": true }, "Clear selection")),
    marks.length > 0 && h("div.card", null, h("table.plain.narrow", null, h("thead", null, h("tr", null, h("th", null, "Time"), h("th.left", null, "Mark"))), h("tbody", null, marks))));
};

export function fetchTimeline(input: ViewInput): Promise<Timeline> {
  return get<Timeline>(`sources/${encodeURIComponent(input.state.source)}/timeline`);
}

/// Keeps the chart of a live process growing until the page shows something else.
export function follow(input: ViewInput, chart: Chart): void {
  if (input.page.source.kind !== "live") return;
  repeatWhileShown(chart.element, FOLLOW_MS, async () => chart.replace(await fetchTimeline(input)));
}

/// Goes to what was picked: any moment of a recording, or the stored profiles nearest to it.
export function choose(timeline: Timeline, picked: Selected): void {
  if (!picked) return;
  if (timeline.any_range) {
    go({ at: picked.from === picked.to ? `${picked.from}ms` : `${picked.from}ms..${picked.to}ms` });
    return;
  }
  const stored = timeline.marks.filter((mark) => mark.profile);
  const nearest = (ms: number) => stored.reduce((best, mark) => (Math.abs(mark.ms - ms) < Math.abs(best.ms - ms) ? mark : best), stored[0]);
  if (!stored.length) return;
  const [first, last] = [nearest(picked.from), nearest(picked.to)];
  go({ profile: last.profile ?? "", base: first === last ? "" : first.profile ?? "" });
}

/// The selection of the URL as the chart draws it.
export function selected(input: ViewInput, timeline: Timeline): Selected {
  const { at, profile, base } = input.state;
  const ms = (name: string) => timeline.marks.find((mark) => mark.profile === name)?.ms;
  if (at === "peak" && timeline.peak) return { from: timeline.peak[0], to: timeline.peak[0] };
  const range = /^(\d+)ms(?:\.\.(\d+)ms)?$/.exec(at);
  if (range) return { from: Number(range[1]), to: Number(range[2] ?? range[1]) };
  const to = ms(profile);
  return to === undefined || timeline.any_range ? null : { from: ms(base) ?? to, to };
}

/// The peak: a moment of a recording; of a process, the snapshot that the probe took at the peak.
function peakHref(timeline: Timeline): string {
  return timeline.any_range ? href({ at: "peak", view: "flame" }) : href({ type: "peak_space", at: "", view: "flame" });
}

function markLink(mark: Timeline["marks"][number]): HTMLElement | string {
  return mark.profile ? h("a", { href: href({ profile: mark.profile, base: "" }), "data-go": true }, mark.name) : mark.name;
}

function hint(timeline: Timeline, input: ViewInput): string {
  const parts = [];
  if (timeline.start_unix_ms) parts.push(`Started ${moment(timeline.start_unix_ms)}.`);
  if (timeline.peak) parts.push(`Peak ${bytes(timeline.peak[1])} after ${duration(timeline.peak[0])}.`);
  const range = /^(\d+)ms\.\.(\d+)ms$/.exec(input.state.at);
  if (range) parts.push(`Views show what was allocated between ${duration(Number(range[1]))} and ${duration(Number(range[2]))} and still live at the end of it.`);
  else if (input.state.at && timeline.any_range) parts.push("Views show what was live at the selected moment.");
  else parts.push(timeline.any_range ? "Click a moment or drag over a range." : "Click or drag: the stored profiles nearest to it are shown or compared.");
  return parts.join(" ");
}
