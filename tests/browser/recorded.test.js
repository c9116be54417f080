// A recording: its timeline selects a moment or a range, and every view follows.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { browse, drawn, open, Scratch, urlOf } from "./harness.js";

let scratch, browser, page, address, witness;

before(async () => {
  scratch = new Scratch();
  const victim = scratch.build("timeline");
  // Long enough for a second reading of the ledger on a busy machine.
  const said = scratch.heapwise("run", "--log", "-o", scratch.file("app.hwr"), "--", victim, scratch.file("account"), "5000");
  witness = Number(/witness peak_bytes (\d+)/.exec(said)[1]);
  scratch.heapwise("run", "--exact", "-o", scratch.file("after.hwp"), "--", victim, scratch.file("account"), "300");
  ({ address } = await scratch.serve(scratch.file("app.hwr"), scratch.file("after.hwp")));
  browser = await browse();
  page = await open(browser);
});

after(async () => {
  await browser?.close();
  scratch.close();
});

/// Live bytes of the victim's own blocks in the selected part.
async function live() {
  const query = new URL(await urlOf(page)).searchParams;
  const answer = await fetch(`${address}/api/v1/sources/app.hwr/top?profile=app.hwr&focus=^w_&at=${query.get("at") ?? ""}`);
  return (await answer.json()).total;
}

test("the strip shows the curve above the overview", async () => {
  await page.goto(address);
  await page.click("a.source");
  await drawn(page, "overview");
  await page.waitForSelector(".strip .chart canvas");
});

test("the overview shows the resident memory", async () => {
  await page.waitForSelector(".ledger h2");
  assert.match(await page.textContent(".ledger h2"), /Resident memory [\d.]+ MiB when last read/);
});

/// The view and the state of the strip, after it was drawn.
async function shown(view) {
  await drawn(page, view);
  await page.waitForSelector(".strip:not([hidden])");
  return page.textContent(".strip .found");
}

test("Peak shows what was live at the peak", async () => {
  await page.goto(`${address}/s/app.hwr/flame`);
  assert.equal(await shown("flame"), "What was live at the end.");
  await page.click(".strip button:has-text('Peak')");
  await page.waitForURL(/at=peak/);
  assert.match(await shown("flame"), /live at the peak, [\d.]+ \w+\./);
  // The victim counts between steps, of which each ends with one block of 64 bytes.
  assert.ok(Math.abs((await live()) - witness) <= 64, `${await live()} and ${witness}`);
  await page.click(".strip button:has-text('End')");
  await page.waitForURL((url) => !url.searchParams.has("at"));
  await shown("flame");
});

async function drag(from, to) {
  const box = await page.locator(".strip .chart").boundingBox();
  await page.mouse.move(box.x + box.width * from, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * to, box.y + 60, { steps: 6 });
  await page.mouse.up();
}

test("a drag selects a range in place, and every view follows", async () => {
  await page.goto(`${address}/s/app.hwr/flame?profile=app.hwr`);
  await shown("flame");
  await page.evaluate(() => document.querySelector(".strip canvas").setAttribute("data-kept", ""));
  await drag(0.3, 0.7);
  await page.waitForURL(/at=\d+ms\.\.\d+ms/);
  assert.match(await shown("flame"), /^Allocated between [\d.]+ m?s and/);
  assert.equal(await page.locator(".strip canvas[data-kept]").count(), 1, "the strip itself stays");
  // Back undoes the whole drag.
  await page.goBack();
  await page.waitForURL((url) => !url.searchParams.has("at"));
  await page.goForward();
  await page.waitForURL(/at=\d+ms\.\.\d+ms/);
  for (const view of ["table", "leaks", "tree", "breakdown"]) {
    await page.click(`nav.tabs a[href*="/${view}?"]`);
    await shown(view);
    assert.match(await urlOf(page), /at=\d+ms\.\.\d+ms/);
  }
});

test("two cursors compare two moments, by mouse and by keyboard", async () => {
  await page.goto(`${address}/s/app.hwr/table?profile=app.hwr`);
  await shown("table");
  await page.keyboard.press("d");
  await page.waitForURL(/base=app\.hwr&since=\d+ms&at=\d+ms/);
  assert.match(await shown("table"), /^What changed from/);
  const moment = async () => new URL(await urlOf(page)).searchParams.get("since");
  const before = await moment();
  await page.keyboard.press(",");
  await page.waitForURL((url) => url.searchParams.get("since") !== before);
  await shown("table");
  const stepped = await moment();
  await drag(0.2, 0.4);
  await page.waitForURL((url) => url.searchParams.get("since") !== stepped);
  assert.match(await shown("table"), /^What changed from/);
  const range = await urlOf(page);
  await page.goto(`${address}/s/app.hwr/table?profile=app.hwr&base=app.hwr&since=1ms&at=peak`);
  await shown("table");
  assert.match(await page.textContent(".changed"), /^\+[\d.]+ [KM]iB from /);
  await page.goto(range);
  await shown("table");
  // Difference of the two ends, from two answers without a base.
  const at = async (ms) => (await (await fetch(`${address}/api/v1/sources/app.hwr/top?profile=app.hwr&at=${ms}`)).json()).total;
  const query = new URL(await urlOf(page)).searchParams;
  const compared = await (await fetch(`${address}/api/v1/sources/app.hwr/top?profile=app.hwr&at=${query.get("at")}&base=app.hwr&base_at=${query.get("since")}`)).json();
  assert.equal(compared.total, (await at(query.get("at"))) - (await at(query.get("since"))));
});

test("a selected function is highlighted in all panels, and has its source", async () => {
  await page.goto(`${address}/s/app.hwr/flame?profile=app.hwr&at=peak`);
  await shown("flame");
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.click(".side button:has-text('w_malloc')");
  await page.waitForSelector(".side tr[data-selected]:has-text('w_malloc')");
  assert.match(await page.textContent(".flame .view-tools .found"), /found/);
  await page.waitForSelector(".side-source .code-lines code:has-text('malloc')");
  assert.match(await urlOf(page), /function=w_malloc/);
  await page.keyboard.press("7");
  await shown("source");
  const held = page.locator(".code-lines tr", { hasText: "malloc(" }).first();
  assert.match(await held.textContent(), /[KM]iB/);
  await page.setViewportSize({ width: 1280, height: 820 });
});

test("a download has what is selected", async () => {
  await page.goto(`${address}/s/app.hwr/flame?profile=app.hwr&at=peak&focus=^w_`);
  await shown("flame");
  await page.keyboard.press("w");
  const [folded] = await Promise.all([page.waitForEvent("download"), page.click(".menu a:has-text('folded')")]);
  assert.equal(folded.suggestedFilename(), "timeline.folded");
  const lines = readFileSync(await folded.path(), "utf8").trim().split("\n");
  const sum = lines.reduce((total, line) => total + Number(line.split(" ").at(-1)), 0);
  assert.ok(Math.abs(sum - witness) <= 64, `${sum} and ${witness}`);
  for (const [format, magic] of [["pprof", "\x1f\x8b"], ["speedscope", "{"]]) {
    const bytes = Buffer.from(await (await fetch(`${address}/api/v1/sources/app.hwr/export?profile=app.hwr&at=peak&format=${format}`)).arrayBuffer());
    assert.ok(bytes.toString("latin1").startsWith(magic), format);
  }
});

test("a finding leads to its moment, its numbers and its function", async () => {
  await page.goto(`${address}/s/app.hwr/overview?profile=app.hwr&type=alloc_objects`);
  await drawn(page, "overview");
  await page.click(".findings a:has-text('live at the peak')");
  await drawn(page, "flame");
  const query = new URL(await urlOf(page)).searchParams;
  assert.equal(query.get("at"), "peak");
  assert.equal(query.get("type"), null, "live bytes");
  assert.match(query.get("focus"), /^\^/);
  assert.ok((await page.locator(".flame-scroll canvas").count()) > 0);
});

test("two files can be compared, one of them at its peak", async () => {
  await page.goto(`${address}/s/after.hwp/table`);
  await drawn(page, "table");
  await page.waitForSelector(".choice:has(> span:text-is('Against'))");
  await page.selectOption(".choice:has(> span:text-is('Against')) select", { label: "app.hwr" });
  await page.waitForSelector(".changed");
  const query = new URL(await urlOf(page)).searchParams;
  assert.deepEqual([query.get("from"), query.get("base")], ["app.hwr", "app.hwr"]);
  assert.match(await page.textContent(".changed"), / from .* to /);
  await page.selectOption(".choice:has(> span:text-is('At')) select", "peak");
  await page.waitForURL(/since=peak/);
  await page.click("nav.tabs a:has-text('Flame')");
  await drawn(page, "flame");
  assert.match(await page.textContent(".flame .legend"), /shrank.*same.*grew/);
});

test("the total of a further column is known of both sides", async () => {
  const ask = async (view, query) => (await fetch(`${address}/api/v1/sources/after.hwp/${view}?profile=after.hwp&${query}`)).json();
  const peak = async (query) => (await ask("summary", query)).sample_types.find((type) => type.name === "peak_space");
  const base = "base=after.hwp&base_source=after.hwp";
  const { total } = await peak("");
  assert.ok(total > 0);
  const compared = await peak(base);
  assert.deepEqual([compared.total, compared.base], [0, total]);
  assert.equal((await ask("top", `sample_type=peak_space&${base}`)).base_total, total);
});

test("every key is in the list of keys", async () => {
  await page.goto(`${address}/s/app.hwr/flame?profile=app.hwr`);
  await shown("flame");
  await page.keyboard.press("?");
  const keys = await page.locator("dialog kbd").allTextContents();
  for (const key of ["/", "i", "s", "m", "p", "e", "r", "d", ",", ".", "<", ">", "w", "h", "t", "?", "1", "8"]) assert.ok(keys.includes(key), `${key} of ${keys}`);
  assert.ok(!keys.includes("9"), "a recording has no allocator to ask");
  assert.equal(new Set(keys).size, keys.length, "no key has two meanings");
});

test("no view logged an error", () => assert.deepEqual(page.errors, []));
