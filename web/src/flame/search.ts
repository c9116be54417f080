// Which boxes match, and how much they hold together.

import type { FlameModel } from "./model.ts";

export interface Matches {
  /// By frame: 1 when its name, file or module matches.
  readonly frames: Uint8Array;
  /// Sum of the outermost matching boxes: recursion counts once.
  readonly sum: number;
  readonly boxes: number;
}

/// `null` for an empty pattern. A pattern that is not a regular expression is searched literally.
export function search(model: FlameModel, pattern: string): Matches | null {
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

export function compile(pattern: string): RegExp {
  try {
    return new RegExp(pattern, "i");
  } catch {
    return new RegExp(escapePattern(pattern), "i");
  }
}

/// The pattern that matches exactly this text.
export function escapePattern(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
