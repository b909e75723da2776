// Shows what a mark says where a reader points at it; with the arrow keys from mark to mark. All of
// it is in the tables, too.
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
})();
