import type { FlameColumns } from "../../../../web/src/api_types.ts";

export function fitLabel(name: string, amount: string, room: number, widthOf: (text: string) => number): string;
export function boxColors(columns: FlameColumns, dark: boolean): (box: number) => string;
