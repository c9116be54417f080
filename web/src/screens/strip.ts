// The strip above the views: memory over time, and which moment or range of it the views show.

import { get } from "../api.ts";
import type { SourcePage, Timeline } from "../api_types.ts";
import { h, show } from "../dom.ts";
import { bytes, duration } from "../format.ts";
import type { Key } from "../keys.ts";
import { choice, chosen, type Chosen, type Mode, type Span } from "../state/moment.ts";
import type { State } from "../state/location.ts";
import { correct, go, state as now } from "../state/navigate.ts";
import { repeatWhileShown } from "../state/repeat.ts";
import { t, word } from "../strings.ts";
import { lineColor } from "../widgets/line_color.ts";
import { drawnLines, isRecorded, StripChart } from "../widgets/strip_chart.ts";

/// A live curve is fetched again this often.
const FOLLOW_MS = 2000;
/// Resident memory beyond so many times the peak of the heap is hidden at first: it would flatten
/// the heap.
const MOST_RESIDENT = 6;

export class Strip {
  readonly element = h("section.strip", { "aria-label": t("strip"), hidden: true });
  /// Draws the views after a step of a drag; resolves when they are drawn.
  isBusy = false;
  private timeline: Timeline | null = null;
  private chart: StripChart | null = null;
  private readonly tools = h("div.view-tools");
  private hasStep = false;

  constructor(private page: SourcePage) {
    const { source } = page;
    if (!source.has_timeline) return;
    const fill = async () => {
      this.timeline = await get<Timeline>(`sources/${encodeURIComponent(source.id)}/timeline`);
      this.update(this.page, now());
    };
    fill().catch(() => {});
    if (source.kind === "live") repeatWhileShown(this.element, FOLLOW_MS, fill);
  }

  /// Shows the selection of a state.
  update(page: SourcePage, state: State): void {
    this.page = page;
    const { timeline } = this;
    if (!timeline || timeline.points.length < 2) return;
    const selected = chosen(state, timeline);
    if (!this.chart) {
      this.chart = new StripChart(timeline, selected, (mode, span, isFinal) => this.pick(mode, span, isFinal));
      this.chart.showsResident = !isRecorded(timeline) || residentFits(timeline);
      show(this.element, this.tools, h("div.strip-box", null, this.chart.element));
      this.element.hidden = false;
    }
    this.chart.update(timeline, selected);
    this.drawTools(timeline, state, selected);
  }

  /// Keys of the strip, for the page's list.
  keys(): Key[] {
    if (!this.page.source.has_timeline) return [];
    const step = (which: keyof Span, by: number) => () => this.chart?.step(which, by);
    return [
      { key: "p", about: t("strip.peak.about"), run: () => this.choose("peak") },
      { key: "e", about: t("strip.end.about"), run: () => this.choose("end") },
      { key: "r", about: t("strip.range.about"), run: () => this.choose("range") },
      { key: "d", about: t("strip.diff.about"), run: () => this.choose("diff") },
      { key: ",", about: t("strip.left"), run: step("from", -1) },
      { key: ".", about: t("strip.right"), run: step("from", 1) },
      { key: "<", about: t("strip.narrower"), run: step("to", -1) },
      { key: ">", about: t("strip.wider"), run: step("to", 1) },
    ];
  }

  private choose(mode: Mode): void {
    const { timeline } = this;
    if (timeline) go({ ...choice(mode, this.span(timeline), now(), timeline), zoom: "" });
  }

  /// Two moments: those that are selected, or the second half.
  private span(timeline: Timeline): Span {
    const { span } = chosen(now(), timeline);
    if (span && span.from !== span.to) return span;
    const [first, last] = [timeline.points[0][0], timeline.points[timeline.points.length - 1][0]];
    return { from: Math.round((first + last) / 2), to: last };
  }

  /// While the pointer is down the views follow as fast as they are drawn; one step of the history.
  private pick(mode: Mode, span: Span, isFinal: boolean): void {
    const { timeline } = this;
    if (!timeline || (!isFinal && (this.isBusy || !timeline.any_range))) return;
    const changes = { ...choice(mode, span, now(), timeline), zoom: "" };
    if (this.hasStep) correct(changes);
    else go(changes);
    this.hasStep = !isFinal;
  }

  private drawTools(timeline: Timeline, state: State, selected: Chosen): void {
    const isLive = this.page.source.kind === "live";
    const button = (mode: Mode, label: string, about: string) =>
      h("button", { title: about, "aria-pressed": String(selected.mode === mode), onclick: () => this.choose(mode) }, label);
    const hasTwo = timeline.any_range || timeline.marks.filter((mark) => mark.profile).length > 1;
    show(this.tools,
      isRecorded(timeline) && h("div.segments", { role: "group", "aria-label": t("strip") },
        button("peak", t("strip.peak"), t("strip.peak.about")),
        button("end", isLive ? t("strip.now") : t("strip.end"), t("strip.end.about")),
        timeline.any_range && button("range", t("strip.range"), t("strip.range.about")),
        hasTwo && button("diff", t("strip.diff"), t("strip.diff.about"))),
      h("span.found", { role: "status" }, this.sentence(timeline, state, selected)),
      this.legend(timeline));
  }

  private sentence(timeline: Timeline, state: State, { mode, span }: Chosen): string {
    if (!isRecorded(timeline)) return t("say.unrecorded");
    if (mode === "peak" && timeline.peak) {
      const [ms, most] = timeline.peak;
      return ms === null ? t("say.peak.earlier", { bytes: bytes(most) }) : t("say.peak", { bytes: bytes(most) });
    }
    if (mode === "end") return t(this.page.source.kind === "live" ? "say.now" : "say.end");
    const ends = { from: duration(span?.from ?? 0), to: duration(span?.to ?? 0) };
    if (mode === "diff") return t("say.diff", timeline.any_range ? ends : { from: state.base, to: state.profile || t("strip.now") });
    if (mode === "range") return t("say.range", ends);
    return timeline.any_range ? t("say.moment", { time: ends.to }) : t("say.profile");
  }

  private legend(timeline: Timeline): HTMLElement {
    const swatch = (color: string, label: string) => h("span.pair", null, h("i", { style: { background: color } }), label);
    const toggle = () => {
      if (!this.chart) return;
      this.chart.showsResident = !this.chart.showsResident;
      this.chart.draw();
      this.drawTools(timeline, now(), chosen(now(), timeline));
    };
    const hasResident = timeline.rss.length > 0 || timeline.resident.rows.length > 1;
    return h("span.legend", null,
      isRecorded(timeline) && swatch("var(--accent)", t("strip.live")),
      isRecorded(timeline) && timeline.allocated.length > 0 && swatch("var(--less)", t("strip.rate")),
      hasResident && h("button.link", { title: t("strip.resident.about"), "aria-pressed": String(this.chart?.showsResident), onclick: toggle }, t("strip.resident")),
      hasResident && this.chart?.showsResident && drawnLines(timeline.resident).map(({ name, at }) => swatch(lineColor(at, name), word("line", name))));
  }
}

function residentFits(timeline: Timeline): boolean {
  const most = Math.max(0, ...timeline.rss, ...timeline.resident.rows.map((row) => row.slice(1).reduce((sum, value) => sum + value, 0)));
  return most <= MOST_RESIDENT * (timeline.peak?.[1] ?? 0);
}
