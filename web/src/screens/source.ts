// One process or file: header, tabs, choices, and the view the URL names.

import { get, post } from "../api.ts";
import type { Source, SourcePage, StoredProfile, Summary } from "../api_types.ts";
import { h, show } from "../dom.ts";
import { setPageKeys, type Key } from "../keys.ts";
import { VIEWS, type State, type View } from "../state/location.ts";
import { correct, go, href } from "../state/navigate.ts";
import { repeatWhileShown } from "../state/repeat.ts";
import { choices } from "../toolbar/choices.ts";
import { controls } from "../toolbar/controls.ts";
import { refine } from "../toolbar/refine.ts";
import { drawAllocator } from "../views/allocator.ts";
import { drawDiff } from "../views/diff.ts";
import { drawFlame } from "../views/flame.ts";
import { drawGraph } from "../views/graph.ts";
import { drawLeaks } from "../views/leaks.ts";
import { drawOverview } from "../views/overview.ts";
import { drawSizes } from "../views/sizes.ts";
import { drawTable } from "../views/table.ts";
import { drawTimeline } from "../views/timeline.ts";
import { drawTree } from "../views/tree.ts";
import { ask, type Draw } from "../views/view.ts";
import { hideTooltip } from "../widgets/tooltip.ts";
import { closeMenu } from "../widgets/menu.ts";
import { trouble, waiting } from "../widgets/message.ts";
import { toast } from "../widgets/toast.ts";
import { header, showHelp } from "./header.ts";

const DRAW: Record<View, Draw> = {
  overview: drawOverview, flame: drawFlame, table: drawTable, tree: drawTree, graph: drawGraph,
  leaks: drawLeaks, sizes: drawSizes, timeline: drawTimeline, diff: drawDiff, allocator: drawAllocator,
};

/// A live process is looked at this often.
const FOLLOW_MS = 2000;

/// Counts draws, so that an answer that comes late does not overwrite a newer view.
let drawn = 0;

export async function drawSource(root: HTMLElement, state: State): Promise<void> {
  const mine = ++drawn;
  hideTooltip();
  closeMenu();
  try {
    const page = await get<SourcePage>(`sources/${encodeURIComponent(state.source)}`);
    if (mine !== drawn) return;
    document.title = `${page.source.title} · ${state.view} · heapwise`;
    if (!state.profile) {
      const chosen = page.profiles[0]?.name ?? (await takeProfile(page));
      if (mine === drawn) correct({ profile: chosen });
      return;
    }
    await drawPage(root, state, page, () => mine === drawn);
  } catch (why) {
    if (mine === drawn) show(root, header(state.source, null), h("main.view", null, trouble(why)));
  }
}

async function drawPage(root: HTMLElement, state: State, page: SourcePage, current: () => boolean): Promise<void> {
  const takeNew = () => void newProfile(page);
  setPageKeys(pageKeys(page, takeNew));
  const tools = h("div.choices", { role: "region", "aria-label": "Choices" }, choices({ state, page, sampleTypes: [], otherSources: [], takeNew }), refine(state));
  const covered = h("p.coverage", { role: "region", "aria-label": "Coverage", hidden: true });
  const main = h("main.view", { "data-view": state.view }, waiting());
  const refresh = () => go({});
  const views = tabs(state);
  show(root, header(page.source.title, page.source.kind, controls(page.source, refresh, takeNew)), views, tools, covered, main);
  // On a narrow screen not all of them are visible at once.
  views.querySelector("[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  if (page.source.kind === "live") repeatWhileShown(main, FOLLOW_MS, () => followSource(page.source));
  const input = { state, page };
  Promise.all([ask<Summary>(input, "summary"), comparable(page.source)]).then(([summary, otherSources]) => {
    const sampleTypes = summary.sample_types.map((type) => type.name);
    if (!current()) return;
    show(tools, choices({ state, page, sampleTypes, otherSources, takeNew }), refine(state));
    show(covered, `Covers: ${summary.coverage.line}`);
    covered.classList.toggle("incomplete", summary.coverage.gaps.length > 0);
    covered.hidden = false;
  }, () => {});
  try {
    const view = await DRAW[state.view](input);
    if (current()) {
      show(main, view);
      main.dataset["ready"] = "true";
    }
  } catch (why) {
    if (current()) show(main, trouble(why));
  }
}

/// Draws the page again when the process has ended, or records in another way.
async function followSource(before: Source): Promise<void> {
  const { source } = await get<SourcePage>(`sources/${encodeURIComponent(before.id)}`);
  if (source.kind !== before.kind || source.mode !== before.mode || source.rate_bytes !== before.rate_bytes) correct({});
}

/// Other files and recordings that a file or recording can be compared with.
async function comparable(source: Source): Promise<Source[]> {
  const isFile = ({ kind }: Source) => kind === "file" || kind === "recording";
  if (!isFile(source)) return [];
  const { sources } = await get<{ sources: Source[] }>("sources");
  return sources.filter((other) => isFile(other) && other.id !== source.id);
}

function tabs(state: State): HTMLElement {
  const tab = (view: View) => h("a", { href: href({ view }), "data-go": true, "aria-current": state.view === view ? "page" : null }, view[0].toUpperCase() + view.slice(1));
  return h("nav.tabs", { "aria-label": "Views" }, VIEWS.map(tab));
}

function pageKeys(page: SourcePage, takeNew: () => void): Key[] {
  const keys: Key[] = VIEWS.map((view, at) => ({ key: String((at + 1) % 10), about: view, run: () => go({ view }) }));
  if (page.source.can_snapshot) keys.push({ key: "n", about: "take a new profile", run: takeNew });
  return [...keys, { key: "?", about: "this help", run: showHelp }];
}

async function takeProfile(page: SourcePage): Promise<string> {
  const taken = await post<StoredProfile>(`sources/${encodeURIComponent(page.source.id)}/profiles`, {});
  return taken.name;
}

async function newProfile(page: SourcePage): Promise<void> {
  try {
    const name = await takeProfile(page);
    go({ profile: name, at: "" });
    toast("New profile taken and kept");
  } catch (why) {
    toast((why as Error).message);
  }
}
