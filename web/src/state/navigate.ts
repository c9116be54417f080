// Moving between states: the URL is written first, then everything is drawn from it.

import { format, parse, type State } from "./location.ts";

type Listener = (state: State) => void;

let listener: Listener = () => {};
let current = parse(location.pathname, location.search);

export function state(): State {
  return current;
}

/// Calls `draw` now and after every change.
export function onState(draw: Listener): void {
  listener = draw;
  addEventListener("popstate", () => {
    current = parse(location.pathname, location.search);
    listener(current);
  });
  listener(current);
}

/// Goes to the current state with some parts changed: a new entry in the browser's history.
export function go(changes: Partial<State>): void {
  write({ ...current, ...changes }, "push");
  listener(current);
}

/// Corrects the current entry, e.g. with the name of the profile just taken.
export function correct(changes: Partial<State>): void {
  write({ ...current, ...changes }, "replace");
  listener(current);
}

/// Records what the drawn view already shows (zoom, search), without drawing again.
export function remember(changes: Partial<State>): void {
  write({ ...current, ...changes }, "replace");
}

/// A step of the history that the drawn view already shows; Back draws the state before it.
export function step(changes: Partial<State>): void {
  write({ ...current, ...changes }, "push");
}

/// Where a link to the changed state leads.
export function href(changes: Partial<State>): string {
  return format({ ...current, ...changes });
}

/// Lets plain clicks on links inside the page change the state; other clicks stay the browser's.
export function followLinks(): void {
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest<HTMLAnchorElement>("a[data-go]");
    if (!link || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    const url = new URL(link.href);
    write(parse(url.pathname, url.search), "push");
    listener(current);
  });
}

function write(next: State, how: "push" | "replace"): void {
  current = next;
  const url = format(next);
  if (how === "push" && url !== location.pathname + location.search) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
}
