// The shapes of /api/v1 (docs/API.md is their description).

export type Unit = "bytes" | "objects";
export type Kind = "live" | "dead" | "file" | "directory" | "recording";

export interface Source {
  id: string;
  kind: Kind;
  title: string;
  detail: string;
  pid: number | null;
  mode: string | null;
  rate_bytes: number | null;
  /// Index of live blocks in force, where every block is recorded.
  index: "hash" | "shadow" | null;
  live_bytes: number | null;
  /// Of a file or recording: its size, and when it was written.
  file_bytes: number | null;
  modified_unix_ms: number | null;
  started_unix_ms: number | null;
  parent_pid: number | null;
  ended: "exited" | "killed" | null;
  recording_since_unix_ms: number | null;
  can_control: boolean;
  can_snapshot: boolean;
  has_timeline: boolean;
}

export interface StoredProfile {
  name: string;
  time_unix_ms: number | null;
  bytes: number;
}

export interface SourcePage {
  source: Source;
  profiles: StoredProfile[];
}

export interface SampleType {
  name: string;
  unit: Unit;
  total: number;
  base: number;
}

export interface FindingPlace {
  value: number;
  unit: string;
  percent: number;
  function: string;
  /// File and line, or empty.
  source: string;
  /// The function and its callers, `parse ← read ← main`.
  stack: string;
}

export interface Finding {
  kind: string;
  /// Numbers by name; the kind says which there are.
  values: Record<string, number>;
  sentence: string;
  function: string | null;
  /// Its functions in the program's own code, largest first.
  places: FindingPlace[];
  view: string;
  focus: string;
  sample_type: string;
  /// Of a recording: the moment or range that it is about; empty for the whole.
  at: string | null;
}

export interface Summary {
  profile: string;
  program: string;
  args: string[];
  pid: number | null;
  format: string;
  /// The language runtime whose frames are in the stacks: `Python`.
  runtime: string | null;
  sampling_mean_bytes: number | null;
  time_unix_ms: number | null;
  duration_ms: number | null;
  peak_bytes: number | null;
  stacks: number;
  functions: number;
  threads: number;
  modules: number;
  losses: Record<string, number>;
  /// Per table of the probe that was full: what is counted without attribution.
  unattributed?: Record<string, { alloc_objects: number; alloc_bytes: number; inuse_objects: number; inuse_bytes: number }>;
  coverage: Coverage;
  comments: string[];
  sample_types: SampleType[];
}

/// What the numbers cover: a line of text, and each gap with its words.
export interface Coverage {
  line: string;
  gaps: { kind: string; words: string }[];
}

export interface Whole {
  sample_type: string;
  unit: Unit;
  grand_total: number;
  total: number;
  /// Total of the base; 0 without one.
  base_total: number;
}

export interface Row {
  name: string;
  file: string;
  line: number;
  module: string;
  flat: number;
  flat_base: number;
  flat_percent: number;
  sum_percent: number;
  cum: number;
  cum_base: number;
  cum_percent: number;
  /// The program's own code that it is allocated for; none where there is no such code.
  own?: OwnPlace;
}

export interface OwnPlace {
  function: string;
  file: string;
  line: number;
  /// Whether the row is this function itself; otherwise the function calls it.
  is_itself: boolean;
}

export interface Top extends Whole {
  rows: Row[];
  dropped: number;
}

export interface FlameColumns extends Whole {
  /// `color` is absent in a comparison, where boxes are colored by their change.
  frames: { name: string[]; module: string[]; file: string[]; line: number[]; color?: number[] };
  boxes: { frame: number[]; depth: number[]; width: number[]; own: number[]; sum?: number[]; base?: number[] };
  palette: { light: string[]; dark: string[]; legend: { label: string; color: number }[] };
  dropped: number;
}

export interface Stack {
  value: number;
  frames: { name: string; file: string; line: number; module: string }[];
}

export interface Leaks extends Whole {
  verdict: "live" | "still_held" | "never_freed";
  groups: { name: string; file: string; line: number; module: string; value: number; stacks: Stack[]; more_stacks: number; own?: OwnPlace }[];
  dropped: number;
}

export interface SizeClass {
  min: number;
  max: number;
  objects: number;
  bytes: number;
}

export interface Sizes extends Whole {
  classes: SizeClass[];
  /// Finer classes, where the source has them.
  fine: SizeClass[];
  /// The size of every block is known; blocks of the process were counted by size; or mixed sizes
  /// count as their mean.
  source: "blocks" | "process" | "means";
  largest: { name: string; file: string; line: number; min_bytes: number | null; mean_bytes: number; max_bytes: number | null; objects: number; bytes: number }[];
}

export interface Listing extends Whole {
  functions: { name: string; file: string; flat: number; cum: number; lines: { line: number; flat: number; cum: number; text?: string }[] }[];
}

export interface Threads extends Whole {
  rows: { tid: number | null; name: string; value: number }[];
}

export interface Modules extends Whole {
  rows: { name: string; path: string; build_id: string; flat: number; cum: number }[];
}

export interface Timeline {
  /// Wall-clock time of ms 0, when known.
  start_unix_ms: number | null;
  step_ms: number;
  /// `[ms, live bytes]`, the local maximum of each step.
  points: [number, number][];
  /// Bytes allocated up to each point since the one before; empty where that is not known.
  allocated: number[];
  /// Resident bytes at each point; empty where they are not known.
  rss: number[];
  /// Lines of the ledger over time.
  resident: LedgerHistory;
  /// When it was, unless that was before the first point, and its bytes.
  peak: [number | null, number] | null;
  marks: { ms: number; name: string; profile: string | null }[];
  /// Whether any range can be selected, or only the marked moments.
  any_range: boolean;
}

export interface Ledger {
  resident: number;
  pss: number;
  swap: number;
  untouched: number;
  /// Sums of `madvise` and `memfd_create`: by the program, by the allocator.
  calls: { call: string; calls: number; bytes: number; allocator_calls: number; allocator_bytes: number }[];
  lines: { kind: string; name: string; bytes: number; about: string; parts: { name: string; bytes: number }[] }[];
}

/// Where the resident memory was: `[ms, bytes of each line …]`.
export interface LedgerHistory {
  names: string[];
  rows: number[][];
}

export interface Statistics {
  sections: {
    key: "allocator" | "allocator.before" | "allocator.never" | "resident" | "kernel" | "probe";
    allocator?: string;
    rows: { name: string; value: number; unit: Unit | "nanoseconds"; about?: string }[];
  }[];
}
