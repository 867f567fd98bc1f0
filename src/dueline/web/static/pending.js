// Choosing messages and changing them: some, or everything that matches. What will be changed is
// counted and shown before it is.
import { call, count, toast } from "/static/api.js";

const WORDS = {
  cancel: ["Cancel", "They will not be delivered."],
  deliver: ["Deliver now", "They become due at once, in their order."],
  reschedule: ["Move", "They become due at another time."],
  shift: ["Shift", "Each becomes due earlier or later by the same time."],
};
const dialog = document.getElementById("confirm");
const matching = document.getElementById("matching");
const allMatching = document.getElementById("all-matching");
const rows = () => [...document.querySelectorAll("input[name=row]")];
let matchingCount = null;

async function countMatching() {
  const query = new URLSearchParams(matching.dataset.query);
  let total = 0, atGate = 0, cursor = null;
  do {
    if (cursor) query.set("cursor", cursor);
    const part = await call("GET", `/api/v1/pending/count?${query}`);
    total += part.count;
    atGate += part.at_gate;
    cursor = part.cursor;
    matching.textContent = `${count(total)}${cursor ? " and counting" : ""} ${total === 1 ? "message" : "messages"}${atGate ? `, ${count(atGate)} of them at the gate` : ""}`;
  } while (cursor);
  matchingCount = total;
  showChosen();
}

function chosenNumbers() {
  return rows().filter((each) => each.checked).map((each) => Number(each.value));
}

function showChosen() {
  const bar = document.getElementById("actions");
  if (!bar) return;
  const isAll = allMatching.checked, some = chosenNumbers().length;
  for (const each of rows()) each.closest("tr").setAttribute("aria-selected", String(isAll || each.checked));
  document.getElementById("chosen").textContent = isAll
    ? (matchingCount === null ? "Counting…" : `${count(matchingCount)} selected`)
    : some ? `${count(some)} selected` : "Nothing selected";
  for (const each of bar.querySelectorAll("[data-action]")) each.disabled = isAll ? !matchingCount : !some;
}

function filterOf(query) {
  return Object.fromEntries([...new URLSearchParams(query)].filter(([name, value]) => value !== "" && name !== "cursor" && name !== "limit"));
}

function openDialog(action, number, what) {
  const [title, text] = WORDS[action];
  document.getElementById("confirm-title").textContent = `${title} ${what}`;
  document.getElementById("confirm-text").textContent = text;
  for (const [id, on] of [["confirm-due", action === "reschedule"], ["confirm-shift", action === "shift"]]) {
    const field = document.getElementById(id);
    field.hidden = !on;
    field.querySelector("input").required = on;
  }
  document.getElementById("confirm-problem").hidden = true;
  const yes = document.getElementById("confirm-yes");
  yes.textContent = `${title} ${what}`;
  yes.classList.toggle("danger", action === "cancel");
  dialog.returnValue = "";
  dialog.showModal();
  dialog.order = { action, ...number };
}

dialog.querySelector("form").addEventListener("submit", async (event) => {
  if (event.submitter?.value !== "yes") return;
  event.preventDefault();
  const { action } = dialog.order, order = { ...dialog.order };
  if (action === "reschedule") order.deliver_at = dialog.querySelector("[name=deliver_at]").value;
  if (action === "shift") order.shift = dialog.querySelector("[name=shift]").value;
  order.token = crypto.randomUUID?.() ?? String(Math.random());
  const yes = document.getElementById("confirm-yes");
  yes.disabled = true;
  try {
    const job = await call("POST", "/api/v1/jobs", order);
    dialog.close();
    await follow(job);
  } catch (error) {
    const problem = document.getElementById("confirm-problem");
    problem.textContent = error.message;
    problem.hidden = false;
  }
  yes.disabled = false;
});

async function follow(job) {
  const link = { href: "/jobs", text: `Job ${job.number}` };
  for (let look = 0; look < 20 && (job.state === "waiting" || job.state === "running"); look++) {
    await new Promise((done) => setTimeout(done, 150));
    job = await call("GET", `/api/v1/jobs/${job.number}`);
  }
  if (job.state === "waiting" || job.state === "running") {
    toast(`Under way: ${count(job.matched)} so far.`, { link });
    return;
  }
  const { done, too_late: late, unknown, failed } = job.answers;
  const rest = [[late, "too late"], [unknown, "unknown"], [failed, "failed"]].filter(([n]) => n).map(([n, word]) => `, ${count(n)} ${word}`).join("");
  sessionStorage.setItem("said", JSON.stringify([`${WORDS[job.action][0]}: ${count(done)} done${rest}.`, job.number]));
  location.reload();
}

const said = sessionStorage.getItem("said");
if (said) {
  sessionStorage.removeItem("said");
  const [text, number] = JSON.parse(said);
  toast(text, { link: { href: "/jobs", text: `Job ${number}` } });
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-action]");
  if (!button) return;
  const article = button.closest("[data-number]");
  if (article) {
    openDialog(button.dataset.action, { numbers: [Number(article.dataset.number)] }, "this message");
  } else if (allMatching.checked) {
    const many = matchingCount === 1 ? "1 message" : `${count(matchingCount)} messages`;
    openDialog(button.dataset.action, { filter: filterOf(matching.dataset.query) }, many);
  } else {
    const numbers = chosenNumbers();
    openDialog(button.dataset.action, { numbers }, numbers.length === 1 ? "1 message" : `${count(numbers.length)} messages`);
  }
});

if (matching) {
  document.addEventListener("change", (event) => {
    if (event.target.id === "all-rows") for (const each of rows()) each.checked = event.target.checked;
    if (event.target.name === "row" && !event.target.checked) allMatching.checked = false;
    showChosen();
  });
  showChosen();
  countMatching().catch((error) => { matching.textContent = error.message; });
}
