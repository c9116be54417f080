// Colors of the lines of the ledger, the same in every chart.

const HUES: Record<string, number> = { libraries: 200, probe: 250, files: 48, "thread stacks": 150, kernel: 320 };

/// Lines of the heap are shades of one color, by their number `at`.
export function lineColor(at: number, name: string): string {
  if (name === "unexplained") return "var(--muted)";
  if (name.startsWith("heap")) return `hsl(24 55% ${45 + at * 9}%)`;
  return `hsl(${HUES[name] ?? hueOf(name)} 38% 55%)`;
}

/// Lines of runtimes and mappings have names of their own.
function hueOf(name: string): number {
  return [...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 360, 90);
}
