// Rules of drawing a flame graph, shared by the server's page, the exported page and the SVG.

/// The text of a box: all of the name with the amount, all of the name, the part after the last
/// `::`, the beginning of that; nothing where fewer than three letters would be left.
/// `widthOf(text)` measures.
export function fitLabel(name, amount, room, widthOf) {
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

/// The color of each box: of its frame, or in a comparison of its change as a share of the larger of
/// its two sides.
export function boxColors(columns, dark) {
  const { frames, boxes } = columns;
  const colors = dark ? columns.palette.dark : columns.palette.light;
  if (frames.color) return (box) => colors[frames.color[boxes.frame[box]]];
  const middle = (colors.length - 1) / 2;
  return (box) => {
    const change = boxes.sum[box];
    const larger = Math.max(boxes.base[box], boxes.base[box] + change);
    const share = larger > 0 ? Math.max(-1, Math.min(1, change / larger)) : 0;
    return colors[Math.round(middle * (1 + share))];
  };
}
