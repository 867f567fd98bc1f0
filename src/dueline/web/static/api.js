// Calls of the API. Text from messages reaches the page only as textContent.

export async function call(method, path, body) {
  const options = { method, headers: { accept: "application/json" } };
  const token = document.querySelector('meta[name="csrf"]');
  if (token) options.headers["x-csrf-token"] = token.content;
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The web process does not answer.");
  }
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(found.message || `The answer was ${answer.status}.`);
  return found;
}

export function toast(text, { bad = false, link = null } = {}) {
  const box = document.createElement("p");
  box.className = bad ? "toast bad" : "toast";
  box.textContent = text;
  if (link) {
    const a = document.createElement("a");
    a.href = link.href;
    a.textContent = link.text;
    box.append(" ", a);
  }
  document.getElementById("toasts").append(box);
  setTimeout(() => box.remove(), bad ? 12000 : 6000);
}

const NUMBER = new Intl.NumberFormat("en");
export const count = (value) => NUMBER.format(value);

const UNITS = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];
export function span(ms) {
  const size = Math.abs(ms);
  if (size < 1000) return `${Math.round(size)} ms`;
  for (const [name, unit] of UNITS) {
    if (size >= unit) {
      const value = size / unit;
      return `${value < 10 && unit > 1000 ? value.toFixed(1).replace(/\.0$/, "") : Math.floor(value)} ${name}`;
    }
  }
}

const pad = (value, width = 2) => String(value).padStart(width, "0");
export function local(ms) {
  const t = new Date(ms);
  const day = `${t.getFullYear()}-${pad(t.getMonth() + 1)}-${pad(t.getDate())}`;
  return `${day} ${pad(t.getHours())}:${pad(t.getMinutes())}:${pad(t.getSeconds())}.${pad(t.getMilliseconds(), 3)}`;
}

export function relative(ms, now) {
  const away = ms - now;
  if (Math.abs(away) < 1000) return "now";
  return away > 0 ? `in ${span(away)}` : `${span(away)} ago`;
}
