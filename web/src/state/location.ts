// The state of the page is its URL, and nothing else: the same URL shows the same picture.

export const VIEWS = [
  "overview", "flame", "table", "tree", "graph", "leaks", "source", "breakdown", "allocator",
] as const;
export type View = (typeof VIEWS)[number];

/// What is looked at, and how.
export interface State {
  /// Empty on the list of sources.
  source: string;
  view: View;
  /// Name of the stored profile; empty for the present state of a live process, and until the page
  /// has chosen one.
  profile: string;
  /// Name of the base it is compared with; empty for none.
  base: string;
  /// Source that has the base; empty for this one.
  from: string;
  /// Of a recording: the moment of the base.
  since: string;
  /// Moment or range of a recording: `305ms`, `peak`, `100ms..900ms`.
  at: string;
  type: string;
  by: string;
  /// `1` keeps the native frames of a Python program.
  native: string;
  focus: string;
  ignore: string;
  hide: string;
  show: string;
  thread: string;
  /// Flame and tree: `topdown`, `bottomup` or `sandwich` around `pivot`.
  shape: string;
  pivot: string;
  /// Ranks of the zoomed box and its callers among their siblings; empty for the whole.
  zoom: string;
  search: string;
  sort: string;
  /// The function that is selected in all panels.
  function: string;
}

const EMPTY: State = {
  source: "", view: "overview", profile: "", base: "", from: "", since: "", at: "", type: "inuse_space", by: "functions", native: "",
  focus: "", ignore: "", hide: "", show: "", thread: "", shape: "topdown", pivot: "", zoom: "", search: "", sort: "flat", function: "",
};

/// Parameters in the order they are written, so that equal states have equal URLs.
const PARAMETERS = [
  "profile", "base", "from", "since", "at", "type", "by", "native", "focus", "ignore", "hide", "show", "thread", "shape", "pivot", "zoom",
  "search", "sort", "function",
] as const;

/// Parameters that select numbers, and their names in the API.
const SELECTING = [
  ["profile", "profile"], ["at", "at"], ["type", "sample_type"], ["by", "granularity"], ["native", "native"],
  ["focus", "focus"], ["ignore", "ignore"], ["hide", "hide"], ["show", "show"], ["thread", "thread"],
] as const;

export function parse(path: string, query: string): State {
  const state: State = { ...EMPTY };
  const parts = path.split("/").filter(Boolean);
  if (parts[0] === "s" && parts[1]) state.source = decodeURIComponent(parts[1]);
  const view = VIEWS.find((name) => name === parts[2]);
  if (view) state.view = view;
  const given = new URLSearchParams(query);
  for (const name of PARAMETERS) state[name] = given.get(name) ?? EMPTY[name];
  return state;
}

export function format(state: State): string {
  if (!state.source) return "/";
  const query = new URLSearchParams();
  for (const name of PARAMETERS) if (state[name] !== EMPTY[name]) query.set(name, state[name]);
  const text = query.toString();
  return `/s/${encodeURIComponent(state.source)}/${state.view}${text ? `?${text}` : ""}`;
}

/// The part of a state that selects numbers, as the API wants it.
export function selection(state: State): string {
  const query = new URLSearchParams();
  for (const [name, parameter] of SELECTING) if (state[name]) query.set(parameter, state[name]);
  if (state.base) {
    query.set("base", state.base);
    if (state.from) query.set("base_source", state.from);
    if (state.since) query.set("base_at", state.since);
  }
  return query.toString();
}
