// A live process: controlled from the page, its profiles kept and shown to others, and its last
// state after it was killed.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { browse, drawn, open, Scratch, urlOf } from "./harness.js";

let scratch, browser, page, address, token, pid;

before(async () => {
  scratch = new Scratch();
  const victim = scratch.build("live_switch");
  scratch.startWithProbe(victim, "200");
  for (let i = 0; i < 100 && !pid; i += 1) {
    await sleep(100);
    pid = JSON.parse(scratch.heapwise("ps", "--json")).find((row) => row.program === "live_switch")?.pid;
  }
  assert.ok(pid, "the victim runs under the probe");
  ({ address, token } = await scratch.serve());
  browser = await browse();
  page = await open(browser);
});

after(async () => {
  await browser?.close();
  scratch.close();
});

async function source() {
  const { sources } = await (await fetch(`${address}/api/v1/sources`)).json();
  return sources.find((source) => source.pid === pid);
}

test("a live process is listed and opens on its present state", async () => {
  await page.goto(address);
  await page.click(`a.source:has-text("pid ${pid}")`);
  await drawn(page, "overview");
  assert.doesNotMatch(await urlOf(page), /profile=/);
  await page.waitForSelector(".top-list a");
  assert.match(await page.textContent(".columns"), /step|w_malloc/);
});

test("the overview shows where the resident memory is", async () => {
  await page.waitForSelector(".ledger .stacked i");
  const names = await page.locator(".ledger th").allTextContents();
  assert.ok(["heap: live", "libraries", "probe"].every((name) => names.includes(name)), names.join());
  const widths = await page.locator(".ledger .stacked i").evaluateAll((parts) => parts.reduce((sum, part) => sum + parseFloat(part.style.width), 0));
  assert.ok(Math.abs(widths - 100) < 1, `the bar is ${widths} % wide`);
  assert.match(await page.textContent(".ledger h2"), /Resident memory [\d.]+ MiB/);
  // The second reading makes a chart of it.
  await page.waitForSelector(".ledger .stacked-chart svg polygon", { timeout: 30_000 });
  assert.match(await page.textContent(".ledger .legend"), /heap .*libraries/);
});

test("the line on top says what is recorded and what is not seen", async () => {
  await page.waitForSelector(".live-line span:nth-child(3)");
  assert.match(await page.textContent(".live-line"), /recording since \d\d:\d\d:\d\d.*resident [\d.]+ MiB.*not seen [\d.]+ /);
});

test("at the peak is the snapshot at the peak", async () => {
  const { id } = await source();
  const summary = await (await fetch(`${address}/api/v1/sources/${id}/summary`)).json();
  const held = summary.sample_types.find((type) => type.name === "peak_space").total;
  // Both are sums of estimates, each rounded.
  assert.ok(held <= summary.peak_bytes * 1.01 && held >= summary.peak_bytes * (127 / 128) - 8192, `${held} of ${summary.peak_bytes}`);
  await page.goto(`${address}/s/${id}/flame`);
  await page.click(".strip button:has-text('Peak')");
  await page.waitForURL(/type=peak_space/);
  await drawn(page, "flame");
  const query = new URL(await urlOf(page)).searchParams;
  assert.equal(query.get("type"), "peak_space");
  assert.equal(query.get("at"), null);
  await page.goto(`${address}/s/${id}/overview`);
  await drawn(page, "overview");
});

test("the same URL shows another person the same profile", async () => {
  await page.click("nav.tabs a:has-text('Table')");
  await drawn(page, "table");
  await page.keyboard.press("n");
  await page.waitForURL(/profile=\d{8}\.\d{6}\.heap/);
  await drawn(page, "table");
  const other = await open(browser);
  await other.goto(await urlOf(page));
  await drawn(other, "table");
  assert.equal(await other.locator(".vrow").first().textContent(), await page.locator(".vrow").first().textContent());
  await other.close();
});

test("new profiles get names of their own within a second", async () => {
  const count = () => page.locator(".choice:has(> span:text-is('Profile')) option").count();
  const before = await count();
  for (let i = 0; i < 3; i += 1) {
    const url = await urlOf(page);
    await page.keyboard.press("n");
    await page.waitForURL((next) => next.href !== url);
    await drawn(page, "table");
  }
  // The page of the last one may still be on its way.
  for (let i = 0; i < 100 && (await count()) !== before + 3; i += 1) await sleep(100);
  assert.equal(await count(), before + 3);
});

test("two profiles are compared by the strip", async () => {
  await page.click(".strip button:has-text('Diff')");
  await page.waitForURL(/base=/);
  await drawn(page, "table");
  assert.match(await page.textContent(".changed"), / from .* to /);
});

test("the present state is drawn again and again", async () => {
  const { id } = await source();
  await page.goto(`${address}/s/${id}/table`);
  await drawn(page, "table");
  await page.evaluate(() => document.querySelector("section.table").setAttribute("data-old", ""));
  await page.waitForSelector("section.table:not([data-old])", { timeout: 30_000 });
});

test("stop, start and rate reach the process", async () => {
  const rate = "select[aria-label='Sampling rate']";
  const stop = async () => {
    await page.click("button:has-text('Stop')");
    await page.waitForSelector("button:has-text('Start')");
    assert.equal((await source()).mode, "off");
  };
  const start = async () => {
    await page.click("button:has-text('Start')");
    await page.waitForSelector("button:has-text('Stop')");
  };
  await stop();
  await start();
  assert.equal((await source()).mode, "sampled", "as before the stop");
  // The choice takes effect with the start, and the start takes the choice.
  await stop();
  await page.selectOption(rate, "1");
  await sleep(300);
  assert.equal((await source()).mode, "off");
  await start();
  assert.equal((await source()).mode, "exact");
  assert.equal(await page.inputValue(rate), "1");
  await page.selectOption(rate, "65536");
  await page.waitForSelector(".toast:has-text('64.0 KiB')");
  assert.equal((await source()).rate_bytes, 65536);
});

test("a mark appears on the timeline", async () => {
  page.once("dialog", (dialog) => dialog.accept("warmed up"));
  await page.click("button:has-text('Mark')");
  await page.waitForSelector(".toast:has-text('warmed up')");
  await page.waitForSelector(".strip canvas[aria-label*='warmed up']", { timeout: 30_000 });
});

test("allocator statistics", async () => {
  await page.click("nav.tabs a:has-text('Allocator')");
  await drawn(page, "allocator");
  assert.match(await page.textContent("main"), /resident/);
  assert.match(await page.textContent("main"), /Probe/);
});

test("changes without the token are refused", async () => {
  const { id } = await source();
  const control = (headers) => fetch(`${address}/api/v1/sources/${id}/control`, { method: "POST", body: "action=stop", headers });
  assert.equal((await control({})).status, 403);
  assert.equal((await control({ "X-Heapwise-Token": token, Origin: "http://evil.example" })).status, 403);
  assert.equal((await source()).mode, "sampled");
});

test("a killed process answers with its last state", async () => {
  const home = await open(browser);
  await home.goto(address);
  await home.waitForSelector(`section:has-text("Live processes") a.source:has-text("pid ${pid}")`);
  process.kill(pid, "SIGKILL");
  for (let i = 0; i < 50 && (await source()).kind !== "dead"; i += 1) await sleep(100);
  // Pages that are open notice it by themselves.
  await page.waitForSelector(".pill.dead");
  await home.waitForSelector(`section:has-text("Ended processes") a.source:has-text("pid ${pid}"):has-text("killed")`);
  await home.close();
  await page.goto(address);
  await page.click(`a.source:has-text("pid ${pid}")`);
  await drawn(page, "overview");
  assert.match(await urlOf(page), /profile=last-state/);
  assert.match(await page.textContent(".tiles"), /Live/);
  const text = await (await fetch(`${address}/p/${pid}/pprof/heap?display=text`)).text();
  assert.match(text, /^Total: [\d.]+ MB/);
});

test("no view logged an error", () => assert.deepEqual(page.errors, []));
