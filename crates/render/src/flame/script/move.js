// Walking over boxes with the arrow keys.

/** @import { Direction, FlameModel } from "./types.d.ts" */

/// The neighbour of a box, or the box itself at an edge. From nothing, the first box.
/** @param {FlameModel} model @param {number} box @param {Direction} direction */
export function neighbour(model, box, direction) {
  if (model.count === 0) return -1;
  if (box < 0) return 0;
  const parent = model.parent[box];
  switch (direction) {
    case "in":
      return model.end[box] > box + 1 ? box + 1 : box;
    case "out":
      return parent < 0 ? box : parent;
    case "next": {
      const next = model.end[box];
      return next < (parent < 0 ? model.count : model.end[parent]) ? next : box;
    }
    case "previous": {
      let at = parent < 0 ? 0 : parent + 1;
      if (at === box) return box;
      while (model.end[at] < box) at = model.end[at];
      return at;
    }
  }
}
