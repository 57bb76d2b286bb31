// Keeps a page up to date without disturbing its reader: nothing moves, and nothing changes that is selected, focused
// or open. New rows wait behind a button. A stream of events tells when to look; without it, pages poll.
import { follow } from "./stream.js";

const LIST = 5000;
const PAGE = 3000;
// While a stream is open, pages look now and then all the same: progress, and times of leases, are not told.
const CALM_LIST = 30000;
const CALM_PAGE = 5000;
const CALM = ["", "health"];
// Parts that were left alone, since their reader was at work there, are looked at again soon.
const LEFT_ALONE = 2000;
// A page may look at once so many times; after that, as often as it would poll.
const AT_ONCE = 3;
const BETWEEN_WORDS = 10000;
const SIGNED_OUT = Symbol("signed out");
const chip = () => document.querySelector("[data-live-chip]");

function show(state, text) {
  const element = chip();
  if (!element) return;
  element.hidden = false;
  element.dataset.l = state;
  if (element.textContent !== text) element.textContent = text;
}

// Tells people who can't see the page, at most every 10 s.
let toldAt = -BETWEEN_WORDS;
function tell(text) {
  let element = document.getElementById("live-words");
  if (!element) {
    element = document.createElement("p");
    element.id = "live-words";
    element.className = "sr";
    element.setAttribute("role", "status");
    document.querySelector("main").append(element);
  }
  if (performance.now() - toldAt < BETWEEN_WORDS || element.textContent === text) return;
  toldAt = performance.now();
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
  const open = new Map([...old.querySelectorAll("details[id]")].map((each) => [each.id, each.open]));
  const checked = new Map([...old.querySelectorAll("input[type=checkbox]")].map((each) => [each.value, each.checked]));
  old.replaceChildren(...[...fresh.childNodes].map((each) => document.importNode(each, true)));
  for (const each of old.querySelectorAll("details[id]")) {
    if (open.has(each.id)) each.open = open.get(each.id);
  }
  for (const each of old.querySelectorAll("input[type=checkbox]")) {
    if (checked.has(each.value)) each.checked = checked.get(each.value);
  }
  for (const each of old.querySelectorAll("[data-copy]")) each.hidden = !navigator.clipboard;
  document.dispatchEvent(new Event("leasehold:patched"));
}

// The strip under the header comes over the page, and stays when all is well: the page does not move.
function patchStrip(old, fresh) {
  if (!old.childElementCount) old.classList.add("over");
  if (fresh.childElementCount || old.classList.contains("over")) replaceContents(old, fresh);
  else old.firstElementChild.textContent = "All is well again.";
  return false;
}

// Returns whether a part that has changed was left alone.
function patch(old, fresh) {
  if (!fresh || essence(old) === essence(fresh)) return false;
  if (isDisturbed(old)) return true;
  if (old.id === "strip") return patchStrip(old, fresh);
  replaceContents(old, fresh);
  return false;
}

function patchParts(page) {
  return [...document.querySelectorAll("[data-live]")].filter((old) => patch(old, page.getElementById(old.id))).length > 0;
}

function patchRows(page) {
  const fresh = new Map([...page.querySelectorAll("#rows tr[data-key]")].map((row) => [row.dataset.key, row]));
  const seen = new Set();
  let isLeft = false;
  for (const row of document.querySelectorAll("#rows tr[data-key]")) {
    seen.add(row.dataset.key);
    const other = fresh.get(row.dataset.key);
    if (!other || essence(row) === essence(other)) continue;
    if (patch(row, other)) {
      isLeft = true;
      continue;
    }
    row.classList.remove("flash");
    requestAnimationFrame(() => row.classList.add("flash"));
  }
  const arrived = [...fresh.keys()].filter((key) => !seen.has(key)).length;
  const pill = document.getElementById("new-rows");
  pill.hidden = arrived === 0;
  const text = `${arrived} new · show`;
  if (arrived && pill.firstElementChild.textContent !== text) {
    pill.firstElementChild.textContent = text;
    tell(`${arrived} new`);
  }
  return isLeft;
}

// Reads the page again, and patches what has changed. Returns whether the page goes on, and what was left alone.
export async function look() {
  const page = await read(location.href);
  const parts = patchParts(page);
  const rows = document.querySelector("[data-live-rows]") !== null && patchRows(page);
  return { goesOn: page.querySelector("[data-live-page], [data-live-rows]") !== null, isLeft: parts || rows };
}

// Looks when it is told to, and by itself after a while; one look at a time.
class Looks {
  constructor(isList, isCalm) {
    this.between = isList ? LIST : PAGE;
    this.calm = isList || isCalm ? CALM_LIST : CALM_PAGE;
    this.isStreaming = false;
    this.isOver = false;
    this.failed = 0;
    this.timer = null;
    this.isLooking = false;
    this.isWanted = false;
    this.rest = AT_ONCE;
    this.restAt = performance.now();
    this.onOver = () => {};
  }

  get state() {
    return this.isStreaming ? ["live", "Live"] : ["polling", "Polling"];
  }

  wait(milliseconds) {
    clearTimeout(this.timer);
    if (!this.isOver && !document.hidden) this.timer = setTimeout(() => this.look(), milliseconds);
  }

  // Something has changed: a quiet page looks at once, a busy one as often as it would poll.
  want() {
    const now = performance.now();
    this.rest = Math.min(AT_ONCE, this.rest + (now - this.restAt) / this.between);
    this.restAt = now;
    if (this.isLooking) this.isWanted = true;
    else if (this.rest >= 1) this.look();
    else this.wait((1 - this.rest) * this.between);
  }

  async look() {
    if (this.isOver || this.isLooking || document.hidden) return;
    clearTimeout(this.timer);
    this.rest -= 1;
    this.isLooking = true;
    this.isWanted = false;
    let next = this.isStreaming ? this.calm : this.between;
    try {
      const { goesOn, isLeft } = await look();
      this.failed = 0;
      if (isLeft) next = Math.min(next, LEFT_ALONE);
      if (goesOn) show(...this.state);
      else {
        this.end();
        chip()?.remove();
      }
    } catch (reason) {
      if (reason === SIGNED_OUT) {
        this.end();
        show("lost", "Signed out");
      } else {
        this.failed += 1;
        next = Math.min(this.between * 2 ** this.failed, 60000);
        show("lost", "Not connected");
      }
    }
    this.isLooking = false;
    if (this.isWanted && !this.failed) this.want();
    else this.wait(next);
  }

  end() {
    this.isOver = true;
    clearTimeout(this.timer);
    this.onOver();
  }
}

// Returns whether news of the stream concern this page: any, or those of workers, or those of its job.
function concerns(news) {
  const page = document.querySelector("[data-live-page]");
  if (news.more || !page) return true;
  const about = page.dataset.livePage;
  if (about === "workers") return news.workers.length > 0;
  return !about || news.jobs.some((each) => each.id === about);
}

export function startLive() {
  const isList = document.querySelector("[data-live-rows]") !== null;
  const page = document.querySelector("[data-live-page]");
  if (!isList && !page) return;
  const address = document.querySelector("main").dataset.stream;
  const looks = new Looks(isList, CALM.includes(page?.dataset.livePage));
  show("live", "Live");
  const stream = follow(address, {
    opened() {
      looks.isStreaming = true;
      looks.want();
    },
    changed(news) {
      if (concerns(news)) looks.want();
    },
    broken(isFinal) {
      looks.isStreaming = false;
      if (!isFinal) show("paused", "Reconnecting");
      looks.wait(isFinal ? 0 : looks.between);
    },
  });
  looks.onOver = () => stream.end();
  looks.wait(looks.between);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) clearTimeout(looks.timer);
    else looks.wait(0);
  });
}
