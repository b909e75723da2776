// Shows what a mark says where a reader points at it; with the arrow keys from mark to mark. All of
// it is in the tables, too. Gives each chart alone, as SVG, PNG and CSV.
"use strict";
(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "status");
  document.body.append(tip);
  let pointed = null;
  const label = (mark) => {
    const title = mark.querySelector("title");
    if (title) {
      mark.dataset.label = title.textContent;
      title.remove();
    }
    return mark.dataset.label;
  };
  const hide = () => {
    if (pointed) pointed.classList.remove("pointed");
    pointed = null;
    tip.textContent = "";
  };
  const show = (mark) => {
    hide();
    const text = label(mark);
    if (!text) return;
    pointed = mark;
    mark.classList.add("pointed");
    tip.textContent = text;
    const at = mark.getBoundingClientRect();
    const left = Math.min(at.left + at.width / 2 + 8, document.documentElement.clientWidth - tip.offsetWidth - 4);
    tip.style.left = `${Math.max(4, left) + scrollX}px`;
    tip.style.top = `${Math.max(4, at.top - tip.offsetHeight - 6) + scrollY}px`;
  };
  document.addEventListener("pointerover", (event) => {
    const mark = event.target.closest?.("g.marks > path");
    if (mark) show(mark);
    else hide();
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return hide();
    const chart = event.target.closest?.("svg.chart");
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!chart || !step) return;
    event.preventDefault();
    const shown = (mark) => label(mark) && getComputedStyle(mark).visibility !== "hidden";
    const marks = [...chart.querySelectorAll("g.marks > path")].filter(shown);
    if (marks.length === 0) return;
    const at = marks.indexOf(pointed);
    const next = at < 0 ? (step > 0 ? 0 : marks.length - 1) : (at + step + marks.length) % marks.length;
    show(marks[next]);
  });

  const drawn = (name, attributes, ...inside) => {
    const node = document.createElementNS(document.querySelector("svg").namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...inside);
    return node;
  };
  const [measuring, margin, line] = [document.createElement("canvas").getContext("2d"), 8, 18];
  const units = (text, font) => {
    measuring.font = font;
    return measuring.measureText(text).width;
  };
  const folded = (text, room, font) => {
    const lines = [""];
    for (const word of text.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`.trim();
      if (lines.at(-1) && units(longer, font) > room) lines.push(word);
      else lines[lines.length - 1] = longer;
    }
    return lines;
  };
  // The colours of a light page come first in its style, and are those of a picture.
  const style = () => {
    const rules = [...document.styleSheets[0].cssRules];
    const colour = (_, name) => rules[0].style.getPropertyValue(name).trim();
    const own = rules.filter((rule) => rule.selectorText?.startsWith("svg ")).map((rule) => rule.cssText);
    return own.join("\n").replace(/var\((--\w+)\)/g, colour);
  };
  const alone = (figure) => {
    const chart = figure.querySelector("svg.wide");
    const [width, tall] = [chart.viewBox.baseVal.width, chart.viewBox.baseVal.height];
    const root = drawn("svg", {}, drawn("style", {}, style()), drawn("rect", { class: "back", x: -margin, width: "100%", height: "100%" }));
    let y = margin;
    const written = (text, font, attributes) => {
      for (const row of folded(text, width, font))
        root.append(drawn("text", { x: 0, y: (y += line) - 4, ...attributes }, row));
    };
    const title = [...figure.querySelector("figcaption").childNodes].map((node) => node.textContent.trim());
    written(title.join("; "), "bold 12px sans-serif", { class: "title bold" });
    let x = 0;
    for (const key of figure.querySelectorAll(".keys label")) {
      if (!key.querySelector("input").checked) continue;
      const room = 46 + units(key.textContent, "12px sans-serif");
      if (x > 0 && x + room > width) [x, y] = [0, y + line];
      root.append(drawn("g", { transform: `translate(${x} ${y + 4})` }, key.querySelector("path").cloneNode(),
        drawn("text", { class: "label", x: 30, y: 10 }, key.textContent)));
      x += room;
    }
    if (x > 0) y += line + 4;
    const marks = [...chart.childNodes].map((node) => node.cloneNode(true));
    const inner = drawn("g", { transform: `translate(0 ${y})` }, ...marks);
    const hidden = [...chart.querySelectorAll("path")].map((mark) => getComputedStyle(mark).visibility === "hidden");
    [...inner.querySelectorAll("path")].forEach((mark, at) => hidden[at] && mark.remove());
    root.append(inner);
    y += tall;
    written(figure.closest("[data-caption]")?.dataset.caption ?? "", "12px sans-serif", {});
    const [across, down] = [width + 2 * margin, y + margin];
    const box = { viewBox: `${-margin} 0 ${across} ${down}`, width: across, height: down };
    for (const [key, value] of Object.entries(box)) root.setAttribute(key, value);
    return [new XMLSerializer().serializeToString(root), across, down];
  };
  const image = async (figure) => {
    const [text, width, height] = alone(figure);
    const picture = new Image();
    picture.src = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    await picture.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(picture.src);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  };
  // A spreadsheet runs no cell as a formula: what is no number and begins like one gets a quote.
  const cell = ({ textContent: text }) => {
    const safe = /^[=+\-@]/.test(text) && isNaN(text) ? `'${text}` : text;
    return `"${safe.replaceAll('"', '""')}"`;
  };
  const rows = (figure) => [...figure.querySelectorAll("details tr")].map((row) => [...row.cells].map(cell).join(","));
  const kinds = {
    SVG: (figure) => new Blob([alone(figure)[0]], { type: "image/svg+xml" }),
    PNG: image,
    CSV: (figure) => new Blob([`${rows(figure).join("\n")}\n`], { type: "text/csv" }),
  };
  for (const figure of document.querySelectorAll("figure")) {
    const title = figure.querySelector("figcaption").firstChild.textContent.trim();
    const take = Object.assign(document.createElement("span"), { className: "take" });
    for (const [kind, made] of Object.entries(kinds)) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: kind });
      button.setAttribute("aria-label", `${kind} of ${title}`);
      button.addEventListener("click", async () => {
        const href = URL.createObjectURL(await made(figure));
        const download = `${title.replace(/[^\p{L}\p{N}=.]+/gu, "-").slice(0, 80)}.${kind.toLowerCase()}`;
        Object.assign(document.createElement("a"), { href, download }).click();
        setTimeout(() => URL.revokeObjectURL(href), 10_000);
      });
      take.append(button);
    }
    figure.querySelector("details").before(take);
  }
})();
