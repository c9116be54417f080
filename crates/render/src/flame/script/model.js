// A call tree in typed arrays: a million boxes take some 40 MB and one pass to build.
//
// Boxes come depth first with siblings largest first, so a subtree is a run of indices and the
// first sibling too narrow to see ends its whole row of siblings.

/** @import { FlameColumns, FlameModel } from "./types.d.ts" */

/** @param {FlameColumns} columns @returns {FlameModel} */
export function buildModel(columns) {
  const { boxes, frames } = columns;
  const count = boxes.frame.length;
  const isDiff = boxes.base !== undefined;
  const span = Float64Array.from(boxes.width);
  const depth = Uint16Array.from(boxes.depth);
  const places = place(depth, span);
  return {
    columns, unit: columns.unit, total: columns.total, isDiff, count,
    width: places.width, levels: places.levels,
    names: frames.name, modules: frames.module, files: frames.file, lines: frames.line,
    frame: Uint32Array.from(boxes.frame), depth, span,
    own: Float64Array.from(boxes.own),
    sum: isDiff && boxes.sum ? Float64Array.from(boxes.sum) : span,
    base: isDiff && boxes.base ? Float64Array.from(boxes.base) : new Float64Array(0),
    start: places.start, parent: places.parent, end: places.end,
  };
}

/// Left edges, parents and subtree ends from depths and widths alone.
/** @param {Uint16Array} depth @param {Float64Array} span */
function place(depth, span) {
  const count = depth.length;
  const start = new Float64Array(count);
  const parent = new Int32Array(count);
  const end = new Uint32Array(count);
  /** @type {number[]} */
  const open = [];
  const cursor = [0];
  let levels = 0;
  for (let i = 0; i < count; i += 1) {
    const level = depth[i];
    for (; open.length > level; open.pop()) end[open[open.length - 1]] = i;
    parent[i] = level > 0 ? open[level - 1] : -1;
    start[i] = cursor[level];
    cursor[level] += span[i];
    cursor[level + 1] = start[i];
    open[level] = i;
    if (level >= levels) levels = level + 1;
  }
  for (const box of open) end[box] = count;
  return { start, parent, end, levels, width: cursor[0] };
}

/// Names from the outermost caller down to a box.
/** @param {FlameModel} model @param {number} box */
export function path(model, box) {
  const names = [];
  for (let at = box; at >= 0; at = model.parent[at]) names.push(model.names[model.frame[at]]);
  return names.reverse();
}

/// The ranks of a box and its callers among their siblings, outermost first, with runs of zeros
/// counted: `z3.1.z2` represents 0.0.0.1.0.0. A URL with names would be too long.
/** @param {FlameModel} model @param {number} box */
export function rankPath(model, box) {
  /** @type {number[]} */
  const ranks = [];
  for (let at = box; at >= 0; at = model.parent[at]) {
    let rank = 0;
    for (let sibling = model.parent[at] + 1; sibling < at; sibling = model.end[sibling]) rank += 1;
    ranks.unshift(rank);
  }
  const parts = [];
  for (let at = 0; at < ranks.length; ) {
    let zeros = at;
    while (ranks[zeros] === 0) zeros += 1;
    parts.push(zeros > at ? `z${zeros - at}` : String(ranks[at]));
    at = Math.max(zeros, at + 1);
  }
  return parts.join(".");
}

/// The box of a path of ranks; -1 when this tree has none.
/** @param {FlameModel} model @param {string} path */
export function findRanks(model, path) {
  const ranks = path.split(".").flatMap((part) =>
    part.startsWith("z") ? new Array(Math.min(Number(part.slice(1)) || 0, model.levels)).fill(0) : [Number(part)]);
  let found = -1;
  for (const rank of ranks) {
    const to = found < 0 ? model.count : model.end[found];
    let at = found + 1;
    for (let skipped = 0; skipped < rank && at < to; skipped += 1) at = model.end[at];
    if (!(rank >= 0) || at >= to) return -1;
    found = at;
  }
  return found;
}
