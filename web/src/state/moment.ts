// What the strip selects: a moment, a range, or two moments to compare.

import type { Timeline } from "../api_types.ts";
import type { State } from "./location.ts";

export type Mode = "peak" | "end" | "moment" | "range" | "diff";
/// A moment, or two, in milliseconds.
export type Span = { from: number; to: number };
export interface Chosen {
  mode: Mode;
  span: Span | null;
}

/// What the URL selects on a timeline.
export function chosen(state: State, timeline: Timeline): Chosen {
  return timeline.any_range ? ofRecording(state, timeline) : ofProfiles(state, timeline);
}

function ofRecording(state: State, timeline: Timeline): Chosen {
  const [first, last] = state.at.split("..");
  const to = msOf(last ?? first, timeline);
  if (state.base && !state.from) return { mode: "diff", span: both(msOf(state.since, timeline), to) };
  if (last !== undefined) return { mode: "range", span: both(msOf(first, timeline), to) };
  const mode = state.at === "peak" ? "peak" : state.at === "" || state.at === "end" ? "end" : "moment";
  return { mode, span: both(to, to) };
}

function ofProfiles(state: State, timeline: Timeline): Chosen {
  const ms = (name: string) => timeline.marks.find((mark) => mark.profile === name)?.ms ?? null;
  const to = state.profile ? ms(state.profile) : timeline.points.at(-1)?.[0] ?? null;
  if (state.base && !state.from) return { mode: "diff", span: both(ms(state.base), to) };
  if (state.type === "peak_space") return { mode: "peak", span: both(timeline.peak?.[0] ?? null, timeline.peak?.[0] ?? null) };
  return { mode: state.profile ? "moment" : "end", span: both(to, to) };
}

function both(from: number | null, to: number | null): Span | null {
  return from === null || to === null ? null : { from, to };
}

function msOf(text: string, { points, peak, marks }: Timeline): number | null {
  const end = points.at(-1)?.[0] ?? null;
  if (text === "" || text === "end") return end;
  if (text === "peak") return peak?.[0] ?? null;
  const number = /^([\d.]+)(ms|%)$/.exec(text);
  if (number?.[2] === "ms") return Number(number[1]);
  if (number && end !== null) return Math.round((Number(number[1]) / 100) * end);
  return marks.find((mark) => mark.name === text)?.ms ?? null;
}

/// The change of the state that selects this.
export function choice(mode: Mode, span: Span, state: State, timeline: Timeline): Partial<State> {
  return timeline.any_range ? inRecording(mode, span, state) : amongProfiles(mode, span, state, timeline);
}

function inRecording(mode: Mode, { from, to }: Span, state: State): Partial<State> {
  const none = { base: state.from ? state.base : "", from: state.from, since: "" };
  switch (mode) {
    case "peak":
      return { ...none, at: "peak" };
    case "end":
      return { ...none, at: "" };
    case "moment":
      return { ...none, at: `${to}ms` };
    case "range":
      return { ...none, at: `${from}ms..${to}ms` };
    case "diff":
      return { base: state.profile, from: "", since: `${from}ms`, at: `${to}ms` };
  }
}

/// Of a process or a directory, the stored profiles nearest to it.
function amongProfiles(mode: Mode, { from, to }: Span, state: State, timeline: Timeline): Partial<State> {
  const stored = timeline.marks.filter((mark) => mark.profile);
  const nearest = (ms: number) => stored.reduce((best, mark) => (Math.abs(mark.ms - ms) < Math.abs(best.ms - ms) ? mark : best), stored[0])?.profile ?? "";
  const plain = { base: "", from: "", since: "", type: state.type === "peak_space" ? "inuse_space" : state.type };
  const isDirectory = timeline.points.length === stored.length;
  if (mode === "end") return { ...plain, profile: isDirectory ? stored.at(-1)?.profile ?? "" : "" };
  if (mode === "peak") return isDirectory ? { ...plain, profile: nearest(timeline.peak?.[0] ?? 0) } : { ...plain, type: "peak_space" };
  if (mode === "moment") return stored.length ? { ...plain, profile: nearest(to) } : {};
  const [base, profile] = [nearest(from), nearest(to)];
  if (base && base !== profile) return { ...plain, profile, base };
  // Both moments are nearest to one profile: the one before it is the base.
  const at = Math.max(1, stored.findIndex((mark) => mark.profile === profile));
  if (mode === "diff" && stored.length > 1) return { ...plain, profile: stored[at].profile ?? "", base: stored[at - 1].profile ?? "" };
  return profile ? { ...plain, profile } : {};
}
