// All calls of one function merged: the function at the root, its callees below it.

/** @import { FlameColumns, FlameModel } from "./types.d.ts" */

/**
 * A function in the merged tree, with the sums of its boxes in the order of `AMOUNTS`.
 * @typedef {{ frame: number, amounts: number[], children: Map<number, Merged> }} Merged
 */

/** @type {("width" | "own" | "sum" | "base")[]} */
const AMOUNTS = ["width", "own", "sum", "base"];

/** @param {FlameModel} model @param {number} frame @returns {FlameColumns} */
export function mergedCalls(model, frame) {
  const { boxes } = model.columns;
  const root = merged(frame);
  /** @param {Merged} to @param {number} box */
  const add = (to, box) => AMOUNTS.forEach((name, at) => (to.amounts[at] += boxes[name]?.[box] ?? 0));
  for (let box = 0; box < model.count; ) {
    if (model.frame[box] !== frame) {
      box += 1;
      continue;
    }
    add(root, box);
    const path = [root];
    for (let below = box + 1; below < model.end[box]; below += 1) {
      const level = model.depth[below] - model.depth[box];
      const caller = path[level - 1];
      const callee = caller.children.get(model.frame[below]) ?? merged(model.frame[below]);
      caller.children.set(callee.frame, callee);
      add(callee, below);
      path[level] = callee;
    }
    box = model.end[box];
  }
  return { ...model.columns, boxes: flattened(root, boxes.base !== undefined) };
}

/** @param {number} frame @returns {Merged} */
function merged(frame) {
  return { frame, amounts: AMOUNTS.map(() => 0), children: new Map() };
}

/// Depth first, siblings largest first, as every model has them.
/** @param {Merged} root @param {boolean} isDiff */
function flattened(root, isDiff) {
  /** @type {FlameColumns["boxes"]} */
  const boxes = { frame: [], depth: [], width: [], own: [] };
  if (isDiff) Object.assign(boxes, { sum: [], base: [] });
  /** @type {[Merged, number][]} */
  const pending = [[root, 0]];
  for (let next = pending.pop(); next; next = pending.pop()) {
    const [node, depth] = next;
    boxes.frame.push(node.frame);
    boxes.depth.push(depth);
    AMOUNTS.forEach((name, at) => boxes[name]?.push(node.amounts[at]));
    const children = [...node.children.values()].sort((a, b) => a.amounts[0] - b.amounts[0]);
    for (const child of children) pending.push([child, depth + 1]);
  }
  return boxes;
}
