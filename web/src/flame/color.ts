// Colours of boxes: by binary, or by change against a base (blue shrank, orange grew: distinguishable
// by every kind of colour vision).

import type { FlameModel } from "./model.ts";
import { isDark } from "../state/theme.ts";

export interface Palette {
  fill(box: number): string;
  readonly text: string;
  readonly dim: string;
  readonly dimText: string;
  readonly gap: string;
  readonly mark: string;
}

const SHADES = 5;

export function palette(model: FlameModel): Palette {
  const dark = isDark();
  const fills = model.isDiff ? null : frameFills(model, dark);
  return {
    fill: (box) => (fills ? fills[model.frame[box]] : changeFill(model, box, dark)),
    text: dark ? "#f3f1ee" : "#241a10",
    dim: dark ? "#2b2d31" : "#eceae6",
    dimText: dark ? "#8b8f98" : "#8a857c",
    gap: dark ? "#17181b" : "#ffffff",
    mark: dark ? "#ffffff" : "#111111",
  };
}

/// A hue per binary, a slight shade per function, so that neighbours can be distinguished.
function frameFills(model: FlameModel, dark: boolean): string[] {
  const hues = moduleHues(model.modules);
  return model.names.map((name, frame) => {
    const hue = hues.get(model.modules[frame]) ?? null;
    const shade = hash(name) % SHADES;
    const lightness = dark ? 33 + shade * 2 : 77 + shade * 2.2;
    const saturation = hue === null ? 6 : dark ? 32 : 56;
    return `hsl(${hue ?? 210} ${saturation}% ${lightness}%)`;
  });
}

const SYSTEM = /^(ld-|libc[.-]|libm[.-]|libpthread|libstdc\+\+|libgcc_s|\[vdso\])/;
const SYSTEM_HUE = 212;
const HUES = [28, 44, 336, 150, 268, 8, 84, 300, 180, 60];

/// Libraries of the system are grey-blue; the others get hues in the order they appear, heaviest first.
function moduleHues(modules: string[]): Map<string, number> {
  const hues = new Map<string, number>();
  let next = 0;
  for (const module of modules) {
    if (!module || hues.has(module)) continue;
    hues.set(module, SYSTEM.test(module) ? SYSTEM_HUE : HUES[next++ % HUES.length]);
  }
  return hues;
}

function changeFill(model: FlameModel, box: number, dark: boolean): string {
  const before = model.base[box];
  const by = model.sum[box];
  const scale = Math.max(Math.abs(before), Math.abs(before + by), 1);
  const share = Math.max(-1, Math.min(1, by / scale));
  if (Math.abs(share) < 0.005) return dark ? "#3a3d43" : "#e4e2de";
  const strength = 0.25 + 0.75 * Math.abs(share);
  const hue = share > 0 ? 28 : 212;
  const saturation = 20 + 65 * strength;
  return `hsl(${hue} ${saturation}% ${dark ? 24 + 26 * strength : 90 - 28 * strength}%)`;
}

export function hash(text: string): number {
  let value = 2166136261;
  for (let i = 0; i < text.length; i += 1) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return value >>> 0;
}
