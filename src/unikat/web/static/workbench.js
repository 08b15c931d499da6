// The few things that htmx does not do: go on to the result, and give the report its full height.
"use strict";

document.addEventListener("htmx:sseClose", (event) => {
  const after = event.target.dataset.after;
  if (after && event.detail.type === "message") {
    window.location.assign(after);
  }
});

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
