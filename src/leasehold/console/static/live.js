// Keeps a page up to date without disturbing its reader: nothing moves, and nothing changes that is selected, focused
// or open. New rows wait behind a button. It polls; a stream of events can call `look` instead.
const LIST = 5000;
const PAGE = 3000;
const SIGNED_OUT = Symbol("signed out");
const chip = () => document.querySelector("[data-live-chip]");

function show(state, text) {
  const element = chip();
  if (!element) return;
  element.hidden = false;
  element.dataset.l = state;
  element.textContent = text;
}

// Reads a page as a document, whose scripts do not run.
function read(address) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("GET", address);
    request.responseType = "document";
    request.timeout = 15000;
    request.onload = () => {
      if (new URL(request.responseURL).pathname.endsWith("/sign-in")) reject(SIGNED_OUT);
      else if (request.status === 200 && request.response) resolve(request.response);
      else reject(request);
    };
    request.onerror = request.ontimeout = () => reject(request);
    request.send();
  });
}

function isDisturbed(element) {
  const selection = document.getSelection();
  const selected = selection && !selection.isCollapsed && selection.containsNode(element, true);
  return selected || element.contains(document.activeElement) || document.querySelector("dialog[open]") !== null;
}

// Times differ in each answer; a part has changed if anything else has.
function essence(element) {
  const copy = element.cloneNode(true);
  for (const each of copy.querySelectorAll("time, [data-since]")) each.textContent = "";
  for (const each of copy.querySelectorAll("details")) each.removeAttribute("open");
  for (const each of copy.querySelectorAll("[data-copy]")) each.removeAttribute("hidden");
  return copy.innerHTML.replace(/\s+/g, " ");
}

function replaceContents(old, fresh) {
  const chosen = new Set([...old.querySelectorAll("input:checked")].map((each) => each.value));
  const open = new Map([...old.querySelectorAll("details[id]")].map((each) => [each.id, each.open]));
  old.replaceChildren(...[...fresh.childNodes].map((each) => document.importNode(each, true)));
  for (const each of old.querySelectorAll("details[id]")) {
    if (open.has(each.id)) each.open = open.get(each.id);
  }
  for (const each of old.querySelectorAll("input[type=checkbox]")) each.checked = chosen.has(each.value);
  for (const each of old.querySelectorAll("[data-copy]")) each.hidden = !navigator.clipboard;
  document.dispatchEvent(new Event("leasehold:patched"));
}

function patchParts(page) {
  for (const old of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(old.id);
    if (fresh && essence(old) !== essence(fresh) && !isDisturbed(old)) replaceContents(old, fresh);
  }
}

function patchRows(page) {
  const fresh = new Map([...page.querySelectorAll("#rows tr[data-key]")].map((row) => [row.dataset.key, row]));
  const seen = new Set();
  for (const row of document.querySelectorAll("#rows tr[data-key]")) {
    seen.add(row.dataset.key);
    const other = fresh.get(row.dataset.key);
    if (other && essence(row) !== essence(other) && !isDisturbed(row)) {
      replaceContents(row, other);
      row.classList.remove("flash");
      requestAnimationFrame(() => row.classList.add("flash"));
    }
  }
  const arrived = [...fresh.keys()].filter((key) => !seen.has(key)).length;
  const pill = document.getElementById("new-rows");
  pill.hidden = arrived === 0;
  const text = `${arrived} new · show`;
  if (arrived && pill.firstElementChild.textContent !== text) pill.firstElementChild.textContent = text;
}

export async function look() {
  const page = await read(location.href);
  patchParts(page);
  if (document.querySelector("[data-live-rows]")) patchRows(page);
  return page.querySelector("[data-live-page], [data-live-rows]") !== null;
}

export function startLive() {
  const isList = document.querySelector("[data-live-rows]") !== null;
  if (!isList && !document.querySelector("[data-live-page]")) return;
  let failed = 0;
  show("live", "Live");
  const again = async () => {
    if (document.hidden) {
      document.addEventListener("visibilitychange", again, { once: true });
      return;
    }
    try {
      const goesOn = await look();
      failed = 0;
      show("live", "Live");
      if (!goesOn) {
        chip()?.remove();
        return;
      }
    } catch (reason) {
      if (reason === SIGNED_OUT) {
        show("lost", "Signed out");
        return;
      }
      failed += 1;
      show("lost", "Not connected");
    }
    setTimeout(again, Math.min((isList ? LIST : PAGE) * 2 ** failed, 60000));
  };
  setTimeout(again, isList ? LIST : PAGE);
}
