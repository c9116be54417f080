// Colors of a flame graph in the theme on screen. Fills come with the data.

import { boxColors } from "../../../crates/render/src/flame/drawing.js";
import type { FlameColumns } from "../api_types.ts";
import { isDark } from "../state/theme.ts";

export interface Palette {
  fill(box: number): string;
  readonly legend: { label: string; color: string }[];
  readonly text: string;
  readonly dim: string;
  readonly dimText: string;
  readonly mark: string;
}

export function palette(columns: FlameColumns): Palette {
  const dark = isDark();
  const colors = dark ? columns.palette.dark : columns.palette.light;
  return {
    fill: boxColors(columns, dark),
    legend: columns.palette.legend.map(({ label, color }) => ({ label, color: colors[color] })),
    text: dark ? "#f3f1ee" : "#241a10",
    dim: dark ? "#2b2d31" : "#eceae6",
    dimText: dark ? "#a0a4ad" : "#6f6a61",
    mark: dark ? "#ffffff" : "#111111",
  };
}
