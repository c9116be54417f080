// Colors of the lines of the ledger, the same in every chart.

export function lineColor(at: number, name: string): string {
  if (name === "unexplained") return "var(--muted)";
  return name.startsWith("heap") ? `hsl(24 55% ${45 + at * 9}%)` : `hsl(${(at * 47 + 150) % 360} 38% 55%)`;
}
