"""The examples of the documentation: found on a page, and run in its order.

A page is Markdown. Its fenced blocks are examples, and an HTML comment in the line before a block
says how it is run:

- ``python`` and ``sh`` blocks are run. `<!-- not run: reason -->` leaves a block out, and the
  reason is required.
- `<!-- limits: --max-sweeps 100 -->` appends options to the commands of a block, so that an example
  is quick. Commands that fit models get `LIMITS` in any case.
- `<!-- exit code: 1 -->` says that the commands of a block end with this code.
- `<!-- file: NAME -->` before a block of any language writes it to a file of this name.
- `<!-- output -->` before a ``text`` block says that it is what the block before prints;
  `<!-- output: about -->` allows numbers to differ by a fifth, or by five.
- ``r`` blocks are run by `tests/test_r.py`; `<!-- needs: PACKAGE -->` leaves one out where R has no
  such package.

The blocks of a page share one folder, which holds the files of `unikat.datasets.write_examples`,
and one Python namespace.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unikat.cli.main import main
from unikat.datasets import draw_sample, simulate_town

BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*?) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```",
    flags=re.MULTILINE | re.DOTALL,
)
NOTES = ("not run", "limits", "exit code", "file", "output", "needs")
LIMITS = ("--chains", "2", "--max-sweeps", "60", "--allow-unconverged", "--workers", "1")
"""For the commands that fit models, unless the example names the option itself."""
REPEATS = "2"
"""Samples of each size, in `evaluate`."""
SECONDS = "0.3"
"""Work on the evidence of `auto`."""
CANDIDATES = '["latent-class", "loglinear"]'


@dataclass(frozen=True)
class Example:
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    note: str
    value: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def examples(path: Path) -> list[Example]:
    """Return the fenced blocks of a page, in order."""
    text = path.read_text(encoding="utf-8")
    found = []
    for block in BLOCK.finditer(text):
        note, _, value = (block["note"] or "").partition(":")
        line = text.count("\n", 0, block.start()) + 1
        found.append(
            Example(path.name, line, block["language"], block["text"], note, value.strip())
        )
    return found


def demo_sample() -> Any:
    """Return a small sample of the demo's town, and the town's size."""
    town = simulate_town(5_000)
    return draw_sample(town, 0.05), len(town)


def run_page(path: Path, folder: Path, supplies: Path) -> None:
    """Run every example of a page in a folder, which is the current one.

    Raises
    ------
    AssertionError
        If an example fails, prints what the page does not say, or carries a comment that is not
        understood.
    """
    for file in supplies.iterdir():
        shutil.copy(file, folder)
    namespace: dict[str, Any] = {"__name__": path.stem.replace("-", "_")}
    printed = ""
    for example in examples(path):
        assert not example.note or example.note in NOTES, f"{example}: {example.note}?"
        if example.note == "not run":
            assert len(example.value.split()) >= 3, f"{example}: why is it not run?"
        elif example.note == "file":
            (folder / example.value).write_text(example.text, encoding="utf-8")
        elif example.note == "output":
            agree(example, printed)
        elif example.language == "python":
            printed = run_python(example, namespace)
        elif example.language == "sh":
            printed = "".join(run_command(example, words) for words in commands(example))


def run_python(example: Example, namespace: dict[str, Any]) -> str:
    """Run a block of Python in the page's namespace; return what it printed."""
    stream = io.StringIO()
    code = compile("\n" * example.line + example.text, example.page, "exec")
    with contextlib.redirect_stdout(stream):
        exec(code, namespace)
    return stream.getvalue()


def commands(example: Example) -> list[list[str]]:
    """Return the words of each command of a block."""
    lines = example.text.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.strip("# ")]


def run_command(example: Example, words: list[str]) -> str:
    """Run one command of the page in this process; return what it printed."""
    assert words[0] == "unikat", f"{example}: only unikat is run; say why this one is not"
    words = [*few_repeats(words[1:]), *limited(example, words)]
    stream, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(errors):
        code = main(words)
    expected = int(example.value) if example.note == "exit code" else 0
    told = stream.getvalue() + errors.getvalue()
    if not expected and "--allow-unconverged" in words and "Not known whether the limit" in told:
        # The run of a page is short, and nothing is known of its limit.
        expected = 3
    assert code == expected, f"{example}: unikat {shlex.join(words)}\nended with {code}\n{told}"
    return told if example.note == "exit code" else stream.getvalue()


def limited(example: Example, words: list[str]) -> list[str]:
    """Return the options that make a command quick."""
    if example.note == "limits":
        return shlex.split(example.value)
    fits = {"assess", "check", "compare", "evaluate", "protect", "synthesize", "verify"}
    if words[1] not in fits or {"--certificate", "--help", "--resume"} & set(words):
        return []
    added = []
    for option, value in options(LIMITS):
        if option not in words:
            added += [option, *value]
    if "--model" not in words and not words[2].endswith(".toml"):
        if words[1] == "assess":
            added += ["--set", f"evidence_seconds={SECONDS}", "--set", f"candidates={CANDIDATES}"]
        elif words[1] in {"check", "protect", "verify"}:
            # What `auto` does is on the pages of assessments.
            added += ["--model", "latent-class"]
    if words[1] == "evaluate" and "--repeats" not in words:
        added += ["--repeats", REPEATS]
    return [*added, "--overwrite"]


def few_repeats(words: list[str]) -> list[str]:
    """Return the words of a command with few samples of each size."""
    return [
        REPEATS if before == "--repeats" else word
        for before, word in zip(["", *words], words, strict=False)
    ]


def options(words: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """Return options with their values."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("--"):
            found.append((word, []))
        else:
            found[-1][1].append(word)
    return found


NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def agree(example: Example, printed: str) -> None:
    """Hold what the page says against what was printed."""
    if example.value != "about":
        assert printed == example.text, f"{example}: it printed\n{printed}"
        return
    said, found = (NUMBER.findall(text) for text in (example.text, printed))
    assert NUMBER.sub("#", example.text) == NUMBER.sub("#", printed), f"{example}:\n{printed}"
    for one, other in zip(said, found, strict=True):
        a, b = (float(text.replace(",", "")) for text in (one, other))
        assert abs(a - b) <= max(5.0, 0.2 * abs(a)), f"{example}: {one}, and it printed {other}"
