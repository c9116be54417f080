// The state of the page is its URL, and nothing else: the same URL shows the same picture.

export const VIEWS = [
  "overview", "flame", "table", "tree", "graph", "leaks", "sizes", "timeline", "diff", "allocator",
] as const;
export type View = (typeof VIEWS)[number];

/// What is looked at, and how.
export interface State {
  /// Empty on the list of sources.
  source: string;
  view: View;
  /// Name of the stored profile; empty until the page has chosen one.
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
  focus: string;
  ignore: string;
  hide: string;
  show: string;
  /// Flame and tree: `topdown`, `bottomup` or `sandwich` around `pivot`.
  shape: string;
  pivot: string;
  /// Ranks of the zoomed box and its callers among their siblings; empty for the whole.
  zoom: string;
  search: string;
  sort: string;
}

const EMPTY: State = {
  source: "", view: "overview", profile: "", base: "", from: "", since: "", at: "", type: "inuse_space", by: "functions",
  focus: "", ignore: "", hide: "", show: "", shape: "topdown", pivot: "", zoom: "", search: "", sort: "flat",
};

/// Parameters in the order they are written, so that equal states have equal URLs.
const PARAMETERS = [
  "profile", "base", "from", "since", "at", "type", "by", "focus", "ignore", "hide", "show", "shape", "pivot", "zoom", "search", "sort",
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
  const put = (name: string, value: string) => value && query.set(name, value);
  put("profile", state.profile);
  put("base", state.base);
  if (state.base) {
    put("base_source", state.from);
    put("base_at", state.since);
  }
  put("at", state.at);
  put("sample_type", state.type);
  put("granularity", state.by);
  for (const name of ["focus", "ignore", "hide", "show"] as const) put(name, state[name]);
  return query.toString();
}
