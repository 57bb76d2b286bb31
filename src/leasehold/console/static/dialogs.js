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

// The address of a link, or of a button whose form asks for a page.
function addressOf(opener) {
  if (opener.href) return opener.href;
  const address = new URL(opener.formAction);
  address.search = new URLSearchParams(new FormData(opener.form)).toString();
  return address.href;
}

async function open(link) {
  const address = addressOf(link);
  const content = await read(address).catch(() => null);
  if (!content) {
    location.assign(address);
    return;
  }
  const dialog = document.createElement("dialog");
  const section = document.importNode(content, true);
  dialog.append(section);
  dialog.setAttribute("aria-label", section.querySelector("h1").textContent);
  document.body.append(dialog);
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (link.href) document.querySelector(`a[data-dialog][href="${CSS.escape(link.getAttribute("href"))}"]`)?.focus();
    if (link.isConnected) link.focus();
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
  // A form that changes something is sent once, however often its button is clicked.
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "yes";
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-dialog], button[data-dialog]");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    open(link);
  });
}
