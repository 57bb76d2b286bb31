// Keeps relative times and running durations true while a page is open.
const UNITS = [[86400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]];

function rough(seconds) {
  for (const [size, name] of UNITS) if (seconds >= size) return `${Math.floor(seconds / size)}${name}`;
  return `${Math.floor(seconds)}s`;
}

function ago(moment, now) {
  const away = (now - moment) / 1000;
  if (Math.abs(away) < 1) return "just now";
  return away > 0 ? `${rough(away)} ago` : `in ${rough(-away)}`;
}

function span(seconds) {
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  for (const [size, name, small, lesser] of UNITS) {
    if (seconds >= size) {
      const rest = Math.floor((seconds % size) / small);
      return `${Math.floor(seconds / size)}${name}` + (rest ? ` ${rest}${lesser}` : "");
    }
  }
  return `${Math.round(seconds)} s`;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function startTimes() {
  setInterval(() => {
    const now = Date.now();
    for (const each of document.querySelectorAll("time[title]")) {
      if (!each.closest(".log")) write(each, ago(Date.parse(each.dateTime), now));
    }
    for (const each of document.querySelectorAll("[data-since]")) {
      write(each, span(Math.max(0, (now - Date.parse(each.dataset.since)) / 1000)));
    }
  }, 1000);
}
