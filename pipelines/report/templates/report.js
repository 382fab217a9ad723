"use strict";
document.documentElement.classList.add("js");
const samples = [...document.querySelectorAll("article.sample")];
const tabs = [...document.querySelectorAll("#toolbar button")];
const reason = document.getElementById("reason");
const style = document.getElementById("style");
const repaired = document.getElementById("repaired");
const matches = document.getElementById("matches");
let folder = "";

function apply() {
  let shown = 0;
  for (const sample of samples) {
    const d = sample.dataset;
    sample.hidden =
      (folder && d.folder !== folder) ||
      (reason.value && d.reason !== reason.value) ||
      (style.value && d.style !== style.value) ||
      (repaired.checked && d.repaired !== "yes");
    shown += !sample.hidden;
  }
  for (const tab of tabs) tab.setAttribute("aria-pressed", String(tab.dataset.folder === folder));
  matches.textContent = shown === samples.length ? "" : shown ? shown + " shown" : "none matches";
  foldLong();
}

// A text is folded only where folding hides something.
function foldLong() {
  for (const text of document.querySelectorAll(".fold:not(.checked)")) {
    if (!text.offsetParent) continue;
    text.classList.add("checked");
    if (text.scrollHeight <= text.clientHeight + 24) {
      text.classList.remove("fold");
      continue;
    }
    const button = document.createElement("button");
    button.type = "button";
    button.className = "unfold";
    button.textContent = "Show all";
    button.addEventListener("click", () => {
      button.textContent = text.classList.toggle("open") ? "Show less" : "Show all";
    });
    text.after(button);
  }
}

for (const tab of tabs) tab.addEventListener("click", () => { folder = tab.dataset.folder; apply(); });
for (const control of [reason, style, repaired]) control.addEventListener("change", apply);
for (const details of document.querySelectorAll("details")) details.addEventListener("toggle", foldLong);
document.getElementById("toolbar").hidden = samples.length === 0;
apply();
