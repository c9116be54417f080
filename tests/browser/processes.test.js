// Processes on the list: children behind their parent, the peak of the strip; and a Python
// program's native frames.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { browse, drawn, open, Scratch, urlOf } from "./harness.js";

const PYTHON = process.env["HEAPWISE_TEST_PYTHON"] ?? "/usr/bin/python3";
let scratch, browser, page, address, rows;

before(async () => {
  scratch = new Scratch();
  // The shell waits for a child that reads a pipe which nobody writes to.
  scratch.startWithProbe("/bin/sh", "-c", "cat; :");
  for (let i = 0; i < 300 && !(rows?.length >= 2); i += 1) {
    await sleep(100);
    rows = JSON.parse(scratch.heapwise("ps", "--json"));
  }
  assert.ok(rows.length >= 2, "the shell and its child carry the probe");
  scratch.heapwise("run", "--exact", "-o", scratch.file("script.hwp"), "--", PYTHON, "-c", "kept = [str(n) * 20 for n in range(20000)]");
  ({ address } = await scratch.serve());
  browser = await browse();
  page = await open(browser);
});

after(async () => {
  await browser?.close();
  scratch.close();
});

test("children are behind their parent", async () => {
  await page.goto(address);
  const family = page.locator(".family");
  await family.waitFor();
  assert.equal(await family.locator("> a.source").count(), 1);
  assert.match(await family.locator("> a.source").textContent(), /^sh/);
  const child = family.locator("details a.source");
  assert.equal(await child.isVisible(), false);
  assert.equal(await page.locator(".source-list > a.source").count(), 0, "no child stands beside its parent");
  await family.locator("summary").click();
  assert.match(await family.locator("summary").textContent(), /1 child process/);
  assert.match(await child.textContent(), /cat/);
  await child.click();
  await drawn(page, "overview");
});

test("the strip and the tile have the same peak", async () => {
  const { sources } = await (await fetch(`${address}/api/v1/sources`)).json();
  const id = sources.find((source) => source.title === "sh").id;
  const timeline = async () => (await (await fetch(`${address}/api/v1/sources/${id}/timeline`)).json());
  for (let i = 0; i < 300 && !(await timeline()).peak; i += 1) await sleep(100);
  const { peak } = await timeline();
  const summary = await (await fetch(`${address}/api/v1/sources/${id}/summary`)).json();
  assert.equal(peak[1], summary.peak_bytes, "the shell waits, so nothing changes");
});

test("native frames of a Python program are shown on request", async () => {
  const { address: files } = await scratch.serve(scratch.file("script.hwp"));
  // Only stacks with lines of the script: those of the interpreter's start have none.
  await page.goto(`${files}/s/script.hwp/table?focus=listcomp|genexpr|module`);
  await drawn(page, "table");
  const native = page.locator("label.switch:has-text('native frames') input");
  await native.waitFor();
  assert.equal(await native.isChecked(), false);
  const rows = () => page.locator(".grid").getAttribute("aria-rowcount");
  const folded = Number(await rows());
  await native.check();
  await page.waitForURL(/native=1/);
  await page.waitForFunction((least) => Number(document.querySelector(".grid")?.getAttribute("aria-rowcount")) > least, 2 * folded);
  await page.goto(await urlOf(page));
  await drawn(page, "table");
  assert.equal(await page.locator("label.switch:has-text('native frames') input").isChecked(), true);
  assert.deepEqual(page.errors, []);
});

test("a process that was never recorded shows no number of its heap", async () => {
  const other = new Scratch();
  try {
    other.startConfigured("mode:off", "/bin/cat");
    const { address: own } = await other.serve();
    const list = async () => (await (await fetch(`${own}/api/v1/sources`)).json()).sources;
    for (let i = 0; i < 300 && !(await list()).length; i += 1) await sleep(100);
    const [{ id }] = await list();
    for (const view of ["flame", "table", "leaks", "overview"]) {
      await page.goto(`${own}/s/${id}/${view}`);
      await drawn(page, view);
      assert.match(await page.textContent("main"), /Not recording/, view);
    }
    await page.waitForSelector(".ledger .stacked i");
    await page.waitForSelector(".strip:has-text('nothing is recorded yet')", { timeout: 30_000 });
    assert.equal(await page.locator(".strip button:has-text('Peak')").count(), 0);
    const timeline = await (await fetch(`${own}/api/v1/sources/${id}/timeline`)).json();
    assert.ok(timeline.rss.every((bytes) => bytes > 0) && timeline.rss.length > 1, "resident memory at every point");
    assert.deepEqual(page.errors, []);
  } finally {
    other.close();
  }
});
