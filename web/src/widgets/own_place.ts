// The program's own code beside a row: where it allocates, or which of its functions calls a library.

import type { OwnPlace } from "../api_types.ts";

interface Place {
  file: string;
  line: number;
  module: string;
  own?: OwnPlace;
}

/// `cache.cc:12`, or `get cache.cc:12` for memory of a library; the binary where neither is known.
export function ownPlace({ file, line, module, own }: Place): string {
  if (own && !own.is_itself) return [own.function, source(own)].filter(Boolean).join(" ");
  return source(own ?? { file, line }) || module;
}

function source({ file, line }: { file: string; line: number }): string {
  return file ? `${file.split("/").pop()}${line ? `:${line}` : ""}` : "";
}
