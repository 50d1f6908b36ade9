// draw.js - elements, words, scales. Text reaches the page by textContent alone: names are anybody's.
"use strict";

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  node.append(...children.flat().filter(child => child !== null && child !== undefined));
  return node;
}

function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes || {}))
    node.setAttribute(key, typeof value === "number" ? Math.round(value * 10) / 10 : value);
  node.append(...children.flat().filter(child => child !== null && child !== undefined));
  return node;
}

const UNITS = {
  ns: [1000, ["ns", "\u00b5s", "ms", "s"]],
  bps: [1000, ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"]],
  bytes: [1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]],
  count: [1000, ["", "k", "M", "G", "T"]],
};

// A number as people say it; an en dash for what is not known.
function words(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return "\u2013";
  const [base, names] = UNITS[unit];
  let index = 0;
  for (value = Number(value); value >= base * 0.9995 && index + 1 < names.length; index++) value /= base;
  const text = value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
  if (text === "0") return text;
  return unit === "count" ? text + names[index] : text + " " + names[index];
}

const count = value => value === null || value === undefined ? "\u2013" : Number(value).toLocaleString("en");
const percent = (part, whole) => (whole > 0 ? Math.round(part * 100 / whole) : 0) + " %";
const sum = list => list.reduce((total, value) => total + value, 0);

// The smallest round number not below value; bytes are round in powers of two.
function roundUp(value, unit) {
  if (!(value > 0)) return 1;
  const base = UNITS[unit][0];
  let scale = 1;
  while (value > base * scale) scale *= base;
  const steps = unit === "bytes" ? [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    : [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
  return scale * (steps.find(step => step * scale >= value * (1 - 1e-9)) || base);
}

// at(value): the coordinate; ticks: round values.
function scale(low, high, from, to, unit, logarithmic) {
  if (logarithmic) {
    const first = Math.floor(Math.log10(Math.max(low, 1)));
    const last = Math.max(Math.ceil(Math.log10(Math.max(high, 1))), first + 1);
    const ticks = [];
    for (let decade = first; decade <= last; decade++) ticks.push(10 ** decade);
    const at = value => from + (Math.log10(Math.max(value, 10 ** first)) - first) / (last - first) * (to - from);
    return { at, ticks, unit };
  }
  const each = roundUp(high / 4, unit);
  const top = high <= each * 3 ? each * 3 : each * 4;
  const ticks = [];
  for (let tick = 0; tick <= top * 1.0001; tick += each) ticks.push(tick);
  return { at: value => from + Math.min(Math.max(value / top, 0), 1) * (to - from), ticks, unit };
}

function axis(s, left, right, most) {
  const each = Math.ceil(s.ticks.length / most);
  return s.ticks.filter((tick, i) => i % each === 0).map((tick, i) => [
    svg("line", { class: i === 0 ? "a" : "g", x1: left, x2: right, y1: s.at(tick), y2: s.at(tick) }),
    svg("text", { class: "e", x: left - 6, y: s.at(tick) + 4 }, words(tick, s.unit)),
  ]).flat();
}

function bar(kind, x, y, width, height, title) {
  return svg("rect", { class: kind, x, y, width: Math.max(width, 0.1), height: Math.max(height, 0.1) },
    title ? svg("title", {}, title) : null);
}

function key(x, y, kind, text) {
  return [svg("rect", { class: kind, x, y, width: 10, height: 10 }), svg("text", { x: x + 16, y: y + 9 }, text)];
}

function section(title, note, ...children) {
  return el("section", {}, el("h2", {}, title), note ? el("p", { class: "note" }, note) : null, ...children);
}

// columns: [head, class of the column]; rows of texts, or of [class, text].
function table(columns, rows) {
  const head = el("tr", {}, columns.map(([text, kind]) => el("th", { class: kind }, text)));
  const body = rows.map(row => el("tr", {}, row.map((cell, i) => Array.isArray(cell)
    ? el("td", { class: columns[i][1] + " " + cell[0] }, cell[1])
    : el("td", { class: columns[i][1] }, cell))));
  return el("div", { class: "scroll" }, el("table", {}, head, body));
}
