// What the pages do beyond HTML and htmx: the theme, copying, charts, times that stay true while a page is open.
"use strict";
(() => {
  const root = document.documentElement;

  // Theme: auto follows the system; a choice is kept in this browser.
  const KEY = "fusetune-theme";
  const NEXT = { auto: "light", light: "dark", dark: "auto" };
  const button = document.getElementById("theme");
  const theme = () => root.dataset.theme ?? "auto";
  const labelTheme = () => (button.textContent = `Theme: ${theme()}`);
  button.hidden = false;
  labelTheme();
  button.addEventListener("click", () => {
    const chosen = NEXT[theme()];
    if (chosen === "auto") delete root.dataset.theme;
    else root.dataset.theme = chosen;
    try {
      if (chosen === "auto") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, chosen);
    } catch {
      // Storage may be forbidden; the choice then lasts for this page.
    }
    labelTheme();
    drawKept();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawKept());

  // For readers who hear the page; a text that was said is not said again.
  const said = () => document.getElementById("status")?.dataset.said;
  let lastSaid = said();
  const announce = (text) => (document.getElementById("announce").textContent = text);

  // Copy buttons. Where the clipboard may not be written (no https), the text is selected for the reader to copy.
  for (const copier of document.querySelectorAll("[data-copy]")) {
    copier.hidden = false;
    copier.addEventListener("click", async () => {
      const box = document.getElementById(copier.dataset.copy);
      let said = "Copied";
      try {
        await navigator.clipboard.writeText(box.textContent);
      } catch {
        getSelection().selectAllChildren(box);
        box.focus();
        said = "Selected: press Ctrl+C";
      }
      copier.textContent = said;
      announce(said);
      setTimeout(() => (copier.textContent = "Copy"), 2000);
    });
  }

  // Forms that ask first.
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });

  // Relative times.
  const UNITS = [[60, "s"], [60, "min"], [24, "h"], [365, "d"]];
  const ago = (moment) => {
    let amount = (Date.now() - moment) / 1000;
    if (amount < 5) return "just now";
    for (const [limit, unit] of UNITS) {
      if (amount < limit) return `${Math.floor(amount)} ${unit} ago`;
      amount /= limit;
    }
    return new Date(moment).toISOString().slice(0, 10);
  };
  const ageTimes = () => {
    for (const time of document.querySelectorAll("time[datetime]")) time.textContent = ago(Date.parse(time.dateTime));
  };
  setInterval(ageTimes, 15000);

  // Charts. A figure names its colours by CSS properties ("--chart-best"); they are looked up in the theme at hand.
  const chart = document.getElementById("chart");
  let figure = null;
  let version = null;
  let asking = false;
  const RETRY_MS = 2000;

  const colourOf = (name) => {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    chart.append(probe);
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return colour;
  };
  const inColours = (value, known = new Map()) => {
    if (typeof value === "string" && value.startsWith("--")) {
      if (!known.has(value)) known.set(value, colourOf(value));
      return known.get(value);
    }
    if (Array.isArray(value)) return value.map((one) => inColours(one, known));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, inColours(one, known)]));
    }
    return value;
  };
  const drawKept = () => {
    if (!chart || !figure?.data.length) return;
    const { data, layout } = inColours(figure);
    if (!chart.classList.contains("drawn")) {
      chart.replaceChildren();
      chart.classList.add("drawn");
    }
    // `react` changes what differs and keeps the reader's zoom.
    Plotly.react(chart, data, layout, { displaylogo: false, displayModeBar: false, responsive: true });
  };
  const wanted = () => document.getElementById("status")?.dataset.chart ?? "once";
  const updateChart = async () => {
    if (!chart || asking || wanted() === version) return;
    asking = true;
    const asked = wanted();
    try {
      const response = await fetch(chart.dataset.figure);
      if (response.status >= 500) throw new Error("the service is away");
      version = asked;
      if (response.ok) {
        figure = await response.json();
        drawKept();
      }
    } catch {
      // The service is away: it is asked again below; what is drawn stays.
    } finally {
      asking = false;
    }
    // The page may have changed meanwhile, for the last time perhaps; and after a failure nothing else may ask again.
    if (wanted() !== version) setTimeout(updateChart, version === asked ? 0 : RETRY_MS);
  };
  updateChart();

  // A live page says when it is one no longer.
  const offline = document.getElementById("offline");
  document.body.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful) {
      offline.hidden = true;
      return;
    }
    const status = event.detail.xhr.status;
    const why = status === 401 ? "asks for a key again: reload this page" : status ? `answered ${status}` : "gives no answer";
    offline.textContent = `What is shown may be old: the service ${why}.`;
    offline.hidden = false;
  });

  // After htmx has changed parts of the page: the chart follows, a table scrolled sideways stays where it was,
  // and what the reader has opened stays open.
  const scrolled = new Map();
  let opened = [];
  document.body.addEventListener("htmx:beforeSwap", () => {
    opened = [...document.querySelectorAll("details[id][open]")].map((one) => one.id);
    for (const box of document.querySelectorAll(".scroll[id]")) scrolled.set(box.id, [box.scrollLeft, box.scrollTop]);
  });
  document.body.addEventListener("htmx:afterSettle", () => {
    for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
    for (const [id, [left, top]] of scrolled) document.getElementById(id)?.scrollTo({ left, top, behavior: "instant" });
    updateChart();
    if (said() !== lastSaid) announce((lastSaid = said()));
  });
})();
