// A small menu at a point: what can be done with one frame.

import { h } from "../dom.ts";

/// Something to do, or a file to download.
export interface Action {
  label: string;
  run?: () => void;
  href?: string;
}

let open: HTMLElement | null = null;

export function closeMenu(): void {
  open?.remove();
  open = null;
}

export function showMenu(x: number, y: number, title: string, actions: Action[]): void {
  closeMenu();
  const pick = (action: Action) => () => {
    closeMenu();
    action.run?.();
  };
  const items = actions.map((action) => action.href
    ? h("a", { role: "menuitem", href: action.href, download: true, onclick: pick(action) }, action.label)
    : h("button", { role: "menuitem", onclick: pick(action) }, action.label));
  const menu = h("div.menu", { role: "menu", onkeydown: (event: KeyboardEvent) => move(event, items) },
    h("div.menu-title", null, title), items);
  document.body.append(menu);
  const { width, height } = menu.getBoundingClientRect();
  menu.style.left = `${Math.max(4, Math.min(x, innerWidth - width - 8))}px`;
  menu.style.top = `${Math.max(4, Math.min(y, innerHeight - height - 8))}px`;
  open = menu;
  items[0]?.focus();
}

function move(event: KeyboardEvent, items: HTMLElement[]): void {
  const at = items.indexOf(document.activeElement as HTMLElement);
  if (event.key === "Escape") closeMenu();
  else if (event.key === "ArrowDown") items[(at + 1) % items.length].focus();
  else if (event.key === "ArrowUp") items[(at + items.length - 1) % items.length].focus();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

document.addEventListener("pointerdown", (event) => {
  if (open && !open.contains(event.target as Node)) closeMenu();
});
