// What the pages gain with JavaScript. Every page works without it.
import { followLog } from "./log.js";
import { startLive } from "./live.js";
import { startCompletion } from "./complete.js";
import { startDialogs } from "./dialogs.js";
import { startForms } from "./forms.js";
import { startKeys } from "./keyboard.js";
import { startSelection } from "./select.js";
import { startTimes } from "./times.js";

startTimes();
startCompletion();
startDialogs();
startSelection();
startForms();
followLog();
startLive();
startKeys();

for (const button of document.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
// The shapes of a chart lead where the links of its legend lead.
document.addEventListener("click", (event) => {
  const shape = event.target.closest("[data-href]");
  if (shape) location.assign(shape.dataset.href);
});
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  }
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.activeElement?.closest("details.menu[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
document.querySelector("[data-focus]")?.focus();

// A one-time link: the form is sent once, without a click.
const once = document.querySelector("form[data-once]");
if (once) once.requestSubmit();
