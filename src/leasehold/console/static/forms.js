// Forms whose preview the server computes: their parts are read again while one types, and replaced in place. Without
// this module, a button of the form does the same.
const PAUSE = 350;

// The server shows times in the zone of the reader, if the browser tells it.
function tellZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone) document.cookie = `leasehold-zone=${zone}; path=/; max-age=31536000; samesite=lax`;
}

function send(form, extra) {
  return new Promise((resolve, reject) => {
    const body = new URLSearchParams(new FormData(form));
    for (const [name, value] of Object.entries(extra)) body.set(name, value);
    const request = new XMLHttpRequest();
    request.open("POST", form.action);
    request.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
    request.responseType = "document";
    request.timeout = 15000;
    request.onload = () => (request.response && [200, 422].includes(request.status) ? resolve(request.response) : reject(request));
    request.onerror = request.ontimeout = () => reject(request);
    request.send(body.toString());
  });
}

function patch(form, page, parts) {
  for (const old of form.querySelectorAll(parts)) {
    const fresh = page.getElementById(old.id);
    if (!fresh) continue;
    const open = new Set([...old.querySelectorAll("details[id][open]")].map((each) => each.id));
    old.replaceChildren(...[...fresh.childNodes].map((each) => document.importNode(each, true)));
    for (const each of old.querySelectorAll("details[id]")) each.open = open.has(each.id);
    for (const each of old.querySelectorAll("[data-copy]")) each.hidden = !navigator.clipboard;
  }
}

function keepPreview(form) {
  let timer = 0;
  let asked = 0;
  const look = async () => {
    const number = (asked += 1);
    const page = await send(form, { do: "preview" }).catch(() => null);
    if (page && number === asked) patch(form, page, "[data-part]");
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE);
  });
  form.addEventListener("click", (event) => {
    if (!event.target.closest("[data-look]")) return;
    event.preventDefault();
    look();
  });
  if (form.dataset.preview !== "later") look();
}

// Buttons that change the shape of a form, like those that add an item to a list.
function keepShape(form) {
  // `control` is a button or a select, `button` the one that does the same without this module.
  const reshape = async (control, button) => {
    const page = await send(form, { do: button.value }).catch(() => null);
    if (!page) {
      form.requestSubmit(button);
      return;
    }
    const id = control.id;
    patch(form, page, "[data-shape]");
    const again = document.getElementById(id) ?? form.querySelector("[data-shape] input, [data-shape] textarea");
    again?.focus();
    form.dispatchEvent(new Event("input", { bubbles: true }));
  };
  form.addEventListener("click", (event) => {
    const button = event.target.closest("[data-reshape]");
    if (!button) return;
    event.preventDefault();
    reshape(button, button);
  });
  form.addEventListener("change", (event) => {
    const select = event.target.closest("select[data-choice]");
    if (select) reshape(select, select.parentElement.querySelector("button[data-reshape]"));
  });
}

export function startForms() {
  tellZone();
  for (const form of document.querySelectorAll("form[data-preview]")) {
    keepPreview(form);
    keepShape(form);
  }
}
