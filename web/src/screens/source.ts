// One process or file: header, tabs, choices, the strip, and the view the URL names. The frame
// stays while the state changes; only what differs is drawn again.

import { get, post } from "../api.ts";
import type { Source, SourcePage, StoredProfile, Summary } from "../api_types.ts";
import { h, show } from "../dom.ts";
import { setPageKeys, type Key } from "../keys.ts";
import { VIEWS, type State, type View } from "../state/location.ts";
import { correct, go, href } from "../state/navigate.ts";
import { repeatWhileShown } from "../state/repeat.ts";
import { language, t } from "../strings.ts";
import { choices } from "../toolbar/choices.ts";
import { controls } from "../toolbar/controls.ts";
import { downloads } from "../toolbar/downloads.ts";
import { refine } from "../toolbar/refine.ts";
import { drawAllocator } from "../views/allocator.ts";
import { drawBreakdown } from "../views/breakdown.ts";
import { drawFlame } from "../views/flame.ts";
import { drawGraph } from "../views/graph.ts";
import { drawLeaks } from "../views/leaks.ts";
import { drawOverview } from "../views/overview.ts";
import { drawSide } from "../views/side.ts";
import { drawSourceText } from "../views/source.ts";
import { drawTable } from "../views/table.ts";
import { drawTree } from "../views/tree.ts";
import { ask, isUnrecorded, type Draw, type ViewInput } from "../views/view.ts";
import { hideTooltip } from "../widgets/tooltip.ts";
import { closeMenu } from "../widgets/menu.ts";
import { notRecording, trouble, waiting } from "../widgets/message.ts";
import { toast } from "../widgets/toast.ts";
import { header, showHelp, switchTheme } from "./header.ts";
import { LiveLine } from "./live_line.ts";
import { Strip } from "./strip.ts";

const DRAW: Record<View, Draw> = {
  overview: drawOverview, flame: drawFlame, table: drawTable, tree: drawTree, graph: drawGraph,
  leaks: drawLeaks, source: drawSourceText, breakdown: drawBreakdown, allocator: drawAllocator,
};

/// A live process is looked at this often.
const FOLLOW_MS = 3000;
/// Views that show the present state of a live process again and again; others lose what was opened
/// in them.
const REFRESHED: View[] = ["overview", "flame", "table", "leaks"];
/// Views with the panel of functions and source beside them, where the screen is wide.
const WITH_SIDE: View[] = ["flame", "tree", "graph"];
/// Views that have something to show of a process that was never recorded.
const WITHOUT_RECORDING: View[] = ["overview", "allocator"];

/// Counts draws, so that an answer that comes late does not overwrite a newer view.
let drawn = 0;
let screen: SourceScreen | null = null;

export async function drawSource(root: HTMLElement, state: State): Promise<void> {
  const mine = ++drawn;
  hideTooltip();
  closeMenu();
  screen?.markOld();
  try {
    const page = await get<SourcePage>(`sources/${encodeURIComponent(state.source)}`);
    if (mine !== drawn) return;
    document.title = `${page.source.title} · ${t(`view.${state.view}`)} · heapwise`;
    if (!state.profile && page.source.kind !== "live" && page.profiles[0]) return correct({ profile: page.profiles[0].name });
    if (!screen?.shows(root, page)) screen = new SourceScreen(root, page);
    await screen.draw(state, page, () => mine === drawn);
  } catch (why) {
    screen = null;
    if (mine === drawn) show(root, header(state.source, null), h("main.view", null, trouble(why)));
  }
}

class SourceScreen {
  private readonly top = h("div");
  private readonly tools = h("div.choices", { role: "region", "aria-label": t("choices") });
  private readonly covered = h("p.coverage", { role: "region", "aria-label": t("coverage"), hidden: true });
  private readonly main = h("main.view");
  private readonly side = h("aside.side", { "aria-label": t("side.label"), hidden: true });
  private readonly tabs = h("nav.tabs", { "aria-label": t("views") });
  private readonly strip: Strip;
  private summary: Summary | null = null;
  private otherSources: Source[] = [];
  private readonly line: LiveLine;

  constructor(root: HTMLElement, private page: SourcePage) {
    this.strip = new Strip(page);
    this.line = new LiveLine(page.source);
    show(root, this.top, this.line.element, this.tabs, this.tools, this.strip.element, this.covered, h("div.panels", null, this.main, this.side));
    if (page.source.kind === "live") repeatWhileShown(this.main, FOLLOW_MS, () => this.follow());
  }

  /// Whether this is the screen of a source, of the kind that it has now.
  shows(root: HTMLElement, { source }: SourcePage): boolean {
    return root.contains(this.main) && source.id === this.page.source.id && source.kind === this.page.source.kind;
  }

  /// The view shown is that of a state before.
  markOld(): void {
    delete this.main.dataset["ready"];
  }

  async draw(state: State, page: SourcePage, current: () => boolean): Promise<void> {
    this.page = page;
    const takeNew = () => void newProfile(page);
    setPageKeys(this.keys(takeNew));
    const refresh = () => go({});
    const input = { state, page };
    show(this.top, header(page.source.title, page.source.kind, controls(page.source, refresh, takeNew), downloads(input)));
    show(this.tabs, viewsOf(page.source).map((view) => h("a", { href: href({ view }), "data-go": true, "aria-current": state.view === view ? "page" : null }, t(`view.${view}`))));
    // On a narrow screen not all of them are visible at once.
    this.tabs.querySelector("[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
    this.showTools(input);
    this.strip.update(page, state);
    this.drawChoices(input, current);
    await this.drawView(input, current);
  }

  /// Draws the choices with what the server has answered so far, unless somebody is choosing.
  private showTools(input: ViewInput): void {
    if (this.tools.querySelector("input:focus, select:focus")) return;
    const { summary, otherSources } = this;
    show(this.tools, choices({ ...input, summary, otherSources }), refine(input.state));
  }

  private drawChoices(input: ViewInput, current: () => boolean): void {
    const { source } = input.page;
    Promise.all([ask<Summary>(input, "summary", language), get<{ sources: Source[] }>("sources")]).then(([summary, { sources }]) => {
      if (!current()) return;
      this.summary = summary;
      this.otherSources = sources.filter((other) => other.id !== source.id);
      this.showTools(input);
      show(this.covered, t("covers", { line: summary.coverage.line }));
      this.covered.classList.toggle("incomplete", summary.coverage.gaps.length > 0);
      this.covered.hidden = false;
    }, () => {});
  }

  /// The old view stays until the new one is there, unless it is of another kind.
  private async drawView(input: ViewInput, current: () => boolean): Promise<void> {
    const { main } = this;
    const { view } = input.state;
    if (main.dataset["view"] !== view) show(main, waiting());
    main.dataset["view"] = view;
    this.strip.isBusy = true;
    this.side.hidden = !WITH_SIDE.includes(view) || isUnrecorded(input);
    try {
      const draw = isUnrecorded(input) && !WITHOUT_RECORDING.includes(view) ? async () => notRecording() : DRAW[view];
      const [drawing, side] = await Promise.all([draw(input), this.side.hidden ? null : drawSide(input)]);
      if (!current()) return;
      keepScroll(main, drawing);
      if (side) show(this.side, side);
      main.dataset["ready"] = "true";
    } catch (why) {
      if (current()) show(main, trouble(why));
    } finally {
      this.strip.isBusy = false;
    }
  }

  /// Draws the page again when the process has ended or records in another way, and the present
  /// state when nobody is choosing something.
  private async follow(): Promise<void> {
    const before = this.page.source;
    const { source } = await get<SourcePage>(`sources/${encodeURIComponent(before.id)}`);
    const isChanged = source.kind !== before.kind || source.mode !== before.mode || source.rate_bytes !== before.rate_bytes;
    const isChoosing = document.querySelector("dialog[open], .menu, input:focus, select:focus") !== null;
    const query = new URLSearchParams(location.search);
    const isNow = !query.get("profile") && REFRESHED.includes(this.main.dataset["view"] as View);
    if (isChanged || (isNow && !isChoosing && this.main.dataset["ready"])) correct({});
  }

  private keys(takeNew: () => void): Key[] {
    const views: Key[] = viewsOf(this.page.source).map((view, at) => ({ key: String(at + 1), about: t(`view.${view}`), run: () => go({ view }) }));
    return [
      ...views, ...this.strip.keys(),
      ...(this.page.source.can_snapshot ? [{ key: "n", about: t("keep.about"), run: takeNew }] : []),
      { key: "w", about: t("download"), run: () => this.top.querySelector<HTMLElement>(".download")?.click() },
      { key: "h", about: t("keys.home"), run: () => go({ source: "" }) },
      { key: "t", about: t("theme"), run: switchTheme },
      { key: "?", about: t("keys.help"), run: showHelp },
    ];
  }
}

/// Only a running process has the numbers of its allocator.
function viewsOf(source: Source): readonly View[] {
  return source.kind === "live" ? VIEWS : VIEWS.filter((view) => view !== "allocator");
}

/// Replaces the view by one of the same kind at the same place.
function keepScroll(main: HTMLElement, drawing: HTMLElement): void {
  const tops = [...main.querySelectorAll(".flame-scroll, .vrows")].map((element) => element.scrollTop);
  show(main, drawing);
  main.querySelectorAll(".flame-scroll, .vrows").forEach((element, at) => tops[at] && (element.scrollTop = tops[at]));
}

async function newProfile(page: SourcePage): Promise<void> {
  try {
    const taken = await post<StoredProfile>(`sources/${encodeURIComponent(page.source.id)}/profiles`, {});
    go({ profile: taken.name, at: "" });
    toast(t("done.keep"));
  } catch (why) {
    toast((why as Error).message);
  }
}
