// 100 people look at a live redis for a while: `node tests/load/serve_redis.mjs [SECONDS]`.
//
// Each asks for one of the heavier answers about once a second, from a process of lowest priority: people have
// machines of their own. Printed: requests, errors, the server's
// largest memory, and redis's throughput with and without them, in interleaved rounds, as a ratio.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const CLIENTS = 100;
const ROUNDS = 4;
const seconds = Number(process.argv[2] ?? 60);
const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const heapwise = process.env["HEAPWISE"] ?? path.join(root, "target/release/heapwise");
const scratch = mkdtempSync(path.join(tmpdir(), "heapwise-load-"));
const env = { ...process.env, HEAPWISE_DIR: path.join(scratch, "segments"), XDG_STATE_HOME: scratch };
const PORT = "7399";

function start(command, args) {
  return spawn(command, args, { env, cwd: scratch, stdio: ["ignore", "ignore", "pipe"] });
}

/// Requests a second of redis, as redis-benchmark counts them.
async function throughput(forSeconds) {
  const requests = String(Math.max(20_000, Math.round(forSeconds * 20_000)));
  const child = spawn("redis-benchmark", ["-p", PORT, "-t", "set", "-r", "100000", "-d", "64", "-n", requests, "-c", "20", "--csv"]);
  let text = "";
  for await (const piece of child.stdout) text += piece;
  return Number(/"SET","([\d.]+)"/.exec(text)?.[1] ?? /SET[^\d]*([\d.]+)/.exec(text)?.[1]);
}

class Crowd {
  constructor(address, id) {
    const pages = [
      `/p/${id}/pprof/heap`, `/p/${id}/pprof/heap?display=text`, `/p/${id}/debug/pprof/heap`,
      `/api/v1/sources/${id}/top?n=20`, `/api/v1/sources/${id}/flame`, `/api/v1/sources/${id}/summary`, `/api/v1/sources`,
    ];
    this.asked = 0;
    this.errors = [];
    this.running = true;
    this.clients = Array.from({ length: CLIENTS }, (_, at) => this.#client(address, pages[at % pages.length], at));
  }

  async #client(address, page, at) {
    await sleep(at * 10);
    while (this.running) {
      try {
        const answer = await fetch(address + page);
        await answer.arrayBuffer();
        if (!answer.ok) this.errors.push(`${page}: ${answer.status}`);
      } catch (why) {
        this.errors.push(`${page}: ${why.cause?.code ?? why.message}`);
      }
      this.asked += 1;
      await sleep(1000);
    }
  }

  async end() {
    this.running = false;
    await Promise.all(this.clients);
  }
}

/// Crowds live in a process of their own: `--crowd ADDRESS ID`, until a line comes in.
if (process.argv[2] === "--crowd") {
  const crowd = new Crowd(process.argv[3], process.argv[4]);
  await once(process.stdin, "data");
  await crowd.end();
  console.log(JSON.stringify({ asked: crowd.asked, errors: crowd.errors }));
  rmSync(scratch, { recursive: true, force: true });
  process.exit(0);
}

function startCrowd(address, id) {
  const script = fileURLToPath(import.meta.url);
  const child = spawn("nice", ["-n", "19", process.execPath, script, "--crowd", address, String(id)], { stdio: ["pipe", "pipe", "inherit"] });
  return async () => {
    child.stdin.end("\n");
    let text = "";
    for await (const piece of child.stdout) text += piece;
    return JSON.parse(text);
  };
}

function peakMegabytes(pid) {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

async function address(server) {
  let text = "";
  for await (const piece of server.stderr) {
    text += piece;
    const found = /serving at (http:\/\/[\d.:]+)/.exec(text);
    if (found) return found[1];
  }
  throw new Error(text);
}

const redis = start(heapwise, ["run", "--", "redis-server", "--port", PORT, "--save", "", "--appendonly", "no"]);
let server;
try {
  await sleep(2000);
  const [{ pid: id }] = JSON.parse(execFileSync(heapwise, ["ps", "--json"], { env, encoding: "utf8" }));
  server = start(heapwise, ["serve", "--port", "0", String(id)]);
  const at = await address(server);
  server.stderr.resume();
  await throughput(2);
  const alone = [];
  const watched = [];
  let asked = 0;
  const errors = [];
  const watch = async () => {
    const end = startCrowd(at, id);
    watched.push(await throughput(seconds / ROUNDS));
    const crowd = await end();
    asked += crowd.asked;
    errors.push(...crowd.errors);
  };
  const leave = async () => alone.push(await throughput(seconds / ROUNDS));
  // Each goes first in turn, so that neither always meets the warmer machine.
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const part of round % 2 ? [watch, leave] : [leave, watch]) await part();
  }
  const best = (values) => Math.max(...values);
  console.log(`requests ${asked}, errors ${errors.length} ${[...new Set(errors)].slice(0, 5).join("; ")}`);
  console.log(`server peak memory ${peakMegabytes(server.pid).toFixed(0)} MB`);
  console.log(`redis alone ${best(alone)}/s, watched by ${CLIENTS} ${best(watched)}/s, ratio ${(best(watched) / best(alone)).toFixed(3)}`);
  process.exitCode = errors.length ? 1 : 0;
} finally {
  server?.kill();
  redis.kill("SIGTERM");
  rmSync(scratch, { recursive: true, force: true });
}
