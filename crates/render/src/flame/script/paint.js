// Drawing what can be seen: boxes of at least half a pixel in the rows on screen.

import { change, quantity } from "./amounts.js";
import { fitLabel } from "./drawing.js";

/** @import { Decoration, FlameModel, Palette, Window } from "./types.d.ts" */

export const ROW = 19;
const FONT = "12px system-ui, sans-serif";
const MIN_PX = 0.5;
/// Narrower boxes get no text.
const TEXT_PX = 26;

/// Calls `visit` with each box that can be seen, and its left edge and width in pixels.
/**
 * @param {FlameModel} model @param {Window} view
 * @param {(box: number, x: number, width: number) => void} visit
 */
export function visible(model, view, visit) {
  const scale = view.widthPx / (view.to - view.from || 1);
  const maxLevel = Math.ceil((view.topPx + view.heightPx) / ROW);
  for (let i = 0; i < model.count; ) {
    const start = model.start[i];
    const width = model.span[i] * scale;
    if (width < MIN_PX) {
      // Later siblings are not wider: continue after the parent.
      i = model.parent[i] < 0 ? model.count : model.end[model.parent[i]];
      continue;
    }
    if (start >= view.to || start + model.span[i] <= view.from) {
      i = model.end[i];
      continue;
    }
    const left = Math.max(0, (start - view.from) * scale);
    const right = Math.min(view.widthPx, (start + model.span[i] - view.from) * scale);
    visit(i, left, right - left);
    i = model.depth[i] + 1 >= maxLevel && !view.upwards ? model.end[i] : i + 1;
  }
}

/// Vertical position of a row on the canvas.
/** @param {FlameModel} model @param {Window} view @param {number} level */
export function rowTop(model, view, level) {
  const y = view.upwards ? (model.levels - 1 - level) * ROW : level * ROW;
  return y - view.topPx;
}

/**
 * @param {CanvasRenderingContext2D} context @param {FlameModel} model @param {Window} view
 * @param {Palette} colors @param {Decoration} marks
 */
export function paint(context, model, view, colors, marks) {
  context.clearRect(0, 0, view.widthPx, view.heightPx);
  context.font = FONT;
  context.textBaseline = "middle";
  visible(model, view, (box, x, width) => {
    const y = rowTop(model, view, model.depth[box]);
    if (y + ROW < 0 || y > view.heightPx) return;
    const matched = !marks.matches || marks.matches.frames[model.frame[box]] === 1;
    context.fillStyle = matched ? colors.fill(box) : colors.dim;
    const inner = width > 3 ? width - 1 : width;
    context.fillRect(x, y, inner, ROW - 1);
    if (width > TEXT_PX) label(context, model, box, x, y, inner, matched ? colors.text : colors.dimText);
    if (box === marks.selected || box === marks.hovered) {
      context.strokeStyle = colors.mark;
      context.lineWidth = box === marks.selected ? 2 : 1;
      context.strokeRect(x + 0.5, y + 0.5, Math.max(inner - 1, 1), ROW - 2);
    }
  });
}

/**
 * @param {CanvasRenderingContext2D} context @param {FlameModel} model @param {number} box
 * @param {number} x @param {number} y @param {number} width @param {string} color
 */
function label(context, model, box, x, y, width, color) {
  const amount = (model.isDiff ? change : quantity)(model.sum[box], model.unit);
  const text = fitLabel(model.names[model.frame[box]], amount, width - 8, (part) => textWidth(context, part));
  if (!text) return;
  context.fillStyle = color;
  context.fillText(text, x + 4, y + ROW / 2);
}

/// Widths of names, which are measured once: measuring is what text costs.
/** @type {Map<string, number>} */
const widths = new Map();

/** @param {CanvasRenderingContext2D} context @param {string} text */
function textWidth(context, text) {
  let width = widths.get(text);
  if (width === undefined) {
    width = context.measureText(text).width;
    if (widths.size > 50_000) widths.clear();
    widths.set(text, width);
  }
  return width;
}

/// The box under a point of the canvas; -1 for none.
/** @param {FlameModel} model @param {Window} view @param {number} px @param {number} py */
export function boxAt(model, view, px, py) {
  const row = Math.floor((py + view.topPx) / ROW);
  const level = view.upwards ? model.levels - 1 - row : row;
  const value = view.from + (px / view.widthPx) * (view.to - view.from);
  let from = 0;
  let to = model.count;
  for (let depth = 0; depth <= level; depth += 1) {
    let hit = -1;
    for (let at = from; at < to; at = model.end[at]) {
      if (value < model.start[at]) break;
      if (value < model.start[at] + model.span[at]) {
        hit = at;
        break;
      }
    }
    if (hit < 0) return -1;
    if (depth === level) return hit;
    from = hit + 1;
    to = model.end[hit];
  }
  return -1;
}
