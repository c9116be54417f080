// Numbers as people read them.

export { bytes, change, count, percent, quantity } from "../../crates/render/src/flame/script/amounts.js";
export { withoutFolder } from "../../crates/render/src/flame/script/drawing.js";

/// `305 ms`, `12.4 s`, `3 min 20 s`, `2 h 05 min`.
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${Number(seconds.toFixed(seconds < 10 ? 2 : 1))} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 < 0.5 ? `${minutes} min` : `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/// Local date and time to the second.
export function moment(unixMs: number): string {
  const at = new Date(unixMs - new Date(unixMs).getTimezoneOffset() * 60_000);
  return at.toISOString().slice(0, 19).replace("T", " ");
}

/// The function in the name of a frame: `load` of `load /home/me/job.py:4`.
export function functionOf(name: string): string {
  return name.replace(/ (?:<[^>]*>|[^ ]*[./][^ ]*)(?::\d+)?$/, "");
}
