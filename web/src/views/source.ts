// The source of a function with the bytes of each line, as the command `list` shows it.

import type { Listing, Top } from "../api_types.ts";
import { h } from "../dom.ts";
import { change, functionOf, quantity } from "../format.ts";
import { escapePattern } from "../../../crates/render/src/flame/script/search.js";
import { setViewKeys } from "../keys.ts";
import { go } from "../state/navigate.ts";
import { t } from "../strings.ts";
import { nothing } from "../widgets/message.ts";
import { ask, type Draw, type ViewInput } from "./view.ts";

/// Functions that can be chosen.
const OFFERED = 100;

export const drawSourceText: Draw = async (input) => {
  const top = await ask<Top>(input, "top", { n: String(OFFERED), granularity: "functions" });
  const names = top.rows.map((row) => row.name);
  // Code of the program comes before that of libraries.
  const ofProgram = top.rows.find((row) => row.own?.file)?.own?.function;
  const name = input.state.function || (ofProgram ?? top.rows.find((row) => row.file)?.name ?? names[0] ?? "");
  const field = h("select", { "aria-label": t("source.function"), onchange: () => go({ function: field.value }) },
    (names.includes(name) || !name ? names : [name, ...names]).map((option) => h("option", { value: option, selected: option === name }, option)));
  setViewKeys([{ key: "/", about: t("source.function"), run: () => field.focus() }]);
  const tools = h("div.view-tools", null, h("label.choice", null, h("span", null, t("source.function")), field));
  if (!name) return nothing(t("nothing.source"), t("nothing.source.why"));
  return h("section.listing", null, tools, await listing(input, name));
};

/// The lines of every function of that name.
export async function listing(input: ViewInput, name: string): Promise<HTMLElement> {
  const answer = await ask<Listing>(input, "list", { function: `^${escapePattern(functionOf(name))}$`, n: "5" });
  const functions = answer.functions.filter((part) => part.file);
  if (!functions.length) return nothing(t("nothing.lines", { name }), t("nothing.lines.why"));
  const amount = (value: number) => (value === 0 ? "" : answer.base_total ? change(value, answer.unit) : quantity(value, answer.unit));
  return h("div", null, functions.map((part) => {
    const most = Math.max(1, ...part.lines.map((line) => Math.abs(line.cum)));
    const row = (line: Listing["functions"][number]["lines"][number]) => h("tr", { style: { "--share": (Math.abs(line.cum) / most).toFixed(3) } },
      h("td.number", null, String(line.line)), h("td.number", null, amount(line.flat)), h("td.number", null, amount(line.cum)),
      h("td.code", null, h("code", null, line.text ?? "")));
    const hasText = part.lines.some((line) => line.text !== undefined);
    return h("div.card", null,
      h("h2", null, part.name, h("span.muted", null, ` ${amount(part.cum)} · ${part.file}`)),
      !hasText && h("p.note", null, t("source.missing")),
      h("div.code-box", { tabindex: "0", role: "group", "aria-label": part.name }, h("table.plain.code-lines", null,
        h("thead", null, h("tr", null, h("th", null, t("source.line")), h("th", null, t("source.own")), h("th", null, t("source.cum")), h("th.left", null, t("source.text")))),
        h("tbody", null, part.lines.map(row)))));
  }));
}
