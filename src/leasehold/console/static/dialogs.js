// Shows the page of an action in a dialog. Without it, or if it can't be read, the link leads to that page.
function read(address) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("GET", address);
    request.responseType = "document";
    request.onload = () => resolve(request.status === 200 && request.response?.getElementById("confirm"));
    request.onerror = reject;
    request.send();
  });
}

async function open(link) {
  const content = await read(link.href).catch(() => null);
  if (!content) {
    location.assign(link.href);
    return;
  }
  const dialog = document.createElement("dialog");
  const section = document.importNode(content, true);
  dialog.append(section);
  dialog.setAttribute("aria-label", section.querySelector("h1").textContent);
  document.body.append(dialog);
  dialog.addEventListener("close", () => {
    dialog.remove();
    document.querySelector(`a[data-dialog][href="${CSS.escape(link.getAttribute("href"))}"]`)?.focus();
    if (link.isConnected) link.focus();
  });
  dialog.addEventListener("submit", (event) => {
    if (dialog.dataset.sent) event.preventDefault();
    dialog.dataset.sent = "yes";
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-close]")) {
      event.preventDefault();
      dialog.close();
    }
  });
  dialog.showModal();
}

export function startDialogs() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-dialog]");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    open(link);
  });
}
