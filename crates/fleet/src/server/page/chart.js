// Live bytes over time, a line for each release.
import { bytes, time } from "./format.js";

const COLORS = ["var(--accent)", "var(--select-line)", "var(--good)", "var(--bad)", "var(--muted)"];
const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [900, 220, 80, 24, 16];

function shape(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

export function chart(rows) {
  const picture = shape("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  const times = rows.map((row) => row.time_ns);
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const most = Math.max(...rows.map((row) => row.live_bytes), 1);
  const x = (value) => LEFT + ((WIDTH - LEFT - 10) * (value - first)) / Math.max(last - first, 1);
  const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * value) / most;
  for (const part of [0, 0.5, 1]) {
    picture.append(shape("line", { x1: LEFT, x2: WIDTH - 10, y1: y(part * most), y2: y(part * most) }));
    picture.append(shape("text", { x: LEFT - 6, y: y(part * most) + 4, "text-anchor": "end" }, bytes(part * most)));
  }
  picture.append(shape("text", { x: LEFT, y: HEIGHT - 6 }, time(first)));
  picture.append(shape("text", { x: WIDTH - 10, y: HEIGHT - 6, "text-anchor": "end" }, time(last)));
  const releases = [...new Set(rows.map((row) => row.release))];
  releases.forEach((release, number) => {
    const own = rows.filter((row) => row.release === release);
    const [stroke, end] = [COLORS[number % COLORS.length], own[own.length - 1]];
    picture.append(shape("polyline", { stroke, points: own.map((row) => `${x(row.time_ns)},${y(row.live_bytes)}`).join(" ") }));
    const label = shape("text", { x: x(end.time_ns), y: Math.max(y(end.live_bytes) - 5, 11), "text-anchor": "end" }, release);
    label.style.fill = stroke;
    picture.append(label);
  });
  return picture;
}
