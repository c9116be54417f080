// Starts what the tests look at: victim programs under the probe, the server, and a browser.

import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");

/// The executable under test: HEAPWISE, else the newest of the usual places.
export const HEAPWISE = process.env["HEAPWISE"] ??
  ["target/debug/heapwise", "target/release/heapwise"].map((name) => path.join(ROOT, name)).find(existsSync);
const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";

/// A directory that goes away with the tests, segments and stored profiles inside.
export class Scratch {
  constructor() {
    this.path = mkdtempSync(path.join(tmpdir(), "heapwise-browser-"));
    mkdirSync(path.join(this.path, "segments"), { mode: 0o700 });
    this.children = [];
    this.env = { ...process.env, LC_ALL: "C", HEAPWISE_DIR: path.join(this.path, "segments"), XDG_STATE_HOME: this.path, XDG_CACHE_HOME: this.path };
  }

  file(name) {
    return path.join(this.path, name);
  }

  /// Builds a victim program; returns its path.
  build(name) {
    const out = this.file(name);
    const source = path.join(ROOT, "tests/programs", `${name}.c`);
    execFileSync("cc", ["-g", "-O1", "-fno-omit-frame-pointer", "-pthread", "-o", out, source]);
    return out;
  }

  /// Runs heapwise to its end.
  heapwise(...args) {
    return execFileSync(HEAPWISE, args, { env: this.env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  }

  /// Starts a program that carries the probe and has no controller, so that its segment outlives
  /// it.
  startWithProbe(program, ...args) {
    this.startConfigured("mode:sampled,rate:4096", program, ...args);
  }

  /// As `startWithProbe`, with a configuration of the probe.
  startConfigured(configuration, program, ...args) {
    const library = this.heapwise("preload").trim();
    const env = { ...this.env, LD_PRELOAD: library, HEAPWISE_CONF: configuration };
    this.children.push(spawn(program, args, { env, stdio: ["pipe", "ignore", "inherit"] }));
  }

  /// Starts the server; resolves to its address and token.
  serve(...args) {
    const child = spawn(HEAPWISE, ["serve", "--port", "0", ...args], { env: this.env, stdio: ["ignore", "ignore", "pipe"] });
    this.children.push(child);
    return new Promise((resolve, reject) => {
      let text = "";
      child.stderr.setEncoding("utf8");
      child.stderr.on("data", (piece) => {
        text += piece;
        const found = /serving at (http:\/\/[^/]+)\/[^]*token for changes[^:]*: (\w+)/.exec(text);
        if (found) resolve({ address: found[1], token: found[2] });
      });
      child.on("exit", () => reject(new Error(`serve ended: ${text}`)));
    });
  }

  close() {
    for (const child of this.children) child.kill("SIGTERM");
    rmSync(this.path, { recursive: true, force: true });
  }
}

/// A browser whose pages fail the test on any error in the page.
export async function browse() {
  return chromium.launch({
    executablePath: CHROMIUM,
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync"],
  });
}

export async function open(browser, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 820 }, locale: "en-US", ...options });
  page.errors = [];
  page.on("pageerror", (error) => page.errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && page.errors.push(message.text()));
  return page;
}

/// Waits until the view named in the URL is drawn; what the page says instead is the error.
export async function drawn(page, view) {
  const hit = await page.waitForSelector(`main[data-view="${view}"][data-ready], .trouble`, { timeout: 15_000 });
  const text = await hit.evaluate((element) => (element.matches(".trouble") ? element.textContent : ""));
  if (text) throw new Error(`${page.url()} says: ${text}`);
}

/// The URL of the page at this moment: `page.url()` learns of the page's own changes a little
/// later.
export function urlOf(page) {
  return page.evaluate(() => location.href);
}
