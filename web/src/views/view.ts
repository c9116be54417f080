// The input of every view, and how it fetches its numbers.

import { get, getKept } from "../api.ts";
import type { SourcePage } from "../api_types.ts";
import { selection, type State } from "../state/location.ts";

export interface ViewInput {
  readonly state: State;
  readonly page: SourcePage;
}

/// A view turns the state into an element; views that draw later do so inside of it.
export type Draw = (input: ViewInput) => Promise<HTMLElement>;

/// Path of a response about the selected profile, e.g. `apiPath(input, "top", { n: "20" })`.
export function apiPath(input: ViewInput, what: string, more: Record<string, string> = {}): string {
  const query = new URLSearchParams(selection(input.state));
  for (const [name, value] of Object.entries(more)) query.set(name, value);
  return `sources/${encodeURIComponent(input.state.source)}/${what}?${query}`;
}

/// Whether nothing was ever recorded of what is selected.
export function isUnrecorded({ state, page: { source } }: ViewInput): boolean {
  return source.kind === "live" && !state.profile && source.mode === "off" && source.recording_since_unix_ms === null;
}

export function ask<T>(input: ViewInput, what: string, more: Record<string, string> = {}): Promise<T> {
  const path = apiPath(input, what, more);
  // The present state of a live process changes; a stored profile never does.
  return input.state.profile ? getKept<T>(path) : get<T>(path);
}
