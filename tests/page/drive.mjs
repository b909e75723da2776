// Drives a page in headless Chromium as a reader would, and reports what it saw as one line of JSON.
//
// node drive.mjs PAGE.html FOLDER-OF-SCREENSHOTS
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

const [page_path, screenshots] = process.argv.slice(2);
const require = createRequire(path.join(process.env.PAGE_MODULES, "package.json"));
const { chromium } = require("playwright-core");
const axe = require.resolve("axe-core/axe.min.js");

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu"],
});
const url = pathToFileURL(page_path).href;
const seen = { faults: [], serious: [] };

async function open(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("console", (line) => line.type() === "error" && seen.faults.push(line.text()));
  page.on("pageerror", (error) => seen.faults.push(String(error)));
  page.on("dialog", (dialog) => { seen.faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => request.url() !== url && seen.faults.push(`request: ${request.url()}`));
  const began = performance.now();
  await page.goto(url);
  return [page, performance.now() - began];
}

// The content security policy holds for what is added to the page, too: axe runs where it is bypassed.
async function accessibility(scheme, viewport) {
  const [page] = await open({ colorScheme: scheme, viewport, bypassCSP: true });
  await page.addScriptTag({ path: axe });
  const found = await page.evaluate(() => globalThis.axe.run(document));
  for (const rule of found.violations.filter(({ impact }) => ["serious", "critical"].includes(impact)))
    seen.serious.push(`${scheme}: ${rule.id}: ${rule.nodes.length}: ${rule.nodes[0].html.slice(0, 120)}`);
  await page.screenshot({ path: path.join(screenshots, `${scheme}-${viewport.width}.png`), fullPage: true });
  seen[`overflow_${viewport.width}`] = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await page.context().close();
}

await accessibility("light", { width: 1200, height: 900 });
await accessibility("dark", { width: 1200, height: 900 });
await accessibility("light", { width: 400, height: 800 });

const [page, loaded_ms] = await open({ viewport: { width: 1200, height: 900 } });
seen.loaded_ms = Math.round(loaded_ms);
const mark = page.locator("g.marks > path:has(title)").first();
if (await mark.count()) {
  const text = await mark.locator("title").textContent();
  await mark.scrollIntoViewIfNeeded();
  await mark.dispatchEvent("pointerover");
  seen.hover = [text, await page.locator("#tip").textContent()];
  const chart = page.locator("svg.chart").first();
  await chart.focus();
  await page.keyboard.press("ArrowRight");
  const first = await page.locator("#tip").textContent();
  await page.keyboard.press("ArrowRight");
  seen.arrows = [first, await page.locator("#tip").textContent()];
  await page.keyboard.press("Escape");
  seen.escaped = await page.locator("#tip").textContent();
}
const box = page.locator("figure:has(.keys) input").last();
if (await box.count()) {
  const name = await box.getAttribute("class");
  const marks = page.locator(`figure:has(.keys)`).last().locator(`g.marks > path.${name}`).first();
  const visibility = () => marks.evaluate((own) => getComputedStyle(own).visibility);
  const before = await visibility();
  await box.uncheck();
  seen.toggle = [before, await visibility()];
}
await page.context().close();

const [still] = await open({ javaScriptEnabled: false, viewport: { width: 1200, height: 900 } });
seen.tables = await still.locator("table").count();
seen.charts = await still.locator("svg.chart").count();
seen.text = await still.locator("main").innerText();
await browser.close();
console.log(JSON.stringify(seen));
