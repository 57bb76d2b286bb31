// Suggests the names and values of filters for the word under the caret.
const MOST = 8;

export function startCompletion() {
  for (const input of document.querySelectorAll("input[data-complete]")) complete(input);
}

function complete(input) {
  const known = JSON.parse(input.dataset.complete);
  const list = document.createElement("ul");
  list.id = `${input.id}-list`;
  list.role = "listbox";
  list.ariaLabel = "Filters";
  list.hidden = true;
  input.after(list);
  input.role = "combobox";
  input.setAttribute("aria-controls", list.id);
  input.ariaExpanded = "false";
  input.ariaAutoComplete = "list";
  let chosen = -1;

  const word = () => {
    const before = input.value.slice(0, input.selectionStart);
    return before.slice(before.lastIndexOf(" ") + 1);
  };
  const suggestions = () => {
    const [name, value] = word().split(":");
    if (value === undefined) return Object.keys(known).filter((each) => each.startsWith(name)).map((each) => `${each}:`);
    const parts = value.split(",");
    const last = parts.pop();
    const begin = [name, parts.map((each) => `${each},`).join("")].join(":");
    return (known[name] ?? []).filter((each) => each.startsWith(last) && each !== last).map((each) => begin + each);
  };
  const close = () => {
    list.hidden = true;
    chosen = -1;
    input.ariaExpanded = "false";
    input.removeAttribute("aria-activedescendant");
  };
  const take = (text) => {
    const end = input.selectionStart;
    const begin = end - word().length;
    const space = text.endsWith(":") ? "" : " ";
    const value = text.includes(" ") ? text.replace(/:(.*)$/, ':"$1"') : text;
    input.setRangeText(value + space, begin, end, "end");
    close();
    if (!space) show();
  };
  const mark = (index) => {
    chosen = index;
    for (const [at, item] of [...list.children].entries()) item.ariaSelected = String(at === index);
    const item = list.children[index];
    if (item) {
      input.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    }
  };
  const show = () => {
    const found = suggestions().slice(0, MOST);
    list.replaceChildren(
      ...found.map((text, index) => {
        const item = document.createElement("li");
        item.id = `${list.id}-${index}`;
        item.role = "option";
        item.ariaSelected = "false";
        item.textContent = text;
        item.addEventListener("mousedown", (event) => {
          event.preventDefault();
          take(text);
        });
        return item;
      }),
    );
    list.hidden = found.length === 0;
    chosen = -1;
    input.ariaExpanded = String(!list.hidden);
  };
  input.addEventListener("input", show);
  input.addEventListener("focus", () => input.value === "" && show());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (list.hidden) {
      if (event.key === "ArrowDown") show();
      return;
    }
    const last = list.children.length - 1;
    if (event.key === "ArrowDown") mark(chosen >= last ? 0 : chosen + 1);
    else if (event.key === "ArrowUp") mark(chosen <= 0 ? last : chosen - 1);
    else if (event.key === "Escape") close();
    else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) take(list.children[chosen].textContent);
    else return;
    event.preventDefault();
  });
}
