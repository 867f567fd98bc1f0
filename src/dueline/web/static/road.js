// The road ahead: bars of what falls due, from seconds to months. Drag to move, wheel or +/- to
// zoom, click a bar to see its messages.
import { call, count, local } from "/static/api.js";
import { make, niceMax, stepFor, timeLabel, timeTicks } from "/static/svg.js";

const box = document.getElementById("road");
const legend = document.getElementById("road-legend");
const note = document.getElementById("road-note");
const topicField = document.getElementById("road-topic");
const HEIGHT = 240, TOP = 12, BOTTOM = 24, LEFT = 44, RIGHT = 8;
const SPAN_MIN = 30_000, SPAN_MAX = 11 * 365 * 86_400_000, LOOK_MS = 2500, SERIES_MAX = 6;

let span = Number(document.querySelector('[data-span][aria-pressed="true"]').dataset.span);
let start = null; // null: begins now, and goes along with it
let shown = null;
let at = -1;
let asking = 0;

const begin = () => (start === null ? Date.now() - span * 0.03 : start);
const width = () => Math.max(box.clientWidth, 280);

async function load() {
  const number = ++asking;
  const bucket = stepFor(span, Math.max(Math.floor((width() - LEFT) / 7), 30));
  const from = Math.floor(begin() / bucket) * bucket;
  const query = new URLSearchParams({ start: from, end: from + Math.ceil(span / bucket + 1) * bucket, bucket_ms: bucket });
  if (topicField.value) query.set("topic", topicField.value);
  try {
    const road = await call("GET", `/api/v1/road?${query}`);
    if (number !== asking) return;
    shown = road;
    draw();
  } catch (error) {
    note.textContent = error.message;
  }
}

function series(road) {
  const names = Object.keys(road.topics)
    .map((name) => [name, road.topics[name].reduce((sum, each) => sum + each, 0)])
    .filter(([, total]) => total > 0)
    .sort((a, b) => b[1] - a[1]);
  const first = names.slice(0, SERIES_MAX).sort((a, b) => (a[0] < b[0] ? -1 : 1));
  const found = first.map(([name, total], index) => ({ name, total, values: road.topics[name], style: `s${index + 1}` }));
  const rest = road.counts.map((all, i) => all - found.reduce((sum, each) => sum + each.values[i], 0));
  const total = rest.reduce((sum, each) => sum + each, 0);
  if (total > 0) found.push({ name: found.length ? "other topics" : "all topics", total, values: rest, style: "s0" });
  return found;
}

function draw() {
  const full = width(), inner = full - LEFT - RIGHT, high = HEIGHT - TOP - BOTTOM;
  const from = begin(), to = from + span;
  const x = (ms) => LEFT + ((ms - from) / span) * inner;
  const parts = series(shown);
  const visible = shown.counts.filter((_, i) => shown.start_ms + (i + 1) * shown.bucket_ms > from && shown.start_ms + i * shown.bucket_ms < to);
  const top = niceMax(Math.max(...visible, 1));
  const y = (value) => TOP + high - (value / top) * high;
  const svg = make("svg", { viewBox: `0 0 ${full} ${HEIGHT}`, height: HEIGHT, "aria-hidden": "true" });
  const clip = make("clipPath", { id: "road-clip" }, make("rect", { x: LEFT, y: 0, width: inner, height: HEIGHT }));
  svg.append(clip);
  for (const part of [0.25, 0.5, 0.75, 1]) {
    const value = top * part;
    if (!Number.isInteger(value)) continue;
    svg.append(make("line", { class: "grid", x1: LEFT, x2: full - RIGHT, y1: y(value), y2: y(value) }));
    svg.append(make("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, short(value)));
  }
  const { step, ticks } = timeTicks(from, to, Math.max(Math.floor(inner / 90), 3));
  for (const tick of ticks) {
    if (x(tick) > full - RIGHT - 10) continue;
    svg.append(make("line", { class: "axis", x1: x(tick), x2: x(tick), y1: TOP + high, y2: TOP + high + 4 }));
    svg.append(make("text", { x: x(tick), y: HEIGHT - 6, "text-anchor": "middle" }, timeLabel(tick, step)));
  }
  const bars = make("g", { class: "bars", "clip-path": "url(#road-clip)" });
  const wide = (shown.bucket_ms / span) * inner;
  shown.counts.forEach((all, i) => {
    const left = x(shown.start_ms + i * shown.bucket_ms);
    if (left + wide < LEFT || left > full - RIGHT) return;
    const column = make("g", { class: i === at ? "column at" : "column", "data-bucket": i, "data-count": all });
    column.append(make("rect", { class: "hit", x: left, y: TOP, width: wide, height: high }));
    let under = 0;
    for (const each of parts) {
      const value = each.values[i];
      if (!value) continue;
      const bottom = y(under), upper = y(under + value);
      const tall = Math.max(bottom - upper, under === 0 ? 2 : 0.5);
      column.append(make("rect", { class: each.style, x: left + Math.min(wide * 0.12, 1.5), y: bottom - tall, width: Math.max(wide - Math.min(wide * 0.24, 3), 1), height: tall, rx: Math.min(1.5, wide / 6) }));
      under += value;
    }
    bars.append(column);
  });
  svg.append(bars, make("line", { class: "axis", x1: LEFT, x2: full - RIGHT, y1: TOP + high, y2: TOP + high }));
  const now = x(Date.now());
  if (now > LEFT && now < full - RIGHT) {
    svg.append(make("line", { class: "now", x1: now, x2: now, y1: TOP - 4, y2: TOP + high }));
    svg.append(make("text", { class: "now-text", x: now + 4, y: TOP + 2 }, "now"));
  }
  box.querySelector("svg")?.remove();
  box.prepend(svg);
  legend.replaceChildren(...parts.map((each) => {
    const item = document.createElement("li");
    const mark = make("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, make("circle", { class: each.style, cx: 5, cy: 5, r: 5 }));
    item.append(mark, `${each.name} ${count(each.total)}`);
    return item;
  }));
  const total = shown.counts.reduce((sum, each) => sum + each, 0);
  const beyond = shown.after ? `, ${count(shown.after)} later` : "";
  note.textContent = `${count(total)} fall due here${beyond}${shown.before ? `, ${count(shown.before)} before` : ""}.`;
  showTip();
}

const short = (value) => (value >= 1e6 ? `${value / 1e6}M` : value >= 1e4 ? `${value / 1e3}k` : count(value));

function showTip() {
  box.querySelector(".tip")?.remove();
  const column = at >= 0 ? box.querySelector(`[data-bucket="${at}"] .hit`) : null;
  if (!column || !shown) return;
  const tip = document.createElement("div");
  tip.className = "tip";
  const number = document.createElement("b");
  number.textContent = count(shown.counts[at]);
  const begins = shown.start_ms + at * shown.bucket_ms;
  tip.append(number, ` due from ${local(begins).slice(0, shown.bucket_ms < 60000 ? 19 : 16)}`);
  box.append(tip);
  const middle = Number(column.getAttribute("x")) + Number(column.getAttribute("width")) / 2;
  const left = Math.min(Math.max(middle - tip.offsetWidth / 2, 0), width() - tip.offsetWidth);
  tip.style.setProperty("left", `${left}px`);
  tip.style.setProperty("top", "-1.6rem");
}

function see(bucket) {
  const from = shown.start_ms + bucket * shown.bucket_ms;
  const query = new URLSearchParams({ due_from: new Date(from).toISOString(), due_before: new Date(from + shown.bucket_ms).toISOString() });
  if (topicField.value) query.set("topic", topicField.value);
  location.href = `/pending?${query}`;
}

function zoom(factor, center = 0.03) {
  const middle = begin() + span * center;
  const next = Math.min(Math.max(span * factor, SPAN_MIN), SPAN_MAX);
  if (start !== null) start = middle - next * center;
  span = next;
  press();
  load();
}

function move(ms) {
  start = begin() + ms;
  if (Math.abs(start - (Date.now() - span * 0.03)) < span * 0.01) start = null;
  press();
  if (shown) draw();
  load();
}

function press() {
  for (const each of document.querySelectorAll("[data-span]")) {
    each.setAttribute("aria-pressed", String(start === null && Number(each.dataset.span) === span));
  }
}

document.querySelectorAll("[data-span]").forEach((each) => each.addEventListener("click", () => {
  span = Number(each.dataset.span);
  start = null;
  at = -1;
  press();
  load();
}));
topicField.addEventListener("change", load);

let drag = null;
box.addEventListener("pointerdown", (event) => {
  drag = { x: event.clientX, start: begin(), moved: false, bucket: bucketOf(event) };
});
box.addEventListener("pointermove", (event) => {
  if (!drag) {
    const bucket = bucketOf(event);
    if (bucket !== at) {
      at = bucket;
      showTip();
    }
    return;
  }
  const pixels = event.clientX - drag.x;
  if (Math.abs(pixels) > 4 && !drag.moved) {
    drag.moved = true;
    box.setPointerCapture(event.pointerId);
    box.classList.add("dragging");
  }
  if (drag.moved) move(drag.start - (pixels / (width() - LEFT - RIGHT)) * span - begin());
});
box.addEventListener("pointerup", (event) => {
  const ended = drag;
  drag = null;
  box.classList.remove("dragging");
  if (ended && !ended.moved && bucketOf(event) >= 0 && shown?.counts[bucketOf(event)]) see(bucketOf(event));
});
box.addEventListener("pointercancel", () => { drag = null; box.classList.remove("dragging"); });
box.addEventListener("pointerleave", () => { if (!drag) { at = -1; showTip(); } });
box.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    event.preventDefault();
    move((event.deltaX / width()) * span);
  } else if (event.ctrlKey || event.altKey || document.activeElement === box) {
    event.preventDefault();
    const where = (event.clientX - box.getBoundingClientRect().left - LEFT) / (width() - LEFT - RIGHT);
    zoom(event.deltaY > 0 ? 1.25 : 0.8, Math.min(Math.max(where, 0), 1));
  }
}, { passive: false });
box.addEventListener("keydown", (event) => {
  const keys = {
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
    ArrowRight: () => step(1), ArrowLeft: () => step(-1),
    PageDown: () => move(span / 2), PageUp: () => move(-span / 2),
    Home: () => { start = null; at = -1; load(); },
    Enter: () => { if (at >= 0 && shown?.counts[at]) see(at); },
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});

function step(by) {
  if (!shown) return;
  const last = shown.counts.length - 1;
  at = Math.min(Math.max(at < 0 ? 0 : at + by, 0), last);
  draw();
  note.textContent = `${count(shown.counts[at])} from ${local(shown.start_ms + at * shown.bucket_ms)}`;
}

function bucketOf(event) {
  const column = event.target.closest?.("[data-bucket]");
  return column ? Number(column.dataset.bucket) : -1;
}

new ResizeObserver(() => shown && draw()).observe(box);
async function keepLoading() {
  if (!document.hidden && !drag) await load();
  setTimeout(keepLoading, LOOK_MS);
}
keepLoading();
