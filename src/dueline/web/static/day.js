// The last day: lateness (logarithmic, it spans from a millisecond to hours) and messages a minute.
import { call, count, span as spanText } from "/static/api.js";
import { make, niceMax, timeLabel, timeTicks } from "/static/svg.js";

const HEIGHT = 170, TOP = 10, BOTTOM = 22, LEFT = 50, RIGHT = 8, LOOK_MS = 15_000, MINUTE = 60_000;
const high = HEIGHT - TOP - BOTTOM;

function frame(box, history) {
  const full = Math.max(box.clientWidth, 260), end = history.now_ms;
  const first = history.minutes.length ? history.minutes[0].start_ms : end;
  const start = Math.max(Math.min(first, end - 30 * MINUTE), end - 24 * 60 * MINUTE);
  const x = (ms) => LEFT + ((ms - start) / (end - start)) * (full - LEFT - RIGHT);
  const svg = make("svg", { viewBox: `0 0 ${full} ${HEIGHT}`, height: HEIGHT, role: "img" });
  const { step, ticks } = timeTicks(start, end, Math.max(Math.floor(full / 100), 2));
  for (const tick of ticks) {
    svg.append(make("text", { x: x(tick), y: HEIGHT - 4, "text-anchor": "middle" }, timeLabel(tick, step)));
  }
  svg.append(make("line", { class: "axis", x1: LEFT, x2: full - RIGHT, y1: TOP + high, y2: TOP + high }));
  return { svg, x, full };
}

function rule(svg, full, at, text) {
  svg.append(make("line", { class: "grid", x1: LEFT, x2: full - RIGHT, y1: at, y2: at }));
  svg.append(make("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end" }, text));
}

// A line for each stretch of minutes without a gap.
function lines(svg, minutes, x, y, field, style) {
  const known = minutes.filter((each) => each[field] !== null);
  let path = "";
  known.forEach((each, i) => {
    const isJoined = i > 0 && each.start_ms - known[i - 1].start_ms <= MINUTE;
    const isFollowed = i + 1 < known.length && known[i + 1].start_ms - each.start_ms <= MINUTE;
    const at = [x(each.start_ms + MINUTE / 2).toFixed(1), y(each[field]).toFixed(1)];
    path += `${isJoined ? "L" : "M"}${at.join(" ")}`;
    if (!isJoined && !isFollowed) svg.append(make("circle", { class: style, cx: at[0], cy: at[1], r: 2.5 }));
  });
  if (path) svg.append(make("path", { class: `line ${style}`, d: path, "stroke-linecap": "round" }));
}

function drawLateness(history) {
  const box = document.getElementById("day-late");
  const { svg, x, full } = frame(box, history);
  const most = Math.max(...history.minutes.map((each) => each.max_ms || 0), 100);
  const top = Math.ceil(Math.log10(most + 1));
  const y = (value) => TOP + high - (Math.log10(value + 1) / top) * high;
  for (let power = 0; power <= top; power += top > 5 ? 2 : 1) rule(svg, full, y(10 ** power - 1), power ? spanText(10 ** power) : "0");
  for (const [field, style] of [["max_ms", "s3"], ["p99_ms", "s2"], ["p50_ms", "s1"]]) lines(svg, history.minutes, x, y, field, style);
  const last = history.minutes.filter((each) => each.max_ms !== null).at(-1);
  svg.setAttribute("aria-label", last ? `Lateness: median ${spanText(last.p50_ms)}, p99 ${spanText(last.p99_ms)}, max ${spanText(last.max_ms)} in the last minute` : "Nothing fell due during the day");
  box.replaceChildren(svg);
}

function drawFlow(history) {
  const box = document.getElementById("day-flow");
  const { svg, x, full } = frame(box, history);
  const most = Math.max(...history.minutes.map((each) => Math.max(each.sent_count, each.shown_count)), 1);
  const top = niceMax(most);
  const y = (value) => TOP + high - (value / top) * high;
  for (const part of [0.5, 1]) rule(svg, full, y(top * part), count(top * part));
  lines(svg, history.minutes, x, y, "sent_count", "s1");
  lines(svg, history.minutes, x, y, "shown_count", "s2");
  svg.setAttribute("aria-label", `Messages a minute: at most ${count(most)}`);
  box.replaceChildren(svg);
}

let history = null;
function draw() {
  if (!history) return;
  drawLateness(history);
  drawFlow(history);
}
async function keepLoading() {
  if (!document.hidden) {
    try {
      history = await call("GET", "/api/v1/history");
      draw();
    } catch { /* the page itself says what is wrong */ }
  }
  setTimeout(keepLoading, LOOK_MS);
}
new ResizeObserver(draw).observe(document.getElementById("day-late"));
keepLoading();
