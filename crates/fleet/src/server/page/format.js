// Values of cells as text.
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

// The second of a time in nanoseconds since the epoch.
export function time(nanoseconds) {
  return `${new Date(nanoseconds / 1e6).toISOString().slice(0, 19)}Z`;
}

export function cell(name, value) {
  if (typeof value !== "number") return String(value ?? "");
  if (name.endsWith("time_ns")) return time(value);
  if (name.endsWith("_bytes") || name === "score" || name === "bytes_per_hour") return bytes(value);
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}
