"""Name the tests of what was changed, for `make check`.

A test file is named if it changed, or if it stands where a changed module stands and has its name,
imports it, uses its classes, or tests what all models promise; where there is none, all that stand
there are named. The rules of the house are always among them, and so are the fixed runs when
anything changed that computes.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
COMPUTES = {
    "kernels",
    "data",
    "language",
    "zeros",
    "models",
    "inference",
    "risk",
    "classics",
    "studies",
}


def changed(base: str) -> list[PurePosixPath]:
    """Files that differ from a commit, and those that are new."""
    found = []
    for asked in (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"]):
        done = subprocess.run(["git", *asked], cwd=ROOT, capture_output=True, text=True, check=True)
        found += done.stdout.splitlines()
    return sorted({PurePosixPath(name) for name in found if (ROOT / name).exists()})


def tests_of(files: list[PurePosixPath]) -> list[str]:
    """Name the test files of changed files, relative to the root."""
    named = {"tests/test_architecture.py"}
    for file in files:
        if file.parts[0] == "tests" and file.name.startswith("test_"):
            named.add(str(file))
        if file.parts[:2] == ("src", "unikat") and file.suffix == ".py":
            # The examples of the module itself.
            named |= {str(file), *tests_of_module(file)}
            if file.parts[2] in COMPUTES:
                named.add("tests/test_digests.py")
    return sorted(named)


def tests_of_module(file: PurePosixPath) -> set[str]:
    """Name the tests of a module: those of its folder, of which some may name it."""
    folder = ROOT.joinpath("tests", *file.parts[2:-1])
    while not folder.is_dir():
        folder = folder.parent
    here = sorted(folder.glob("test_*.py") if folder.name == "tests" else folder.rglob("test_*.py"))
    room, module = ".".join(("unikat", *file.parts[2:-1])), file.stem
    public = "|".join(re.findall(r"^class ([A-Z]\w+)", (ROOT / file).read_text("utf-8"), re.M))
    uses = re.compile(
        rf"from {re.escape(room)} import [^\n]*\b{module}\b|{re.escape(room)}\.{module}\b"
        + (rf"|\b({public})\b" if public else "")
        # What all models promise.
        + (r"|\bmodels\.contract\b" if file.parts[2] == "models" else "")
    )
    about = [test for test in here if test.stem == f"test_{module}"]
    about += [test for test in here if uses.search(test.read_text("utf-8"))]
    return {test.relative_to(ROOT).as_posix() for test in about or here}


if __name__ == "__main__":
    print(*tests_of(changed(os.environ.get("BASE", "HEAD"))))
