// Follows the log of a job: shows new lines at the end, unless the reader has scrolled up.
const BETWEEN = 2000;
const SLOWEST = 60000;
const MOST_LINES = 2000;
// The session has ended, or may no longer read logs, or the job is gone: asking again does not help.
const FINAL = [401, 403, 404];

function element(line) {
  const row = document.createElement("div");
  row.className = "line";
  row.dataset.kind = line.kind;
  if (line.at) {
    const time = document.createElement("time");
    time.dateTime = line.at;
    time.title = line.at;
    time.textContent = line.at.slice(11, 19);
    row.append(time);
  }
  const text = document.createElement("span");
  for (const [words, classes] of line.parts) {
    const part = document.createElement("span");
    part.className = classes;
    part.textContent = words;
    text.append(classes ? part : words);
  }
  row.append(text);
  return row;
}

export function followLog() {
  const log = document.getElementById("log");
  if (!log) return;
  log.scrollTop = log.scrollHeight;
  if (log.dataset.ended === "yes") return;
  const follow = document.getElementById("follow");
  const more = document.getElementById("more-lines");
  let after = log.dataset.after;
  let unseen = 0;
  let failed = 0;
  follow.closest("label").hidden = false;

  const isAtEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 24;
  const showMore = () => {
    more.parentElement.hidden = unseen === 0;
    more.textContent = `↓ ${unseen} new ${unseen === 1 ? "line" : "lines"}`;
  };
  const goToEnd = () => {
    unseen = 0;
    showMore();
    log.scrollTop = log.scrollHeight;
  };
  log.addEventListener("scroll", () => {
    follow.checked = isAtEnd();
    if (follow.checked) goToEnd();
  });
  follow.addEventListener("change", () => follow.checked && goToEnd());
  more.addEventListener("click", () => {
    follow.checked = true;
    goToEnd();
  });

  // Removes the oldest lines; those that the reader sees stay where they are.
  const trim = () => {
    const lines = log.querySelectorAll(".line");
    if (lines.length <= MOST_LINES) return;
    const before = log.scrollHeight;
    for (const line of [...lines].slice(0, lines.length - MOST_LINES)) line.remove();
    if (!log.querySelector(".cut")) {
      const note = document.createElement("div");
      note.className = "cut";
      note.textContent = "earlier lines are in the download";
      log.prepend(note);
    }
    if (!follow.checked) log.scrollTop -= before - log.scrollHeight;
  };

  const look = async () => {
    const address = new URL(log.dataset.lines, location.href);
    if (after) address.searchParams.set("after", after);
    const answer = await fetch(address, { headers: { Accept: "application/json" } });
    if (FINAL.includes(answer.status)) return true;
    if (!answer.ok) throw new Error(answer.status);
    const page = await answer.json();
    if (page.lines.length) {
      document.getElementById("no-lines")?.remove();
      log.append(...page.lines.map(element));
      trim();
      unseen += follow.checked ? 0 : page.lines.length;
      if (follow.checked) log.scrollTop = log.scrollHeight;
      else showMore();
    }
    after = page.next;
    return page.ended;
  };
  const again = async () => {
    if (document.hidden) {
      document.addEventListener("visibilitychange", again, { once: true });
      return;
    }
    try {
      if (await look()) return;
      failed = 0;
    } catch {
      failed += 1;
    }
    setTimeout(again, Math.min(BETWEEN * 2 ** failed, SLOWEST));
  };
  setTimeout(again, BETWEEN);
}
