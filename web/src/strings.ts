// Text of the page in the language of the browser. `strings/` has every sentence in both languages.

import { FRAME } from "./strings/frame.ts";
import { STATISTICS } from "./strings/statistics.ts";
import { VIEWS } from "./strings/views.ts";

/// English, then Chinese; `{name}` is replaced by a value.
export const TABLE = { ...FRAME, ...VIEWS, ...STATISTICS };
export type Key = keyof typeof TABLE;

export const isChinese = navigator.language.toLowerCase().startsWith("zh");

/// The parameter of requests whose answers have sentences.
export const language: Record<string, string> = isChinese ? { lang: "zh" } : {};

/// The sentence of a key.
export function t(key: Key, values: Record<string, string | number> = {}): string {
  return TABLE[key][isChinese ? 1 : 0].replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ""));
}

/// The translation of a word of the server, or the word itself.
export function word(group: string, name: string): string {
  const key = `${group}.${name}`;
  return key in TABLE ? t(key as Key) : name;
}

/// Sets the language of the document.
export function applyLanguage(): void {
  document.documentElement.lang = isChinese ? "zh-CN" : "en";
}
