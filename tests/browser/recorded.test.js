// A recording: its timeline selects a moment or a range, and every view follows.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browse, drawn, open, Scratch } from "./harness.js";

let scratch, browser, page, address, witness;

before(async () => {
  scratch = new Scratch();
  const victim = scratch.build("timeline");
  const said = scratch.heapwise("run", "--log", "-o", scratch.file("app.hwr"), "--", victim, scratch.file("account"), "1500");
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
  const query = new URL(page.url()).searchParams;
  const answer = await fetch(`${address}/api/v1/sources/app.hwr/top?profile=app.hwr&focus=^w_&at=${query.get("at") ?? ""}`);
  return (await answer.json()).total;
}

test("the overview shows the curve and its peak", async () => {
  await page.goto(address);
  await page.click("a.source");
  await drawn(page, "overview");
  await page.waitForSelector(".chart-card .chart canvas");
});

test("the overview shows the resident memory over time", async () => {
  await page.waitForSelector(".ledger .stacked-chart svg polygon");
  assert.match(await page.textContent(".ledger h2"), /Resident memory [\d.]+ MiB when last read/);
  assert.match(await page.textContent(".ledger .legend"), /heap .*libraries/);
});

test("the peak of the timeline is what the views show at the peak", async () => {
  await page.goto(`${address}/s/app.hwr/timeline`);
  await drawn(page, "timeline");
  await page.click("text=At the peak");
  await drawn(page, "flame");
  assert.match(page.url(), /at=peak/);
  // The victim counts between steps, of which each ends with one block of 64 bytes.
  assert.ok(Math.abs((await live()) - witness) <= 64, `${await live()} and ${witness}`);
});

test("a drag selects a range, a click a moment", async () => {
  await page.goto(`${address}/s/app.hwr/timeline?profile=app.hwr`);
  await drawn(page, "timeline");
  const box = await page.locator(".chart").boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.7, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await drawn(page, "timeline");
  assert.match(page.url(), /at=\d+ms\.\.\d+ms/);
  assert.match(await page.textContent(".chip"), /At: \d+ms\.\.\d+ms/);
  for (const view of ["flame", "table", "leaks"]) {
    await page.click(`nav.tabs a[href*="/${view}?"]`);
    await page.waitForSelector(`main[data-view="${view}"] >> text=/boxes|rows|places|Nothing/`);
    assert.match(page.url(), /at=\d+ms\.\.\d+ms/);
  }
  await page.click('nav.tabs a[href*="/diff?"]');
  await drawn(page, "diff");
  assert.match(await page.textContent(".diff .lead"), / from .* to /);
  await page.click(".chip button");
  assert.doesNotMatch(page.url(), /at=/);
});

test("a finding leads to its moment, its numbers and its function", async () => {
  await page.goto(`${address}/s/app.hwr/overview?profile=app.hwr&type=alloc_objects`);
  await drawn(page, "overview");
  await page.click(".findings a:has-text('live at the peak')");
  await drawn(page, "flame");
  const query = new URL(page.url()).searchParams;
  assert.equal(query.get("at"), "peak");
  assert.equal(query.get("type"), null, "live bytes");
  assert.match(query.get("focus"), /^\^/);
  assert.ok((await page.locator(".flame-scroll canvas").count()) > 0);
});

test("two files can be compared", async () => {
  await page.goto(`${address}/s/after.hwp/diff`);
  await drawn(page, "diff");
  await page.selectOption("label.choice:has-text('Diff') select", { label: "app.hwr" });
  await page.waitForSelector(".diff .lead");
  const query = new URL(page.url()).searchParams;
  assert.deepEqual([query.get("from"), query.get("base")], ["app.hwr", "app.hwr"]);
  assert.match(await page.textContent(".diff .lead"), / from .* to /);
});

test("no view logged an error", () => assert.deepEqual(page.errors, []));
