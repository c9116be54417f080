// Amounts as people read them; `profile::quantity` has the same rule.

/** @import { Unit } from "./types.d.ts" */

const STEPS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// `1.5 MiB`, three significant digits.
/** @param {number} value */
export function bytes(value) {
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
/** @param {number} value */
export function count(value) {
  const digits = Math.round(Math.abs(value)).toString();
  return sign(value) + digits.replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

/** @param {number} value @param {Unit} unit */
export function quantity(value, unit) {
  return unit === "bytes" ? bytes(value) : count(value);
}

/// With an explicit plus, for differences.
/** @param {number} value @param {Unit} unit */
export function change(value, unit) {
  return (value > 0 ? "+" : "") + quantity(value, unit);
}

/** @param {number} part @param {number} whole */
export function percent(part, whole) {
  if (whole === 0) return "–";
  const share = (100 * part) / whole;
  const size = Math.abs(share);
  if (size > 0 && size < 0.05) return share < 0 ? ">−0.1 %" : "<0.1 %";
  return `${share < 0 ? "−" : ""}${size.toFixed(1)} %`;
}

/** @param {number} value */
function sign(value) {
  return value < 0 ? "−" : "";
}
