// Checks the page's types, then clicks through it in a real browser: `node tests/browser/run.mjs`.
// Packages come from the lock files; HEAPWISE names the executable (the debug build otherwise).

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.resolve(here, "../..");

function run(directory, command, ...args) {
  const { status, error } = spawnSync(command, args, { cwd: directory, stdio: "inherit" });
  if (error) console.error(`${command}: ${error.message}`);
  if (status !== 0) process.exit(status ?? 2);
}

for (const directory of [path.join(root, "web"), here]) {
  if (!existsSync(path.join(directory, "node_modules/.package-lock.json"))) run(directory, "npm", "ci", "--no-audit", "--no-fund");
}
run(path.join(root, "web"), "npm", "run", "--silent", "check");
if (!process.env["HEAPWISE"]) run(root, "cargo", "build", "--quiet", "--package", "heapwise");
run(here, "npm", "test", "--silent");
