"""Where text and figures of a page lie, measured in a headless Chromium.

All pages at all widths are frames of one page, which measures them: one start of the browser. A
frame takes over no policy but its own, and that one allows no script; the outer page has the only.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

WIDTHS = (320, 360, 400, 600, 800, 1280)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

_MEASURE = """
const OFF = 0.6;  // Half a pixel is rounding.
function spoken(text) {
  return [...text.childNodes].filter(n => n.nodeType === 3).map(n => n.data).join("");
}
function measure(frame) {
  const doc = frame.contentDocument, root = doc.documentElement;
  const wrong = [], words = [];
  let figures = 0, smallest = Infinity;
  for (const folded of doc.querySelectorAll("details")) folded.open = true;
  if (root.scrollWidth > root.clientWidth)
    wrong.push(`the page is ${root.scrollWidth} wide, the window ${root.clientWidth}`);
  for (const svg of doc.querySelectorAll("svg")) {
    const box = svg.getBoundingClientRect();
    if (!box.width) continue;
    figures += 1;
    if (!svg.closest("[tabindex]") && (box.left < -OFF || box.right > root.clientWidth + OFF))
      wrong.push(`a figure from ${box.left} to ${box.right}`);
    const inside = (r, what) => {
      if (r.left < box.left - OFF || r.right > box.right + OFF ||
          r.top < box.top - OFF || r.bottom > box.bottom + OFF)
        wrong.push(`cut: ${what}: ${[r.left, r.top, r.right, r.bottom].map(Math.round)} in ` +
                   `${[box.left, box.top, box.right, box.bottom].map(Math.round)}`);
    };
    const placed = [];
    for (const text of svg.querySelectorAll("text")) {
      const r = text.getBoundingClientRect(), said = spoken(text);
      if (!r.width) { wrong.push(`hidden: ${said}`); continue; }
      inside(r, said);
      words.push(said);
      const scale = text.getScreenCTM().a;
      smallest = Math.min(smallest, scale * parseFloat(getComputedStyle(text).fontSize));
      for (const [other, words] of placed)
        if (Math.min(r.right, other.right) - Math.max(r.left, other.left) > OFF &&
            Math.min(r.bottom, other.bottom) - Math.max(r.top, other.top) > OFF)
          wrong.push(`overlap: ${said} and ${words}`);
      placed.push([r, said]);
    }
    for (const mark of svg.querySelectorAll("rect, line, circle, path"))
      inside(mark.getBoundingClientRect(), mark.outerHTML.slice(0, 120));
  }
  return {figures, smallest, words: words.join(" ").replace(/\\s+/g, " "), wrong};
}
addEventListener("load", () => {
  const found = {};
  for (const frame of document.querySelectorAll("iframe")) found[frame.id] = measure(frame);
  document.getElementById("found").textContent = JSON.stringify(found);
});
"""


def executable() -> str:
    """Path of the browser; the test is skipped where there is none."""
    for name in _NAMES:
        if found := shutil.which(name):
            return found
    pytest.skip(f"No Chromium on this machine (looked for {', '.join(_NAMES)})")


def run(folder: Path, *arguments: str) -> str:
    """What a headless Chromium says; it reaches no network."""
    command = [
        executable(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--host-resolver-rules=MAP * ~NOTFOUND", "--disable-dev-shm-usage",
        f"--user-data-dir={folder / 'profile'}", *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout


def layout(
    pages: Mapping[str, str], folder: Path, widths: Sequence[int] = WIDTHS
) -> dict[str, dict[str, Any]]:
    """Measure pages at widths of the window.

    Returns
    -------
    dict
        By page and width, as `report at 320`: `figures`, how many are seen; `smallest`, the size
        of the smallest text in them, in pixels; `words`, all their text; `wrong`, what is cut,
        hidden or overlaps, each in a line.
    """
    frames = [
        f'<iframe id="{name} at {width}" width="{width}" height="600" style="border:0" '
        f'srcdoc="{escape(page)}"></iframe>'
        for name, page in pages.items()
        for width in widths
    ]
    outer = folder / "outer.html"
    outer.write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><script>{_MEASURE}</script>{"".join(frames)}'
        '<pre id="found"></pre>',
        encoding="utf-8",
    )
    dom = run(folder, "--dump-dom", "--virtual-time-budget=20000", outer.as_uri())
    said = re.search(r'<pre id="found">(.*?)</pre>', dom, flags=re.DOTALL)
    assert said is not None, dom[-500:]
    found: dict[str, dict[str, Any]] = json.loads(unescape(said[1]))
    return found


def assert_sound(found: Mapping[str, Mapping[str, Any]], figures: int) -> None:
    """No text of a figure is cut, hidden, too small or under another, at any width."""
    wrong = [f"{where}: {one}" for where, one_page in found.items() for one in one_page["wrong"]]
    assert not wrong, "\n".join(wrong[:60])
    assert {where: page["figures"] for where, page in found.items()} == dict.fromkeys(
        found, figures
    )
    small = {where: page["smallest"] for where, page in found.items() if page["smallest"] < 9.5}
    assert not small
