// The rules that every flame graph shares; `flame/label.rs` and `flame/palette.rs` have them for
// pictures.

import assert from "node:assert/strict";
import { test } from "node:test";
import { boxColors, fitLabel } from "../../crates/render/src/flame/script/drawing.js";

const fit = (name, letters) => fitLabel(name, "6.61 MiB", letters, (text) => [...text].length);

test("labels are cut to their box", () => {
  assert.equal(fit("main", 20), "main · 6.61 MiB");
  assert.equal(fit("main", 10), "main");
  assert.equal(fit("main", 3), "");
  assert.equal(fit("std::vector::push_back", 12), "push_back");
  assert.equal(fit("a_rather_long_function_name", 12), "a_rather_lo…");
  assert.equal(fit("load /home/me/job.py:4", 40), "load job.py:4 · 6.61 MiB");
});

test("boxes have the color of their frame, or of their change", () => {
  const palette = { light: ["#a", "#b", "#c"], dark: ["#1", "#2", "#3"] };
  const plain = { palette, frames: { color: [2, 0] }, boxes: { frame: [0, 1, 0] } };
  assert.deepEqual([0, 1, 2].map(boxColors(plain, false)), ["#c", "#a", "#c"]);
  const compared = { palette, frames: {}, boxes: { frame: [0, 0, 0], sum: [5, 0, -5], base: [0, 5, 5] } };
  assert.deepEqual([0, 1, 2].map(boxColors(compared, true)), ["#3", "#2", "#1"]);
});
