// Which boxes match, and how much they hold together.

/** @import { FlameModel, Matches } from "./types.d.ts" */

/// `null` for an empty pattern. A pattern that is not a regular expression is searched literally.
/** @param {FlameModel} model @param {string} pattern @returns {Matches | null} */
export function search(model, pattern) {
  if (!pattern) return null;
  const matcher = compile(pattern);
  const frames = new Uint8Array(model.names.length);
  for (let i = 0; i < frames.length; i += 1) {
    if (matcher.test(model.names[i]) || matcher.test(model.files[i]) || matcher.test(model.modules[i])) frames[i] = 1;
  }
  let sum = 0;
  let boxes = 0;
  for (let i = 0; i < model.count; ) {
    if (frames[model.frame[i]]) {
      sum += model.sum[i];
      boxes += 1;
      i = model.end[i];
    } else i += 1;
  }
  return { frames, sum, boxes };
}

/** @param {string} pattern */
export function compile(pattern) {
  try {
    return new RegExp(pattern, "i");
  } catch {
    return new RegExp(escapePattern(pattern), "i");
  }
}

/// The pattern that matches exactly this text.
/** @param {string} text */
export function escapePattern(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
