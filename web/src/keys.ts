// Keyboard shortcuts of the view on screen. A view registers its keys when it is drawn; the next
// view replaces them.

export interface Key {
  key: string;
  about: string;
  run: () => void;
}

let pageKeys: Key[] = [];
let viewKeys: Key[] = [];

export function setPageKeys(keys: Key[]): void {
  pageKeys = keys;
}

export function setViewKeys(keys: Key[]): void {
  viewKeys = keys;
}

/// What the help dialog lists.
export function allKeys(): Key[] {
  return [...viewKeys, ...pageKeys];
}

export function listen(): void {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target as HTMLElement;
    const typing = target.matches("input, select, textarea");
    if (typing) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    const hit = [...viewKeys, ...pageKeys].find((item) => item.key === event.key);
    if (!hit) return;
    event.preventDefault();
    hit.run();
  });
}
