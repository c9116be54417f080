// What is selected as a file: of other tools, or a picture.

import { h } from "../dom.ts";
import { t } from "../strings.ts";
import { apiPath, type ViewInput } from "../views/view.ts";
import { showMenu } from "../widgets/menu.ts";

const TOOLS = [["pprof", "pprof"], ["speedscope", "speedscope"], ["folded", "flamegraph.pl (folded)"], ["heapwise", "heapwise"], ["csv", "CSV"]];

export function downloads(input: ViewInput): HTMLElement {
  const shape = input.state.shape === "bottomup" ? "bottomup" : "topdown";
  const file = (what: string, more: Record<string, string>) => `/api/v1/${apiPath(input, what, more)}`;
  const actions = [
    ...TOOLS.map(([format, tool]) => ({ label: t("download.profile", { tool }), href: file("export", { format }) })),
    ...["svg", "png"].map((format) => ({ label: t("download.flame", { format: format.toUpperCase() }), href: file("flame", { shape, format }) })),
  ];
  const open = (): void => {
    const { right, bottom } = button.getBoundingClientRect();
    showMenu(right - 220, bottom + 4, t("download.title"), actions);
  };
  const button = h("button.download", { title: `${t("download")}  w`, "aria-haspopup": "menu", onclick: open }, t("download"));
  return button;
}
