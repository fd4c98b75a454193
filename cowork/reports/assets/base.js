"use strict";
// What every page shares: building nodes, showing text safely, numbers, theme and keys.
// Nothing of a session ever becomes markup: text reaches the page by textContent alone.

const SVG = "http://www.w3.org/2000/svg";
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]/g;

function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) node.append(typeof child === "string" ? visible(child) : child);
  }
  return node;
}

function svg(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  for (const child of children) node.append(typeof child === "string" ? visible(child) : child);
  return node;
}

// The text with everything that hides or turns it shown by its code.
function visible(text) {
  return String(text).replace(/\r\n/g, "\n").replace(HIDDEN, (found) => {
    const code = found.codePointAt(0);
    return code < 256 ? "\\x" + code.toString(16).padStart(2, "0") : "\\u" + code.toString(16).padStart(4, "0");
  });
}

function oneLine(text, most) {
  const flat = visible(String(text).slice(0, most * 4)).replace(/\s+/g, " ").trim();
  return flat.length > most ? flat.slice(0, most - 1) + "…" : flat;
}

function money(usd) {
  if (usd === null || usd === undefined) return "$?";
  if (usd > 0 && usd < 0.001) return "<$0.001";
  return usd > 0 && usd < 0.0995 ? "$" + usd.toFixed(3) : "$" + usd.toFixed(2).replace(/\B(?=(\d{3})+\.)/g, ",");
}

function tokens(count) {
  if (count < 1000) return String(count);
  if (count < 99950) return (count / 1000).toFixed(1) + "k";
  return count < 999500 ? (count / 1000).toFixed(0) + "k" : (count / 1e6).toFixed(1) + "M";
}

function duration(seconds) {
  if (seconds < 9.95) return seconds.toFixed(1).replace(/\.0$/, "") + " s";
  const whole = Math.round(seconds);
  if (whole < 120) return whole + " s";
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds)), two = (n) => String(n).padStart(2, "0");
  const hours = Math.floor(whole / 3600), minutes = Math.floor((whole % 3600) / 60);
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

function plural(count, word) {
  return `${count.toLocaleString("en")} ${count === 1 ? word : word === "child" ? "children" : word + "s"}`;
}

function bytes(count) {
  return count < 1e6 ? `${Math.max(1, Math.round(count / 1000))} kB` : `${(count / 1e6).toFixed(1)} MB`;
}

// A step that gives at most `most` round marks up to `range`.
function roundStep(range, most, steps) {
  for (const step of steps || []) if (range / step <= most) return step;
  const power = Math.pow(10, Math.floor(Math.log10(range / most)));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => range / step <= most);
}

function button(label, title, press, attributes) {
  return el("button", { type: "button", title, "aria-label": title, onclick: press, ...attributes }, label);
}

const TONES = 8;
const tones = new Map();
function tone(name) {
  if (!tones.has(name)) tones.set(name, tones.size);
  return "tone" + (tones.get(name) % TONES);
}

function startTheme() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const set = (theme) => { root.dataset.theme = theme; };
  set(new URLSearchParams(location.hash.slice(1)).get("theme") || (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", () => set(dark.matches ? "dark" : "light"));
  return () => set(root.dataset.theme === "dark" ? "light" : "dark");
}

function keyHelp(rows) {
  const dialog = el("dialog", { class: "help", "aria-label": "Keys" },
    el("h2", null, "Keys"),
    el("dl", null, ...rows.flatMap(([key, what]) => [el("dt", null, el("kbd", null, key)), el("dd", null, what)])),
    el("form", { method: "dialog" }, el("button", null, "Close")));
  document.body.append(dialog);
  return () => dialog.showModal();
}

// A table whose first number column is drawn as a bar too.
function barTable(caption, columns, rows, size) {
  const most = Math.max(...rows.map(size), 1e-12);
  return el("div", { class: "scroll" }, el("table", { class: "bars" },
    el("caption", null, caption),
    el("thead", null, el("tr", null, ...columns.map((c, n) => el("th", { scope: "col", class: n ? "number" : "" }, c.name)))),
    el("tbody", null, ...rows.map((row) => {
      const cells = columns.map((c, n) => el(n ? "td" : "th", n ? { class: "number" } : { scope: "row" }, c.cell(row)));
      const bar = svg("svg", { class: "meter", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("rect", { width: Math.max(size(row) > 0 ? 0.5 : 0, (100 * size(row)) / most), height: 6, rx: 1, class: tone(row.tone || row.name) }));
      cells[0].append(bar);
      return el("tr", null, ...cells);
    }))));
}
