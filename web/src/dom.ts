// Building elements: one function, so that views read like the markup they produce.

type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, unknown>;

/// An element `tag.class1.class2` with attributes, `on…` listeners and children.
export function h<K extends keyof HTMLElementTagNameMap>(
  selector: K | `${K}.${string}`,
  attributes?: Attributes | null,
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  const [tag, ...classes] = selector.split(".");
  const element = document.createElement(tag) as HTMLElementTagNameMap[K];
  if (classes.length) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
  element.append(...children.flat().filter(isShown).map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

function isShown(child: Child): child is Node | string | number {
  return child !== null && child !== undefined && child !== false;
}

function set(element: HTMLElement, name: string, value: unknown): void {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on") && typeof value === "function") {
    element.addEventListener(name.slice(2), value as EventListener);
  } else if (name === "style" && typeof value === "object") {
    for (const [property, text] of Object.entries(value as Record<string, string>)) {
      if (property.startsWith("--")) element.style.setProperty(property, text);
      else element.style[property as "color"] = text;
    }
  } else if (name === "value" || name === "checked" || name === "selected") {
    (element as unknown as Attributes)[name] = value;
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/// Replaces everything inside `parent`.
export function show(parent: Element, ...children: (Child | Child[])[]): void {
  parent.replaceChildren(
    ...children.flat().filter(isShown).map((child) => (child instanceof Node ? child : String(child))),
  );
}

const probe = h("span", { hidden: true });

/// A color of the page's theme, as a canvas takes it: `light-dark()` is resolved only where an
/// element uses it.
export function themeColor(name: string): string {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
