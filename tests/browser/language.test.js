// The page in Chinese, and that no sentence of it is missing in either language.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { browse, drawn, open, Scratch } from "./harness.js";

const WEB = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../web/src");
let scratch, browser, address;

before(async () => {
  scratch = new Scratch();
  const leaky = scratch.build("leaky");
  scratch.heapwise("run", "--exact", "-o", scratch.file("app.hwp"), "--", leaky, "500");
  ({ address } = await scratch.serve(scratch.file("app.hwp")));
  browser = await browse();
});

after(async () => {
  await browser?.close();
  scratch.close();
});

/// Every entry of the tables: key, English, Chinese.
function entries() {
  return ["frame.ts", "views.ts", "statistics.ts"].flatMap((name) => {
    const text = readFileSync(path.join(WEB, "strings", name), "utf8");
    return [...text.matchAll(/^  "([^"]+)": \["(.*)", "(.*)"\],$/gm)].map((found) => [found[1], found[2], found[3]]);
  });
}

function sources(directory) {
  return readdirSync(directory, { recursive: true }).filter((name) => name.endsWith(".ts") && !name.startsWith("strings/"))
    .map((name) => [name, readFileSync(path.join(directory, name), "utf8")]);
}

test("every sentence has both languages and the same values", () => {
  const all = entries();
  assert.ok(all.length > 200, `${all.length} entries`);
  const values = (text) => [...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1]).sort().join();
  for (const [key, english, chinese] of all) {
    assert.ok(english && chinese, key);
    assert.equal(values(chinese), values(english), key);
    assert.ok(/[\u4e00-\u9fff]/.test(chinese) || english === chinese, `${key}: ${chinese}`);
  }
});

test("every key is used, and no view has a sentence of its own", () => {
  const code = sources(WEB);
  const text = code.map(([, content]) => content).join("\n");
  // Keys that are made from a name have only their group in the code.
  const isUsed = (key) => text.includes(`"${key}"`) || text.includes(`\`${key.split(".")[0]}.`) || text.includes(`word("${key.split(".")[0]}"`);
  assert.deepEqual(entries().map(([key]) => key).filter((key) => !isUsed(key)), []);
  for (const [name, content] of code) {
    const plain = content.replace(/^\s*\/\/.*$/gm, "");
    const sentences = [...plain.matchAll(/"([A-Z][a-z]+ [a-z]+[^"]*)"/g)].map((found) => found[1]);
    assert.deepEqual(sentences, [], name);
  }
});

test("a Chinese browser gets a Chinese page", async () => {
  const page = await open(browser, { locale: "zh-CN" });
  await page.goto(`${address}/s/app.hwp/overview`);
  await drawn(page, "overview");
  assert.equal(await page.getAttribute("html", "lang"), "zh-CN");
  assert.match(await page.textContent("nav.tabs"), /\u706b\u7130\u56fe/);
  await page.waitForSelector(".findings li");
  assert.match(await page.textContent(".findings"), /\u5757/);
  await page.goto(`${address}/s/app.hwp/table`);
  await drawn(page, "table");
  assert.match(await page.textContent(".table-head"), /\u81ea\u8eab/);
  assert.deepEqual(page.errors, []);
  await page.close();
});
