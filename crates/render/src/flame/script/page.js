// The exported page: one of two trees, or the merged calls of one function, on a canvas.

import { change, percent, quantity } from "./amounts.js";
import { FlameCanvas } from "./canvas.js";
import { mergedCalls } from "./merged_calls.js";
import { buildModel } from "./model.js";
import { neighbour } from "./move.js";
import { search } from "./search.js";

/** @import { Direction, FlameColumns } from "./types.d.ts" */

/** @type {Record<string, Direction>} */
const ARROWS = { ArrowDown: "in", ArrowUp: "out", ArrowRight: "next", ArrowLeft: "previous" };

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
const field = /** @type {HTMLInputElement} */ (byId("search"));
const theme = matchMedia("(prefers-color-scheme: dark)");
/** @type {Record<string, string>} */
const words = JSON.parse(byId("words").textContent ?? "{}");
/** @type {FlameColumns[]} */
const directions = JSON.parse(byId("data").textContent ?? "[]");
let direction = 0;
let flame = draw(directions[0], "");

/// Shows a tree; `pivot` names the function whose calls it merges.
/** @param {FlameColumns} columns @param {string} pivot */
function draw(columns, pivot) {
  const model = buildModel(columns);
  const canvas = new FlameCanvas(model, {
    hover: showTip,
    select: tell,
    zoom: (box) => zoomTo(model.span[box] < model.width ? box : -1),
    menu: () => {},
  }, { upwards: false, dark: theme.matches });
  byId("flame").replaceChildren(canvas.element);
  byId("down").setAttribute("aria-pressed", String(direction === 0));
  byId("up").setAttribute("aria-pressed", String(direction === 1));
  return { model, canvas, pivot };
}

/** @param {FlameColumns} columns @param {string} pivot */
function show(columns, pivot) {
  flame = draw(columns, pivot);
  legend();
  find();
  zoomTo(-1);
}

/** @param {number} which */
function setDirection(which) {
  direction = which;
  show(directions[which], "");
}

/** @param {number} box */
function zoomTo(box) {
  const { canvas } = flame;
  canvas.zoomed = box;
  canvas.selected = box;
  tell(box);
  crumbs();
  canvas.draw();
}

/** @param {number} box */
function nameOf(box) {
  return flame.model.names[flame.model.frame[box]];
}

/** @param {number} box */
function describe(box) {
  const { model } = flame;
  const frame = model.frame[box];
  const value = model.sum[box];
  const amount = model.isDiff
    ? `${change(value, model.unit)} (was ${quantity(model.base[box], model.unit)})`
    : `${quantity(value, model.unit)} (${percent(value, model.width)}), own ${quantity(model.own[box], model.unit)}`;
  const file = model.files[frame] && model.files[frame] + (model.lines[frame] ? `:${model.lines[frame]}` : "");
  return [nameOf(box), amount, [file, model.modules[frame]].filter(Boolean).join("  ·  ")].filter(Boolean);
}

/** @param {number} box */
function tell(box) {
  byId("details").textContent = box < 0 ? "" : describe(box).slice(0, 2).join("   ");
}

/** @param {number} box @param {number} x @param {number} y */
function showTip(box, x, y) {
  const tip = byId("tip");
  tip.hidden = box < 0;
  if (box < 0) return;
  tip.textContent = describe(box).join("\n");
  tip.style.left = `${Math.min(x + 14, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(y + 16, innerHeight - tip.offsetHeight - 8)}px`;
}

/** A word of the page in its language. @param {string} text @returns {string} */
function word(text) {
  return words[text] ?? text;
}

function crumbs() {
  const { model, canvas, pivot } = flame;
  /** @param {string} text @param {() => void} go */
  const link = (text, go) => {
    const element = document.createElement("a");
    element.textContent = text;
    element.addEventListener("click", go);
    return element;
  };
  const callers = [];
  for (let at = canvas.zoomed; at >= 0; at = model.parent[at]) callers.unshift(at);
  byId("path").replaceChildren(
    link(word("all"), () => setDirection(direction)), pivot && `  ▸ ${word("every call of")} ${pivot}`,
    ...callers.flatMap((box) => ["  ▸ ", link(nameOf(box), () => zoomTo(box))]));
}

function legend() {
  byId("legend").replaceChildren(...flame.canvas.colors.legend.flatMap(({ label, color }) => {
    const swatch = document.createElement("i");
    swatch.style.background = color;
    return [swatch, word(label)];
  }));
}

function find() {
  const matches = search(flame.model, field.value);
  flame.canvas.matches = matches;
  byId("matched").textContent = matches ? percent(matches.sum, flame.model.width) : "";
  flame.canvas.draw();
}

/** @param {Direction} to */
function step(to) {
  const { canvas, model } = flame;
  canvas.selected = neighbour(model, canvas.selected, to);
  canvas.reveal(canvas.selected);
  tell(canvas.selected);
}

/// Whether the key means something here.
/** @param {string} key */
function press(key) {
  const { canvas, model } = flame;
  if (key in ARROWS) step(ARROWS[key]);
  else if (key === "/") field.focus();
  else if (key === "i") setDirection(1 - direction);
  else if (key === "0" || key === "Escape") setDirection(direction);
  else if (key === "Backspace") zoomTo(canvas.zoomed < 0 ? -1 : model.parent[canvas.zoomed]);
  else if (key === "Enter" && canvas.selected >= 0) zoomTo(canvas.selected);
  else if (key === "s" && canvas.selected >= 0) show(mergedCalls(model, model.frame[canvas.selected]), nameOf(canvas.selected));
  else return false;
  return true;
}

byId("down").addEventListener("click", () => setDirection(0));
byId("up").addEventListener("click", () => setDirection(1));
theme.addEventListener("change", () => {
  flame.canvas.recolor(theme.matches);
  legend();
});
field.addEventListener("input", find);
field.addEventListener("keydown", (event) => {
  event.stopPropagation();
  if (event.key !== "Escape") return;
  field.value = "";
  find();
  flame.canvas.element.focus();
});
addEventListener("keydown", (event) => {
  if (!event.ctrlKey && !event.metaKey && !event.altKey && press(event.key)) event.preventDefault();
});
legend();
crumbs();
