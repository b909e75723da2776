// Drives a page in headless Chromium as a reader would, and reports what it saw as one line of JSON.
//
// node drive.mjs PAGE.html|URL FOLDER-OF-SCREENSHOTS
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";
import { readFile } from "node:fs/promises";

const [page_path, screenshots] = process.argv.slice(2);
const require = createRequire(path.join(process.env.PAGE_MODULES, "package.json"));
const { chromium } = require("playwright-core");
const axe = require.resolve("axe-core/axe.min.js");

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu"],
});
const url = page_path.startsWith("http:") ? page_path : pathToFileURL(page_path).href;
const seen = { faults: [], serious: [] };

async function open(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("console", (line) => line.type() === "error" && seen.faults.push(line.text()));
  page.on("pageerror", (error) => seen.faults.push(String(error)));
  page.on("dialog", (dialog) => { seen.faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => request.url() !== url && !request.url().startsWith("blob:") && seen.faults.push(`request: ${request.url()}`));
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

// The smallest letters in pixels, letters of drawings that leave these or lie on others, and which
// drawings are shown.
const legible = () => {
  const shown = (node) => node.getClientRects().length > 0 && node.checkVisibility() && node.textContent.trim();
  const texts = [...document.querySelectorAll("main *")].filter((node) => shown(node) && [...node.childNodes].some((own) => own.nodeType === 3 && own.textContent.trim()));
  const size = (node) => parseFloat(getComputedStyle(node).fontSize) * (node.closest("svg.chart")?.getScreenCTM().a ?? 1);
  const charts = [...document.querySelectorAll("svg.chart")].filter((chart) => chart.getClientRects().length);
  const faults = [];
  for (const chart of charts) {
    const box = chart.getBoundingClientRect();
    const all = [...chart.querySelectorAll("text")].filter((text) => text.textContent).map((text) => [text.textContent, text.getBoundingClientRect()]);
    all.forEach(([text, own], at) => {
      if (own.left < box.left - 1 || own.right > box.right + 1 || own.top < box.top - 1 || own.bottom > box.bottom + 1)
        faults.push(`${text} leaves ${chart.ariaLabel}`);
      for (const [other, rect] of all.slice(at + 1))
        if (Math.min(own.right, rect.right) - Math.max(own.left, rect.left) > 1 && Math.min(own.bottom, rect.bottom) - Math.max(own.top, rect.top) > 3)
          faults.push(`${text} lies on ${other} in ${chart.ariaLabel}`);
    });
  }
  // A word of a usual length that stands on two lines.
  for (const node of texts.filter((node) => !node.closest("svg, pre, code")).flatMap((node) => [...node.childNodes]).filter((node) => node.nodeType === 3)) {
    for (const { 0: word, index } of node.data.matchAll(/[\p{L}\p{N}]{2,20}/gu)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      if (new Set([...range.getClientRects()].map((rect) => rect.top)).size > 1) faults.push(`${word} is broken`);
    }
  }
  const answer = document.querySelector("dl.answer")?.getBoundingClientRect();
  // Of the width that the first chart takes.
  const share = charts.length ? charts[0].getBoundingClientRect().width / document.querySelector("main").clientWidth : 1;
  const rooms = [...new Set(charts.map((chart) => chart.classList[1]))];
  return { least: Math.min(...texts.map(size)), faults, answer: answer?.bottom, rooms, share };
};

async function legibility(name, viewport, media) {
  const [page] = await open({ viewport });
  await page.emulateMedia({ media });
  seen[name] = await page.evaluate(legible);
  await page.screenshot({ path: path.join(screenshots, `${name}.png`), fullPage: true });
  await page.context().close();
}

await legibility("at_1200", { width: 1200, height: 800 }, "screen");
await legibility("at_400", { width: 400, height: 800 }, "screen");
// A4 without its margins.
await legibility("in_print", { width: 718, height: 1000 }, "print");

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
seen.taken = {};
for (const kind of (await page.locator("figure").count()) ? ["SVG", "PNG", "CSV"] : []) {
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.locator("figure").first().getByRole("button", { name: kind }).click(),
  ]);
  const bytes = await readFile(await download.path());
  seen.taken[kind] = [download.suggestedFilename(), bytes.toString(kind === "PNG" ? "latin1" : "utf8")];
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
seen.charts = await still.locator("figure").count();
seen.text = await still.locator("main").innerText();
await browser.close();
console.log(JSON.stringify(seen));
