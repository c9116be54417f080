// Asking the server. Every view gets its data here, and every error becomes one readable line.

import { t } from "./strings.ts";

const token = document.querySelector<HTMLMetaElement>('meta[name="heapwise-token"]')?.content ?? "";

/// What the server said no to.
export class ApiError extends Error {}

/// Answers of stored profiles never change, so they are kept for moving back and forth.
const kept = new Map<string, Promise<unknown>>();
const KEPT = 24;

/// The decoded answer of `GET /api/v1/<path>`.
export function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return answer(fetch(`/api/v1/${path}`, signal ? { signal } : {})).then((response) => response.json() as Promise<T>);
}

/// The same, fetched once per page for a stored profile.
export function getKept<T>(path: string): Promise<T> {
  const known = kept.get(path) as Promise<T> | undefined;
  if (known) return known;
  const asked = get<T>(path);
  kept.set(path, asked);
  asked.catch(() => kept.delete(path));
  if (kept.size > KEPT) kept.delete(kept.keys().next().value as string);
  return asked;
}

/// Text of `GET /api/v1/<path>` (the call graph's SVG).
export async function getText(path: string): Promise<string> {
  return (await answer(fetch(`/api/v1/${path}`))).text();
}

/// `POST /api/v1/<path>`: the only way the page changes anything.
export async function post<T>(path: string, body: Record<string, string>): Promise<T> {
  const response = await answer(
    fetch(`/api/v1/${path}`, {
      method: "POST",
      headers: { "X-Heapwise-Token": token, "Content-Type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams(body).toString(),
    }),
  );
  return response.json() as Promise<T>;
}

async function answer(asked: Promise<Response>): Promise<Response> {
  let response: Response;
  try {
    response = await asked;
  } catch (why) {
    if (why instanceof DOMException && why.name === "AbortError") throw why;
    throw new ApiError(t("trouble.server"));
  }
  if (!response.ok) throw new ApiError((await response.text()).trim() || `HTTP ${response.status}`);
  return response;
}
