// Chooses rows of a list for a change of many: a box for all of the page, ranges by Shift, and how many are chosen.
const boxes = () => [...document.querySelectorAll("#rows .pick input[name]")];

function all() {
  return document.querySelector("#rows thead .pick input");
}

function show(form) {
  const found = boxes();
  const chosen = found.filter((box) => box.checked).length;
  const text = chosen ? `${chosen} chosen` : form.dataset.hint;
  const said = form.querySelector("[data-chosen]");
  if (said.textContent !== text) said.textContent = text;
  for (const button of form.querySelectorAll("button")) button.disabled = chosen === 0;
  if (all()) {
    all().checked = chosen > 0 && chosen === found.length;
    all().indeterminate = chosen > 0 && chosen < found.length;
  }
}

function addBoxForAll(form) {
  const head = document.querySelector("#rows thead .pick");
  if (!head) return;
  const box = document.createElement("input");
  box.type = "checkbox";
  box.setAttribute("aria-label", "Choose all jobs of this page");
  box.addEventListener("change", () => {
    for (const each of boxes()) each.checked = box.checked;
    show(form);
  });
  head.replaceChildren(box);
}

export function startSelection() {
  const form = document.getElementById("bulk");
  if (!form) return;
  let last = null;
  addBoxForAll(form);
  show(form);
  document.addEventListener("click", (event) => {
    const box = event.target.closest?.("#rows .pick input[name]");
    if (!box) return;
    const found = boxes();
    const [from, to] = [found.indexOf(last), found.indexOf(box)].sort((a, b) => a - b);
    if (event.shiftKey && from >= 0) for (const each of found.slice(from, to + 1)) each.checked = box.checked;
    last = box;
    show(form);
  });
  document.addEventListener("leasehold:patched", () => show(form));
}
