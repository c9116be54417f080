// Numbers as people read them.

import type { Unit } from "./api_types.ts";

const STEPS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// `1.5 MiB`, three significant digits.
export function bytes(value: number): string {
  let size = Math.abs(value);
  let step = 0;
  while (size >= 1024 && step < STEPS.length - 1) {
    size /= 1024;
    step += 1;
  }
  const digits = step === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return `${sign(value)}${size.toFixed(digits)} ${STEPS[step]}`;
}

/// `12 345`, with thin spaces between thousands.
export function count(value: number): string {
  const digits = Math.round(Math.abs(value)).toString();
  return sign(value) + digits.replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

export function quantity(value: number, unit: Unit): string {
  return unit === "bytes" ? bytes(value) : count(value);
}

/// With an explicit plus, for differences.
export function change(value: number, unit: Unit): string {
  return (value > 0 ? "+" : "") + quantity(value, unit);
}

export function percent(part: number, whole: number): string {
  if (whole === 0) return "–";
  const share = (100 * part) / whole;
  const size = Math.abs(share);
  if (size > 0 && size < 0.05) return share < 0 ? ">−0.1 %" : "<0.1 %";
  return `${share < 0 ? "−" : ""}${size.toFixed(1)} %`;
}

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

function sign(value: number): string {
  return value < 0 ? "−" : "";
}
