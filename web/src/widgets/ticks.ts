// Positions of labels on the axes of a chart.

/// Steps that clocks have, in milliseconds.
const TIME_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 21600e3, 86400e3];

export function timeTicks(from: number, to: number, about: number): number[] {
  const step = TIME_STEPS.find((candidate) => (to - from) / candidate <= about) ?? to - from;
  return multiples(step, to).filter((ms) => ms >= from);
}

/// Steps are powers of two, so that labels are round in KiB, MiB, GiB.
export function byteTicks(most: number, about: number): number[] {
  return multiples(2 ** Math.ceil(Math.log2(Math.max(most / about, 1))), most);
}

export function line(context: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

function multiples(step: number, most: number): number[] {
  const values: number[] = [];
  for (let value = 0; value <= most; value += step) values.push(value);
  return values;
}
