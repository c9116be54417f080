// The call graph, drawn by the server, moved and zoomed here.

import { getText } from "../api.ts";
import { h } from "../dom.ts";
import { setViewKeys } from "../keys.ts";
import { isDark } from "../state/theme.ts";
import { t } from "../strings.ts";
import { nothing } from "../widgets/message.ts";
import { apiPath, type Draw } from "./view.ts";

export const drawGraph: Draw = async (input) => {
  const text = await getText(apiPath(input, "graph"));
  const svg = new DOMParser().parseFromString(text, "image/svg+xml").documentElement as unknown as SVGSVGElement;
  if (svg.nodeName !== "svg") return nothing(t("nothing.draw"), t("nothing.graph"));
  for (const script of svg.querySelectorAll("script")) script.remove();
  // Its numbers are on the page.
  svg.querySelector(":scope > g:not([transform])")?.remove();
  const frame = h(isDark() ? "div.graph-frame.dark" : "div.graph-frame", { tabindex: "0", "aria-label": t("graph.label") });
  frame.append(document.importNode(svg, true));
  addEventListener("themechange", () => frame.classList.toggle("dark", isDark()));
  const camera = new Camera(frame, frame.firstElementChild as SVGSVGElement);
  setViewKeys([
    { key: "+", about: t("key.closer"), run: () => camera.zoom(0.8) },
    { key: "-", about: t("key.farther"), run: () => camera.zoom(1.25) },
    { key: "0", about: t("key.whole"), run: () => camera.reset() },
  ]);
  const file = (format: string) => h("a", { href: `/api/v1/${apiPath(input, "graph", { format })}`, download: `graph.${format}` }, format.toUpperCase());
  const tool = (label: string, about: string, run: () => void) => h("button", { onclick: run, "aria-label": about, title: about }, label);
  return h("section.graph", null,
    h("div.view-tools", null, tool("−", t("key.farther"), () => camera.zoom(1.25)), tool("+", t("key.closer"), () => camera.zoom(0.8)), tool(t("graph.fit"), t("graph.fit.about"), () => camera.reset()),
      h("span.found", null, t("graph.hint")), file("svg"), file("dot")),
    frame);
};

/// Pixels per unit of the picture at which its smallest text can be read.
const READABLE = 1.3;
/// Units above the first box.
const MARGIN = 14;

/// Moves the `viewBox` of a picture: sharp at any scale, and no layout.
class Camera {
  private readonly whole: DOMRect;
  private box: DOMRect;

  constructor(private readonly frame: HTMLElement, private readonly svg: SVGSVGElement) {
    const { viewBox } = svg;
    const size = (value: string | null) => parseFloat(value ?? "") || 1000;
    const given = viewBox.baseVal;
    this.whole = given && given.width
      ? new DOMRect(given.x, given.y, given.width, given.height)
      : new DOMRect(0, 0, size(svg.getAttribute("width")), size(svg.getAttribute("height")));
    this.box = this.whole;
    svg.setAttribute("width", "100%");
    svg.setAttribute("height", "100%");
    svg.setAttribute("preserveAspectRatio", "xMidYMid meet");
    this.apply();
    this.listen();
    const sized = new ResizeObserver(() => {
      // The frame has no size before it is part of the page.
      if (!frame.clientWidth) return;
      sized.disconnect();
      this.startReadable();
    });
    sized.observe(frame);
  }

  /// A picture too large to be read as a whole starts at its top, where the program starts.
  private startReadable(): void {
    const { clientWidth, clientHeight } = this.frame;
    const fit = Math.min(clientWidth / this.whole.width, clientHeight / this.whole.height);
    if (fit >= READABLE) return;
    const width = clientWidth / READABLE;
    const { x, y } = this.firstNode() ?? { x: this.whole.x + this.whole.width / 2, y: this.whole.y + MARGIN };
    this.box = new DOMRect(x - width / 2, y - MARGIN, width, clientHeight / READABLE);
    this.apply();
  }

  /// The middle of the upper side of the topmost box, in units of the picture.
  private firstNode(): DOMPoint | null {
    const matrix = this.svg.getScreenCTM()?.inverse();
    const places = [...this.svg.querySelectorAll(".node")].map((node) => node.getBoundingClientRect());
    const first = places.reduce<DOMRect | null>((best, place) => (best && best.y <= place.y ? best : place), null);
    return matrix && first ? new DOMPoint(first.x + first.width / 2, first.y).matrixTransform(matrix) : null;
  }

  reset(): void {
    this.box = this.whole;
    this.apply();
  }

  zoom(by: number, shareX = 0.5, shareY = 0.5): void {
    const { x, y, width, height } = this.box;
    const most = this.whole.width * 2;
    const next = Math.max(this.whole.width / 60, Math.min(most, width * by));
    const scale = next / width;
    this.box = new DOMRect(x + width * shareX * (1 - scale), y + height * shareY * (1 - scale), next, height * scale);
    this.apply();
  }

  private apply(): void {
    const { x, y, width, height } = this.box;
    this.svg.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  }

  private listen(): void {
    let last: { x: number; y: number } | null = null;
    this.frame.addEventListener("wheel", (event) => {
      event.preventDefault();
      const at = this.frame.getBoundingClientRect();
      this.zoom(event.deltaY > 0 ? 1.15 : 0.87, (event.clientX - at.x) / at.width, (event.clientY - at.y) / at.height);
    }, { passive: false });
    this.frame.addEventListener("pointerdown", (event) => {
      last = { x: event.clientX, y: event.clientY };
      this.frame.setPointerCapture(event.pointerId);
    });
    this.frame.addEventListener("pointermove", (event) => {
      if (!last) return;
      const scale = Math.max(this.box.width / this.frame.clientWidth, this.box.height / this.frame.clientHeight);
      this.box = new DOMRect(this.box.x - (event.clientX - last.x) * scale, this.box.y - (event.clientY - last.y) * scale, this.box.width, this.box.height);
      last = { x: event.clientX, y: event.clientY };
      this.apply();
    });
    this.frame.addEventListener("pointerup", () => (last = null));
  }
}
