// Every view, light and dark, on a wide screen and on a phone, by axe-core: names, roles, contrast,
// landmarks, the order of headings.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { browse, drawn, open, Scratch } from "./harness.js";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const VIEWS = ["overview", "flame", "table", "tree", "graph", "leaks", "source", "breakdown", "allocator"];
let scratch, browser, address;

before(async () => {
  scratch = new Scratch();
  const victim = scratch.build("timeline");
  scratch.heapwise("run", "--log", "-o", scratch.file("app.hwr"), "--", victim, scratch.file("account"), "800");
  ({ address } = await scratch.serve(scratch.file("app.hwr")));
  browser = await browse();
});

after(async () => {
  await browser?.close();
  scratch.close();
});

/// What axe finds on the page, one line each.
async function findings(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations.flatMap(({ id, impact, nodes }) => nodes.map(({ target }) => `${impact} ${id}: ${target}`));
}

const SCREENS = [{ width: 1440, height: 900 }, { width: 390, height: 844 }];
const LOOKS = ["light", "dark"].flatMap((colorScheme) => SCREENS.map((viewport) => ({ colorScheme, viewport })));

for (const look of LOOKS) {
  const name = `${look.colorScheme}, ${look.viewport.width} x ${look.viewport.height}`;
  test(`views, ${name}`, async () => {
    const page = await open(browser, look);
    for (const view of VIEWS) {
      await page.goto(`${address}/s/app.hwr/${view}?profile=app.hwr${view === "table" ? "&base=app.hwr&since=100ms&at=600ms" : "&at=peak"}`);
      await drawn(page, view);
      await page.waitForSelector(".coverage:not([hidden])");
      await page.waitForSelector(".strip:not([hidden])");
      assert.deepEqual(await findings(page), [], view);
    }
    await page.close();
  });

  test(`list of sources and the dialog of keys, ${name}`, async () => {
    const page = await open(browser, look);
    await page.goto(address);
    await page.waitForSelector("a.source");
    assert.deepEqual(await findings(page), []);
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open]");
    assert.deepEqual(await findings(page), []);
    await page.close();
  });
}
