// Keys for people who triage: they move the focus and follow links, and never change a job by themselves. The help,
// by "?", switches them off and on.
const SWITCH = "leasehold-keys";
const GO = {
  o: "overview", j: "jobs", d: "dead", p: "operations", t: "triggers", e: "events", f: "definitions",
  a: "audit", h: "health", w: "workers", s: "tenants",
};
const LINKS = { r: "/retry", c: "/cancel", n: "/run-now" };
const HELP = [
  ["/", "Search"],
  ["j  k", "Next row, row before"],
  ["Enter", "Open the row"],
  ["g o  g j", "Go to the overview, to the jobs"],
  ["g d  g p", "Go to the dead letters, to the operations"],
  ["g t  g e  g f", "Go to the triggers, events, definitions"],
  ["g a  g h", "Go to the audit log, to the health"],
  ["g w  g s", "Go to the workers, to the tenants"],
  ["x  a", "Choose the row, all rows of the page"],
  ["r  c  n", "Retry, cancel, run now: opens a dialog"],
  ["w", "Why it does not run"],
  ["f", "Follow the log"],
  ["u", "Back to the list"],
  ["Esc", "Close"],
  ["?", "This help"],
];

const isOn = () => localStorage.getItem(SWITCH) !== "off";

function isTyping(event) {
  const at = event.target;
  return event.ctrlKey || event.metaKey || event.altKey || at.isContentEditable || at.matches("input, textarea, select");
}

function move(step) {
  const rows = [...document.querySelectorAll("#rows .name")];
  const at = rows.indexOf(document.activeElement?.closest("tr")?.querySelector(".name"));
  const next = at < 0 ? rows[step > 0 ? 0 : rows.length - 1] : rows[at + step];
  next?.focus();
}

function follow(selector) {
  const link = document.querySelector(selector);
  link?.click();
  return link !== null;
}

function show(id) {
  const part = document.getElementById(id);
  if (!part?.childElementCount) return false;
  part.tabIndex = -1;
  part.focus();
  part.scrollIntoView({ block: "nearest" });
  return true;
}

function help() {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-label", "Keys");
  const title = document.createElement("h1");
  title.textContent = "Keys";
  const list = document.createElement("dl");
  list.className = "facts keys";
  for (const [keys, text] of HELP) {
    const row = document.createElement("div");
    const term = document.createElement("dt");
    const detail = document.createElement("dd");
    term.textContent = keys;
    detail.textContent = text;
    row.append(term, detail);
    list.append(row);
  }
  const label = document.createElement("label");
  const box = document.createElement("input");
  label.className = "check";
  box.type = "checkbox";
  box.checked = isOn();
  box.addEventListener("change", () => localStorage.setItem(SWITCH, box.checked ? "on" : "off"));
  label.append(box, " Use these keys");
  dialog.append(title, list, label);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function act(key) {
  if (key === "?") help();
  else if (!isOn()) return false;
  else if (key === "/") document.getElementById("q")?.focus();
  else if (key === "j") move(1);
  else if (key === "k") move(-1);
  else if (key === "x") document.activeElement?.closest("#rows tr")?.querySelector(".pick input")?.click();
  else if (key === "a") document.querySelector("#rows thead .pick input")?.click();
  else if (key === "w") return show("why");
  else if (key === "f") document.getElementById("follow")?.click();
  else if (key === "u") return follow(".crumbs a");
  else if (LINKS[key]) return follow(`.actions a[href*="${LINKS[key]}"]`);
  else return false;
  return true;
}

export function startKeys() {
  let goes = false;
  document.addEventListener("keydown", (event) => {
    if (isTyping(event) || document.querySelector("dialog[open]")) return;
    const section = goes && isOn() ? GO[event.key] : undefined;
    goes = event.key === "g";
    if (section ? follow(`.nav a[data-section="${section}"]`) : act(event.key)) event.preventDefault();
  });
}
