// Labels and colors of boxes, shared by the server's page, the exported page and the SVG.

/** @import { FlameColumns, Palette } from "./types.d.ts" */

/// A name as it is shown: `load job.py:4` of `load /home/me/job.py:4`; the tooltip has the folder.
/** @param {string} name */
export function withoutFolder(name) {
  return name.replace(/ \/(?:[^ ]*\/)?(?=[^ /]+$)/, " ");
}

/// The text of a box: all of the name with the amount, all of the name, the part after the last
/// `::`, the beginning of that; nothing where fewer than three letters would be left.
/// `widthOf(text)` measures.
/**
 * @param {string} name @param {string} amount @param {number} room
 * @param {(text: string) => number} widthOf
 */
export function fitLabel(name, amount, room, widthOf) {
  name = withoutFolder(name);
  const last = name.slice(name.lastIndexOf("::") < 0 ? 0 : name.lastIndexOf("::") + 2);
  const whole = `${name} · ${amount}`;
  const fits = [whole, name, last].find((text) => widthOf(text) <= room);
  if (fits !== undefined) return fits;
  const letters = [...last];
  let low = 0;
  let high = letters.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (widthOf(`${letters.slice(0, middle).join("")}…`) <= room) low = middle;
    else high = middle - 1;
  }
  return low < 3 ? "" : `${letters.slice(0, low).join("")}…`;
}

/// The color of each box: of its frame, or in a comparison of its change as a share of the larger
/// of its two sides.
/** @param {FlameColumns} columns @param {boolean} dark @returns {(box: number) => string} */
export function boxColors(columns, dark) {
  const { frames, boxes } = columns;
  const colors = dark ? columns.palette.dark : columns.palette.light;
  const { color } = frames;
  const { sum = [], base = [] } = boxes;
  if (color) return (box) => colors[color[boxes.frame[box]]];
  const middle = (colors.length - 1) / 2;
  return (box) => {
    const change = sum[box];
    const larger = Math.max(base[box], base[box] + change);
    const share = larger > 0 ? Math.max(-1, Math.min(1, change / larger)) : 0;
    return colors[Math.round(middle * (1 + share))];
  };
}

/// All colors of a flame graph in a light or dark theme. Fills come with the data.
/** @param {FlameColumns} columns @param {boolean} dark @returns {Palette} */
export function palette(columns, dark) {
  const colors = dark ? columns.palette.dark : columns.palette.light;
  return {
    fill: boxColors(columns, dark),
    legend: columns.palette.legend.map(({ label, color }) => ({ label, color: colors[color] })),
    text: dark ? "#f3f1ee" : "#241a10",
    dim: dark ? "#2b2d31" : "#eceae6",
    dimText: dark ? "#a0a4ad" : "#6f6a61",
    mark: dark ? "#ffffff" : "#111111",
  };
}
