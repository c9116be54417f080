// The program's own code beside a row: where it allocates, or which of its functions calls a
// library.

import type { OwnPlace } from "../api_types.ts";

interface Place {
  file: string;
  line: number;
  module: string;
  own?: OwnPlace;
}

/// `cache.cc:12`, or `get cache.cc:12` for memory of a library; `–` where no code of the program is
/// known.
export function ownPlace({ module, own }: Place): string {
  if (!own) return "–";
  return own.is_itself ? source(own) || module : [own.function, source(own)].filter(Boolean).join(" ");
}

/// Where a frame is: its source, or its binary.
export function place(frame: Place): string {
  return source(frame) || frame.module;
}

function source({ file, line }: { file: string; line: number }): string {
  return file ? `${file.split("/").pop()}${line ? `:${line}` : ""}` : "";
}
