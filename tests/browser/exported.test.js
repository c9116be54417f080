// The exported flame graph: one file, without a server.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { browse, open, Scratch } from "./harness.js";

let scratch, browser, page;

before(async () => {
  scratch = new Scratch();
  writeFileSync(scratch.file("now.folded"), "main;load;parse 600000\nmain;serve;parse 300000\nmain;serve;reply 100000\n");
  writeFileSync(scratch.file("base.folded"), "main;load;parse 200000\nmain;serve;reply 300000\n");
  scratch.heapwise("flame", "-o", scratch.file("flame.html"), scratch.file("now.folded"));
  scratch.heapwise("flame", "--base", scratch.file("base.folded"), "-o", scratch.file("diff.html"), scratch.file("now.folded"));
  browser = await browse();
  page = await open(browser);
});

after(async () => {
  await browser?.close();
  scratch.close();
});

async function visit(name) {
  await page.goto(`file://${scratch.file(name)}`);
  await page.waitForSelector(".flame-scroll canvas");
  await page.waitForFunction(() => document.querySelector("canvas").width > 600);
}

/// Number of colors in a row of the picture.
function colors(row) {
  return page.evaluate((y) => {
    const canvas = document.querySelector("canvas");
    const pixels = canvas.getContext("2d").getImageData(0, y * devicePixelRatio, canvas.width, 1).data;
    return new Set(Array.from({ length: canvas.width }, (_, x) => pixels.slice(4 * x, 4 * x + 3).join())).size;
  }, 19 * row + 2);
}

test("boxes are drawn, describe themselves and zoom", async () => {
  await visit("flame.html");
  assert.ok(await colors(1) > 1);
  // The second row has `load` on the left and `serve` on the right.
  const canvas = page.locator(".flame-scroll canvas");
  await canvas.hover({ position: { x: 100, y: 29 } });
  assert.match(await page.textContent("#tip"), /^load\n586 KiB \(60\.0 %\)/);
  await canvas.click({ position: { x: 100, y: 29 } });
  assert.equal(await page.textContent("#path"), "all  ▸ main  ▸ load");
  await page.keyboard.press("Backspace");
  assert.equal(await page.textContent("#path"), "all  ▸ main");
  await page.keyboard.press("Escape");
  assert.equal(await page.textContent("#path"), "all");
});

test("search, both directions, arrows and merged calls", async () => {
  await visit("flame.html");
  await page.fill("#search", "^parse$");
  assert.equal(await page.textContent("#matched"), "90.0 %");
  await page.press("#search", "Escape");
  assert.equal(await page.textContent("#matched"), "");
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown"]) await page.keyboard.press(key);
  assert.match(await page.textContent("#details"), /^parse +293 KiB/);
  await page.keyboard.press("s");
  assert.equal(await page.textContent("#path"), "all  ▸ every call of parse");
  await page.keyboard.press("ArrowDown");
  assert.match(await page.textContent("#details"), /^parse +879 KiB/);
  await page.keyboard.press("i");
  assert.equal(await page.getAttribute("#up", "aria-pressed"), "true");
});

test("an SVG opens on its wide boxes, and a zoom shows the narrow ones", async () => {
  const deep = Array.from({ length: 150 }, (_, level) => `deep${level}`).join(";");
  writeFileSync(scratch.file("deep.folded"), `main;wide 99900\nmain;${deep} 100\n`);
  scratch.heapwise("flame", "-o", scratch.file("deep.svg"), scratch.file("deep.folded"));
  await page.goto(`file://${scratch.file("deep.svg")}`);
  const height = () => page.evaluate(() => document.documentElement.viewBox.baseVal.height);
  assert.ok((await height()) < 200, `${await height()}`);
  await page.evaluate(() => document.querySelector('[data-n="deep0"]').dispatchEvent(new MouseEvent("click")));
  assert.ok((await height()) > 150 * 17, `${await height()}`);
  await page.keyboard.press("Escape");
  assert.ok((await height()) < 200, `${await height()}`);
});

test("a comparison shows what was and what changed", async () => {
  await visit("diff.html");
  await page.locator(".flame-scroll canvas").hover({ position: { x: 50, y: 48 } });
  assert.match(await page.textContent("#tip"), /[+−]\d+ KiB \(was \d+/);
  assert.deepEqual(page.errors, []);
});
