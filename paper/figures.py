"""Brings the figures of `paper.md` up to date with the leaderboard: `python paper/figures.py`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| `([\w-]+)`(?: \[[^|]*)? *\|.*$", re.M)


def updated(text: str, page: str) -> str:
    """Return the text of the paper with the figures of the page."""
    simple = page[page.index("## Simple random") : page.index("## Whole households")]
    known = {found[1]: found[0].split("|") for found in ROW.finditer(simple)}

    def row(found: re.Match[str]) -> str:
        name, figures = found[0].split("|")[1], known[found[1]]
        return f"|{name}|{figures[2]}|{figures[4]}|"

    text = ROW.sub(row, text)
    return re.sub(r"off by [\d.]+%", f"off by {known['clairvoyant'][2].strip()}", text)


if __name__ == "__main__":
    paper = ROOT / "paper" / "paper.md"
    page = (ROOT / "docs" / "leaderboard.md").read_text("utf-8")
    paper.write_text(updated(paper.read_text("utf-8"), page), encoding="utf-8")
