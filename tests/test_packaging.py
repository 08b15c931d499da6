"""What is declared is what is used: dependencies, pins, versions, public names."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import unikat
from test_architecture import PACKAGE, imports

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


OPTIONAL = (
    "web",
    "stat",
    "spreadsheet",
    "word",
    "r",
    "cart",
    "link",
    "polars",
    "postgres",
    "dask",
    "ray",
    "mpi",
    "cuda",
)


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


def test_every_import_is_declared():
    readers = [line for name in OPTIONAL for line in EXTRAS[name]]
    declared = names(PROJECT["dependencies"] + readers)
    used = {
        name.partition(".")[0]
        for path in PACKAGE.rglob("*.py")
        for _, name in imports(ast.parse(path.read_text(encoding="utf-8")), "unikat")
    }
    outside = {canonicalize_name(name) for name in used - sys.stdlib_module_names - {"unikat"}}
    # IPython, ArviZ and Altair are used where they are, and not looked for. python-docx is docx,
    # scikit-learn is sklearn.
    assert {"python-docx", "scikit-learn"} <= declared
    assert outside - declared == {"altair", "arviz", "ipython", "docx", "sklearn"}


def test_every_requirement_is_pinned_within_its_range():
    for line in PROJECT["dependencies"] + [line for extra in EXTRAS.values() for line in extra]:
        wanted = Requirement(line)
        pins = [pin for pin in PINS if canonicalize_name(pin.name) == wanted.name]
        assert pins, f"{wanted.name} has no pin in constraints.txt"
        for pin in pins:
            (version,) = pin.specifier
            assert version.operator == "=="
            assert wanted.specifier.contains(version.version), f"{pin} is outside of {wanted}"


def test_every_dependency_of_a_dependency_is_pinned():
    pinned = {canonicalize_name(pin.name) for pin in PINS}
    open_, seen = [("unikat", frozenset(EXTRAS))], set()
    while open_:
        name, extras = open_.pop()
        for line in _requirements(name):
            needed = Requirement(line)
            marker = needed.marker
            if marker and not any(marker.evaluate({"extra": e}) for e in extras | {""}):
                continue
            step = (canonicalize_name(needed.name), frozenset(needed.extras))
            if step not in seen:
                seen.add(step)
                open_.append(step)
    assert {name for name, _ in seen} - pinned == set()


TOOLKIT = ("cuda-toolkit", "nvidia-")
"""Of the extra `cuda`, hundreds of megabytes that only a machine with a GPU needs."""


def _requirements(name: str) -> list[str]:
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        if not name.startswith(TOOLKIT):
            raise
        return []


@pytest.mark.parametrize(
    "name", ["constraints.txt", "pyproject.toml", "Makefile", ".ci/run", "README.md"]
)
def test_no_package_registry_is_named(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"(index-url|find-links .*/|--hash|pypi|://)", text)


def test_the_workbench_names_the_extra_that_it_needs():
    program = (
        "import sys; sys.modules['starlette'] = None; from unikat.cli.main import main; "
        "sys.exit(main(['web', '--no-browser']))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.returncode == 1
    assert found.stderr.count("\n") == 1
    assert "pip install 'unikat[web]'" in found.stderr


def test_the_recipe_of_conda_has_the_same_dependencies():
    recipe = (ROOT / "conda" / "meta.yaml").read_text("utf-8")
    needed = {canonicalize_name(one) for one in re.findall(r"^    - ([\w-]+)", recipe, re.M)}
    # Where conda-forge calls a package otherwise, or splits it.
    named = {"python-duckdb": "duckdb"}
    assert names(PROJECT["dependencies"]) <= {named.get(one, one) for one in needed}
    assert f'version = "{unikat.__version__}"' in recipe


def test_figures_of_the_paper_are_those_of_the_leaderboard():
    updated = runpy.run_path(str(ROOT / "paper" / "figures.py"))["updated"]
    text = (ROOT / "paper" / "paper.md").read_text("utf-8")
    page = (ROOT / "docs" / "leaderboard.md").read_text("utf-8")
    assert text == updated(text, page), "run  python paper/figures.py"
    planted = re.sub(r"[\d.]+%", "0.1%", text)
    assert updated(planted, page) == text


def test_version_is_the_same_everywhere():
    assert metadata.version("unikat") == unikat.__version__
    assert f"\nversion: {unikat.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\n## [{unikat.__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_public_names_are_there_and_no_others():
    for name in unikat.__all__:
        assert getattr(unikat, name) is not None
    assert dir(unikat) == sorted(unikat.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = unikat.nothing
