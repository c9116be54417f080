// What is still held, by the place that allocated it, with the stacks that led there.

import type { Leaks, Stack } from "../api_types.ts";
import { h } from "../dom.ts";
import { change, count, percent, quantity } from "../format.ts";
import { setViewKeys } from "../keys.ts";
import { t } from "../strings.ts";
import { bar } from "../widgets/bar.ts";
import { nothing } from "../widgets/message.ts";
import { ownPlace, place } from "../widgets/own_place.ts";
import { ask, type Draw } from "./view.ts";

export const drawLeaks: Draw = async (input) => {
  const leaks = await ask<Leaks>(input, "leaks", { n: "200" });
  setViewKeys([]);
  if (!leaks.groups.length) return nothing(t("nothing.held"), t("nothing.held.why"));
  const amount = (value: number) => (leaks.base_total ? change(value, leaks.unit) : quantity(value, leaks.unit));
  const whole = leaks.base_total || leaks.total;
  const groups = leaks.groups.map((group, at) =>
    h("details.leak", { open: at === 0 },
      h("summary", null, h("span.number", null, amount(group.value)), h("span.share", null, bar(group.value / whole), percent(group.value, whole)),
        h("span.name", { title: group.name }, group.name), h("span.where", null, ownPlace(group))),
      group.stacks.map((stack) => drawStack(stack, amount)),
      group.more_stacks > 0 && h("p.note", null, t("held.more_stacks", { n: count(group.more_stacks) }))));
  return h("section.leaks", null, h("p.lead", null, h("b", null, amount(leaks.total)), places(leaks.groups.length + leaks.dropped), t(`held.${leaks.verdict}`)),
    groups, leaks.dropped > 0 && h("p.note", null, t("held.dropped", { n: count(leaks.dropped) })));
};

function places(number: number): string {
  return number === 1 ? t("held.place") : t("held.places", { n: count(number) });
}

/// Frames shown of a stack before it is opened.
const FRAMES = 10;

function drawStack(stack: Stack, amount: (value: number) => string): HTMLElement {
  const item = (frame: Stack["frames"][number]) => h("li", null, h("code", null, frame.name), " ", h("span.where", null, place(frame)));
  const rest = stack.frames.slice(FRAMES);
  return h("div.stack", null, h("span.number", null, amount(stack.value)),
    h("div", null, h("ol", null, stack.frames.slice(0, FRAMES).map(item)),
      rest.length > 0 && h("details.rest", null, h("summary", null, t("held.callers", { n: rest.length })), h("ol", null, rest.map(item)))));
}
