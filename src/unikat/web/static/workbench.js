// The few things that htmx does not do: go on to the result, add a rule, find a dropped file,
// and give the report its full height.
"use strict";

document.addEventListener("htmx:sseClose", (event) => {
  const after = event.target.dataset.after;
  if (after && event.detail.type === "message") {
    window.location.assign(after);
  }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-into]");
  if (!button) {
    return;
  }
  // Without this script the form is sent, and the server adds the rule.
  event.preventDefault();
  const text = document.getElementById(button.dataset.into);
  const lines = text.value.split("\n").filter((line) => line.trim());
  if (!lines.includes(button.value)) {
    text.value = [...lines, button.value].join("\n");
    text.dispatchEvent(new Event("input", { bubbles: true }));
    text.dispatchEvent(new Event("change", { bubbles: true }));
  }
  button.disabled = true;
});

// What was typed or chosen before the scripts were there is followed, too.
const isTouched = (field) => {
  if (field.options) {
    const options = [...field.options];
    return options.some((one) => one.defaultSelected)
      ? options.some((one) => one.selected !== one.defaultSelected)
      : field.selectedIndex > 0;
  }
  return field.checked !== field.defaultChecked || field.value !== field.defaultValue;
};
document.addEventListener("DOMContentLoaded", () => {
  for (const field of document.querySelectorAll("form input, form select, form textarea")) {
    if (isTouched(field)) {
      field.dispatchEvent(new Event("input", { bubbles: true }));
      field.dispatchEvent(new Event("change", { bubbles: true }));
    }
  }
});

// An answer to a part of the page that newer numbers have replaced would replace these.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (!document.contains(event.detail.requestConfig.elt)) {
    event.detail.shouldSwap = false;
  }
});

// What is chosen in the list of the frontier stays so when an answer on its way draws it again.
let plan = "";
document.addEventListener("change", (event) => {
  if (event.target.id === "plan") {
    plan = event.target.value;
  }
});
document.addEventListener("htmx:load", () => {
  const list = document.getElementById("plan");
  if (list && [...list.options].some((one) => one.value === plan)) {
    list.value = plan;
  }
});

// A slider says at once where it stands, in words; the numbers follow.
document.addEventListener("input", (event) => {
  const { target } = event;
  if (target.type === "range" && target.list) {
    const { label } = target.list.options[Number(target.value)];
    target.setAttribute("aria-valuetext", label);
    document.getElementById(`${target.id}-words`).value = label;
  }
});

// What is ticked is counted at once.
document.addEventListener("change", (event) => {
  const form = event.target.form;
  const told = form && form.querySelector("[data-ticked]");
  if (told && event.target.name === "tick") {
    const ticked = [...form.querySelectorAll("[name=tick]:checked")];
    const counts = ticked.map((one) => Number(one.dataset.records.replace(/[.,\s]/g, "")));
    const n = counts.reduce((sum, one) => sum + one, 0);
    const written = n.toLocaleString(document.documentElement.lang);
    const records = Number.isNaN(n) ? "" : told.dataset.with.replace("{n}", written);
    told.value = ticked.length ? told.dataset.ticked.replace("{n}", ticked.length) + records : "";
  }
});

// Branches of a tree that were open stay open when the part of the page is replaced.
document.addEventListener("htmx:beforeSwap", (event) => {
  const open = [...document.querySelectorAll("details[id][open]")].map((one) => one.id);
  document.addEventListener("htmx:afterSwap", () => {
    for (const id of open) {
      const one = document.getElementById(id);
      if (one) {
        one.open = true;
      }
    }
  }, { once: true });
});

// A browser does not tell where a dropped file lies, so its name and size are looked for.
const place = document.querySelector("[data-find]");
if (place) {
  const mark = (on) => document.body.classList.toggle("dropping", on);
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    mark(true);
  });
  document.addEventListener("dragleave", (event) => mark(event.relatedTarget !== null));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    mark(false);
    const file = event.dataTransfer.files[0];
    if (file) {
      const query = new URLSearchParams({ name: file.name, size: file.size });
      window.location.assign(`${place.dataset.find}?${query}`);
    }
  });
}

for (const frame of document.querySelectorAll("iframe.report")) {
  const fit = () => {
    const page = frame.contentDocument && frame.contentDocument.documentElement;
    if (page) {
      // Styles that a script sets are allowed where inline ones are not.
      // Not scrollHeight, which is never less than the frame itself.
      frame.style.height = `${page.offsetHeight + 4}px`;
    }
  };
  const watch = () => {
    fit();
    if (frame.contentDocument && frame.contentDocument.body) {
      new ResizeObserver(fit).observe(frame.contentDocument.body);
    }
  };
  frame.addEventListener("load", watch);
  if (frame.contentDocument && frame.contentDocument.readyState === "complete") {
    watch();
  }
}
