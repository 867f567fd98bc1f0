// What every page has: times in the reader's zone, a theme, forms that call the API, and news
// without reloading. A page is rendered by the server; its parts marked data-live are fetched again,
// and what differs is changed.
import { call, local, relative, toast } from "/static/api.js";

const LOOK_MS = 2500;

function showTimes(root = document) {
  const now = Date.now();
  for (const each of root.querySelectorAll("time[data-ms]")) {
    const ms = Number(each.dataset.ms);
    const text = "relative" in each.dataset ? relative(ms, now) : local(ms);
    if (each.textContent !== text) each.textContent = text;
    if (!each.title) each.title = new Date(ms).toISOString();
  }
}

// Theme: system, light, dark

function showTheme() {
  const chosen = localStorage.getItem("theme") || "system";
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  document.getElementById("theme").textContent = `Theme: ${chosen}`;
}

document.getElementById("theme").addEventListener("click", () => {
  const next = { system: "light", light: "dark", dark: "system" };
  localStorage.setItem("theme", next[localStorage.getItem("theme") || "system"]);
  showTheme();
});

// News

function isBusy() {
  return document.hidden || document.querySelector("dialog[open]") !== null;
}

// Make a part of the page like its news. What is the same on both sides stays the same element, so
// that what is under the mouse can be pressed; rows are the same by their data-key, never by their
// place: a button must not become another row's while somebody presses it.
function liken(old, news) {
  if (old.nodeName !== news.nodeName) old.replaceWith(document.importNode(news, true));
  else if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== news.data) old.data = news.data;
  } else {
    for (const { name } of [...old.attributes]) if (!news.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of news.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    likenChildren(old, news);
  }
}

function likenChildren(old, news) {
  const keyed = new Map([...old.children].map((each) => [each.dataset.key, each]));
  let place = old.firstChild;
  for (const each of news.childNodes) {
    const key = each.dataset?.key;
    const same = key ? keyed.get(key) : place?.dataset?.key ? null : place;
    if (!same) old.insertBefore(document.importNode(each, true), place);
    else {
      if (same === place) place = same.nextSibling;
      else old.insertBefore(same, place);
      liken(same, each);
    }
  }
  while (place) {
    const gone = place;
    place = gone.nextSibling;
    gone.remove();
  }
}

async function look() {
  const parts = document.querySelectorAll("[data-live]");
  const state = document.querySelector("#link-state .dot");
  if (isBusy()) return;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    state.className = answer.ok ? "dot good" : "dot bad";
    const isOtherPage = page.querySelector("h1")?.textContent !== document.querySelector("h1")?.textContent;
    if (isOtherPage && (answer.ok || page.querySelector('[data-live="problem"]'))) {
      location.reload();
      return;
    }
    for (const part of parts) {
      const news = page.querySelector(`[data-live="${part.dataset.live}"]`);
      if (news) {
        showTimes(news);
        liken(part, news);
      }
    }
  } catch {
    state.className = "dot bad";
  }
}

async function keepLooking() {
  if (document.querySelector("[data-live]")) await look();
  setTimeout(keepLooking, LOOK_MS);
}

// Forms and buttons that call the API

function bodyOf(form) {
  const body = {};
  for (const field of form.elements) {
    if (!field.name || (field.value === "" && !field.matches("textarea[name=body]"))) continue;
    if ("number" in field.dataset) body[field.name] = Number(field.value);
    else if ("words" in field.dataset) body[field.name] = field.value.split(/\s+/).filter(Boolean);
    else if ("pairs" in field.dataset) {
      const lines = field.value.split("\n").filter((line) => line.trim());
      body[field.name] = Object.fromEntries(lines.map((line) => {
        const at = line.indexOf("=");
        return at < 0 ? [line.trim(), ""] : [line.slice(0, at).trim(), line.slice(at + 1)];
      }));
    } else body[field.name] = field.value;
  }
  return body;
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.dataset.api) return;
  event.preventDefault();
  const [method, path] = form.dataset.api.split(" ");
  try {
    const found = await call(method, path, bodyOf(form));
    const link = form.dataset.then === "message"
      ? { href: `/message?${new URLSearchParams({ name: found.unique_id, topic: found.topic })}`, text: "Look at it" }
      : null;
    toast(form.dataset.done, { link });
    if (!link) form.reset();
    look();
  } catch (error) {
    toast(error.message, { bad: true });
  }
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-call]");
  if (!button || (button.dataset.sure && !window.confirm(button.dataset.sure))) return;
  const at = button.dataset.call.indexOf(" ");
  const method = button.dataset.call.slice(0, at);
  button.disabled = true;
  try {
    const body = method === "DELETE" ? undefined : JSON.parse(button.dataset.body || "{}");
    await call(method, button.dataset.call.slice(at + 1), body);
    toast(button.dataset.done);
    look();
  } catch (error) {
    toast(error.message, { bad: true });
  }
  button.disabled = false;
});

showTheme();
showTimes();
setInterval(showTimes, 1000);
setTimeout(keepLooking, LOOK_MS);
document.querySelector("#link-state .dot").className =
  document.querySelector('[data-live="problem"]') ? "dot bad" : "dot good";
