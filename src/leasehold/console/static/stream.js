// Follows the stream of changes while its page is visible. A stream that is refused, or breaks soon, twice in a row, is
// left alone for a minute: until then `broken(true)` says that the page has to poll.
const AGAIN = 2000;
const LATER = 60000;
const LASTS = 10000;
const FAILURES = 2;

export function follow(address, { opened, changed, broken }) {
  let source = null;
  let timer = null;
  let failed = 0;
  let isOver = false;

  const close = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  const open = () => {
    close();
    if (isOver || document.hidden) return;
    let openedAt = null;
    source = new EventSource(address);
    source.addEventListener("reload", () => {
      openedAt ??= performance.now();
      opened();
    });
    source.addEventListener("changed", (event) => changed(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      if (openedAt !== null && performance.now() - openedAt > LASTS) failed = 0;
      failed += 1;
      const isFinal = failed >= FAILURES;
      close();
      // Spread, so that all pages do not come back to a server at the same moment.
      timer = setTimeout(open, (isFinal ? LATER : AGAIN) * (0.5 + Math.random()));
      broken(isFinal);
    });
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && open());
  open();
  return {
    end() {
      isOver = true;
      close();
    },
  };
}
