"""The gallery of the documentation: figures and tables of all reports, from runs made here.

    python benchmarks/gallery.py [--runs FOLDER]      # or: make gallery

The runs are on small samples of the simulated town, with few sweeps: their numbers show how to read
a figure, and are no results. The worked example of a figure is what the figure itself says to who
cannot see it, so it agrees with the picture; that of a table is the table. The other four parts
stand in docs/gallery/parts.toml. A figure or table without an entry there, and an entry that no
report has, end the program.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

from bs4 import BeautifulSoup, Tag

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from unikat import datasets  # noqa: E402
from unikat.cli.main import main as unikat  # noqa: E402
from unikat.report.pages.colours import style  # noqa: E402

PAGES = ROOT / "docs" / "gallery"
IMAGES = ROOT / "docs" / "images" / "gallery"
KEYS = "age:width(5),sex,education,region"
FEW = ("--chains", "2", "--workers", "1", "--allow-unconverged")
RUNS: dict[str, tuple[str, str, str]] = {
    "assess": (
        "The report of an assessment",
        "report.html",
        f"assess survey.csv --keys {KEYS} --population-size 3000 --max-sweeps 400 --classics "
        "--sensitive illness --by tenure --registry patients.csv "
        '--set candidates=["latent-class","loglinear"] --set evidence_seconds=1',
    ),
    "compare": (
        "The page of a comparison",
        "comparison.html",
        f"compare survey.csv --keys {KEYS} --population-size 3000 "
        "--models latent-class,loglinear,skinner-holmes --max-sweeps 200",
    ),
    "evaluate": (
        "The page of an evaluation",
        "evaluation.html",
        f"evaluate census.parquet --keys {KEYS} --n 150,300 --repeats 3 "
        "--models latent-class,skinner-holmes --max-sweeps 150",
    ),
    "protect": (
        "The report of a protection",
        "report.html",
        f"protect survey.csv --keys {KEYS} --population-size 3000 --model latent-class "
        "--target tau1_estimate<=4 --max-sweeps 200",
    ),
    "verify": (
        "The report of a verification",
        "report.html",
        "verify survey.csv protect/protected.csv --keys age,sex,education,region "
        "--population-size 3000 --model latent-class --max-sweeps 200",
    ),
    "check": (
        "The report of a check",
        "report.html",
        "check protect/protected.csv --policy policy.toml",
    ),
    "synthesize": (
        "The page of a synthesis",
        "synthesis.html",
        f"synthesize survey.csv --keys {KEYS} --datasets 2 --max-sweeps 200",
    ),
    "attack": (
        "The page of attacks",
        "attack.html",
        "attack survey.csv --synthetic synthetic.csv --control control.csv "
        "--keys age,sex,education,region",
    ),
}
"""Of each page of the gallery: its title, the report, and the command that makes it."""
POLICY = """schema = "unikat.policy/1"
[[scenario]]
name = "anybody"
keys = ["age", "sex", "region"]
target = ["k >= 2"]
"""
OF_THE_MACHINE = ("Program", "Started", "Time", "Mean time")
"""Rows that a table does not show here."""
WIDTHS = ("wide", "narrow")
SHOWN_ROWS = 6
"""Rows of a table that the gallery shows."""


class Part(NamedTuple):
    """A figure or a table of a report."""

    caption: str
    markdown: str
    """The picture, or the rows."""
    example: str


def run(folder: Path) -> None:
    """Make the runs that are not there."""
    datasets.write_examples(folder)
    (folder / "policy.toml").write_text(POLICY, encoding="utf-8")
    os.chdir(folder)
    for name, (_, report, command) in RUNS.items():
        if (folder / name / report).is_file():
            continue
        few = FEW if name not in ("attack", "check") else ()
        code = unikat([*command.split(), *few, "--out", name, "--overwrite", "--quiet"])
        # A limit that is not met, or not known of a short run, is a result too.
        if code not in (0, 3):
            raise SystemExit(f"unikat {command} ended with {code}")


def parts_of(page: Path, name: str) -> list[Part]:
    """Take the figures and tables of a report, in its order."""
    found: list[Part] = []
    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    for one in soup.find_all(["figure", "table"]):
        said = one.find("figcaption" if one.name == "figure" else "caption")
        around = one.find_parent(class_="scroll")
        label = str(around.get("aria-label", "")) if around else ""
        caption = " ".join(said.get_text().split()) if said else label
        if not caption or caption in [part.caption for part in found]:
            continue
        if one.name == "table":
            found.append(Part(caption, *table(one)))
            continue
        drawn = [svg for svg in one.find_all("svg") if isinstance(svg, Tag)]
        texts = drawn[0].find_all(["title", "desc"], limit=2)
        words = [" ".join(text.get_text().split()) for text in texts]
        pictures = []
        # As in the report there is one for pages and one for phones.
        for svg, width in zip(drawn, WIDTHS, strict=False):
            file = f"{name}-{len(found) + 1}-{width}.svg"
            (IMAGES / file).write_text(standalone(svg), encoding="utf-8")
            alt = f":alt: {words[0]}\n:class: {width}"
            pictures.append(f"```{{image}} ../images/gallery/{file}\n{alt}\n```")
        spoken = ": ".join(part for part in words if part)
        found.append(Part(caption, "\n\n".join(pictures), spoken))
    return found


def standalone(drawn: Tag) -> str:
    """Write a figure of a page as a file of its own, with the colours of pages."""
    rules = (ROOT / "src/unikat/report/pages/templates/figure.css.j2").read_text(encoding="utf-8")
    chains = "".join(
        f".unikat .chain-{i} {{ stroke: var(--chain{i}); }} .unikat .dot-{i} "
        f"{{ fill: var(--chain{i}); }}\n"
        for i in range(8)
    )
    rules = re.sub(r"{% for.*endfor %}", chains, rules, flags=re.DOTALL)
    box = str(drawn.get("viewbox") or drawn.get("viewBox"))
    width, height = box.split()[2:]
    inner = "".join(str(part) for part in drawn.contents)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" width="{width}" '
        f'height="{height}"><style>{style()}\n{rules}</style>'
        '<rect width="100%" height="100%" fill="var(--paper)"/>'
        f'<g class="unikat">{inner}</g></svg>\n'
    )


def table(one: Tag) -> tuple[str, str]:
    """Write a table of a page as Markdown, of long ones the first rows; and its first row in words.

    What differs from run to run and from machine to machine is left out.
    """
    rows = [
        [
            " ".join(cell.get_text(" ").split()).replace("|", "/")
            for cell in row.find_all(["th", "td"])
        ]
        for row in one.find_all("tr")
    ]
    rows = [row for row in rows if row and row[0] not in OF_THE_MACHINE]
    if one.find("thead") is None:
        rows = [["", ""], *rows]
    width = max(map(len, rows))
    rows = [[*row, *[""] * (width - len(row))] for row in rows]
    more = len(rows) - 1 - SHOWN_ROWS
    lines = ["| " + " | ".join(row) + " |" for row in rows[: SHOWN_ROWS + 1]]
    lines.insert(1, "|" + "---|" * width)
    head, first = rows[:2]
    values = [f"{name} {value}".strip() for name, value in zip(head, first, strict=True) if value]
    said = f"{values[0]}: {'; '.join(values[1:6])}." if len(values) > 1 else f"{values[0]}."
    return "\n".join(lines + ([f"\nand {more} more rows."] if more > 0 else [])), said


def written(name: str, said: dict[str, list[str]], folder: Path) -> tuple[str, set[str]]:
    """Write a page of the gallery; also the entries that it used."""
    title, report, command = RUNS[name]
    words = shlex.join(command.split()).replace(" --", "\0--").split("\0")
    quoted = " \\\n    ".join([" ".join(words[:2]), *words[2:]])
    lines = [
        "<!-- Written by benchmarks/gallery.py from parts.toml: do not edit. -->",
        f"# {title}",
        "",
        f"`{report}` of `unikat {name}`, on the simulated town, with few sweeps: the numbers show "
        "how to read, and are no results.",
        "",
        "<!-- not run: the gallery is made by its own program -->",
        "```sh",
        f"unikat {quoted}",
        "```",
        "",
    ]
    used = set()
    for part in parts_of(folder / name / report, name):
        entry = max((key for key in said if part.caption.startswith(key)), key=len, default=None)
        if entry is None:
            raise SystemExit(f"parts.toml has no entry for {name}: {part.caption!r}")
        used.add(entry)
        heading, glance, shows, read, do = said[entry]
        lines += [f"## {heading}", "", glance, ""]
        lines += [part.markdown, "", f"**What it shows.** {shows}", ""]
        lines += [f"**How to read it.** {read}", "", f"**What to do.** {do}", ""]
        lines += [f"**Worked example.** {part.example}", ""]
    return "\n".join(lines).rstrip() + "\n", used


def main() -> None:
    """Make the runs, and write the pages and pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, help="folder of the runs; those there are taken")
    parser.add_argument("--list", action="store_true", help="print captions, and write nothing")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (asked.runs or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        run(folder)
        IMAGES.mkdir(parents=True, exist_ok=True)
        if asked.list:
            for name, (_, report, _) in RUNS.items():
                for part in parts_of(folder / name / report, name):
                    print(name, "|", part.caption, "|", part.example[:200])
            return
        for old in IMAGES.glob("*.svg"):
            old.unlink()
        said = tomllib.loads((PAGES / "parts.toml").read_text(encoding="utf-8"))
        used: set[str] = set()
        for name in RUNS:
            entries = {**said.get("shared", {}), **said.get(name, {})}
            text, there = written(name, entries, folder)
            (PAGES / f"{name}.md").write_text(text, encoding="utf-8")
            used |= there
        every = {key for entries in said.values() for key in entries}
        if stale := sorted(every - used):
            raise SystemExit(f"no report has {stale}; strike these entries of parts.toml")


if __name__ == "__main__":
    main()
