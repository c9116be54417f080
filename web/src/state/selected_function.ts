// The function that is selected in all panels: a click in one highlights it in the others.

import { remember, state } from "./navigate.ts";

type Listener = (name: string) => void;
const listeners = new Map<Element, Listener>();

/// Calls `listener` for every selection, as long as `element` is in the page.
export function onFunction(element: Element, listener: Listener): void {
  listeners.set(element, listener);
}

export function selectFunction(name: string): void {
  if (name === state().function) return;
  remember({ function: name });
  for (const [element, listener] of listeners) {
    if (element.isConnected) listener(name);
    else listeners.delete(element);
  }
}
