// Runs before the page is drawn, so that a chosen theme does not flash the other one first.
"use strict";
(() => {
  const KEY = "fusetune-theme";
  let kept = null;
  try {
    kept = localStorage.getItem(KEY);
  } catch {
    // Storage may be forbidden; the system's theme is used then.
  }
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
