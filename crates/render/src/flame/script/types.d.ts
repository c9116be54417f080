// The types of these scripts; `tsc` checks them together with the server's page.

import type { FlameColumns, Unit } from "../../../../../web/src/api_types.ts";

export type { FlameColumns, Unit };

export interface FlameModel {
  readonly columns: FlameColumns;
  readonly unit: Unit;
  readonly total: number;
  /// Width of everything, in the metric's unit.
  readonly width: number;
  readonly levels: number;
  readonly count: number;
  readonly names: string[];
  readonly modules: string[];
  readonly files: string[];
  readonly lines: number[];
  readonly frame: Uint32Array;
  readonly depth: Uint16Array;
  /// Left edge and width, in the metric's unit.
  readonly start: Float64Array;
  readonly span: Float64Array;
  /// Signed value here and below, value here, and the base's value.
  readonly sum: Float64Array;
  readonly own: Float64Array;
  readonly base: Float64Array;
  readonly isDiff: boolean;
  /// Caller of each box; -1 for the outermost.
  readonly parent: Int32Array;
  /// One past the last box of the subtree.
  readonly end: Uint32Array;
}

export type Direction = "in" | "out" | "next" | "previous";

/// Colors of a flame graph in one theme.
export interface Palette {
  fill(box: number): string;
  readonly legend: { label: string; color: string }[];
  readonly text: string;
  readonly dim: string;
  readonly dimText: string;
  readonly mark: string;
}

/// The part of the picture on screen.
export interface Window {
  /// Zoomed part, in the metric's unit.
  readonly from: number;
  readonly to: number;
  readonly widthPx: number;
  readonly topPx: number;
  readonly heightPx: number;
  /// Rows grow upwards from the bottom (callers of a sandwich) instead of downwards.
  readonly upwards: boolean;
}

export interface Decoration {
  readonly selected: number;
  readonly hovered: number;
  readonly matches: Matches | null;
}

/// Which boxes match, and how much they hold together.
export interface Matches {
  /// By frame: 1 when its name, file or module matches.
  readonly frames: Uint8Array;
  /// Sum of the outermost matching boxes: recursion counts once.
  readonly sum: number;
  readonly boxes: number;
}

export interface FlameEvents {
  hover(box: number, x: number, y: number): void;
  select(box: number): void;
  zoom(box: number): void;
  menu(box: number, x: number, y: number): void;
}
