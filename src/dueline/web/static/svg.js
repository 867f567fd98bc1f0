// SVG elements, and scales that people can read.

export function make(name, attributes = {}, ...children) {
  const found = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  found.append(...children);
  return found;
}

export function niceMax(value) {
  if (value <= 5) return 5;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((each) => each >= value);
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
  2 * 86400, 7 * 86400, 14 * 86400, 30 * 86400, 91 * 86400, 182 * 86400, 365 * 86400].map((s) => s * 1000);

export function stepFor(length, parts) {
  return STEPS.find((step) => length / step <= parts) || STEPS[STEPS.length - 1];
}

const pad = (value) => String(value).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function timeLabel(ms, step) {
  const t = new Date(ms);
  const day = `${t.getDate()} ${MONTHS[t.getMonth()]}`;
  if (step >= 300 * 86400000) return String(t.getFullYear());
  if (step >= 28 * 86400000) return `${MONTHS[t.getMonth()]} ${t.getFullYear()}`;
  if (step >= 86400000) return day;
  const clock = `${pad(t.getHours())}:${pad(t.getMinutes())}`;
  if (step >= 60000) return t.getHours() === 0 && t.getMinutes() === 0 ? day : clock;
  return `${clock}:${pad(t.getSeconds())}`;
}

// Ticks at round local times.
export function timeTicks(start, end, parts) {
  const step = stepFor(end - start, parts);
  const offset = new Date(start).getTimezoneOffset() * 60000;
  const found = [];
  for (let at = Math.ceil((start - offset) / step) * step + offset; at <= end; at += step) found.push(at);
  return { step, ticks: found };
}
