"""The house: what may import what, no network, short modules, and an import that costs nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "unikat"

# A package may import itself and what stands to its left.
ORDER = (
    "data",
    "zeros",
    "models",
    "inference",
    "risk",
    "classics",
    "studies",
    "synthesis",
    "protection",
    "report",
    "jobs",
    "web",
    "cli",
)
BASE = {
    "_typing",
    "_version",
    "datasets",
    "errors",
    "files",
    "interrupts",
    "language",
    "rng",
    "spec",
}
FLOORS = ("facts", "text", "pages", "folders")
"""Of the report: numbers, sentences, pages, and the folders that hold them."""
DOORS = {"cli", "web"}
"""They parse, call and render, so they need none of these."""
COMPUTING = {"numba", "numpy", "pandas", "polars", "scipy", "xarray", "arviz_base", "arviz_stats"}
KERNELS_MAY = {"numpy", "numba", "math", "typing", "collections", "functools", "__future__"}
NETWORK = {
    "aiohttp",
    "ftplib",
    "http",
    "httpx",
    "imaplib",
    "poplib",
    "requests",
    "smtplib",
    "socket",
    "socketserver",
    "ssl",
    "starlette",
    "telnetlib",
    "urllib",
    "urllib3",
    "uvicorn",
    "webbrowser",
    "websockets",
    "wsgiref",
    "xmlrpc",
}
LONGEST = 600


def imports(tree: ast.Module, package: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the full dotted name of everything a module imports, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
            module = node.module or ""
            full = module if not node.level else f"{start}.{module}".rstrip(".")
            for alias in node.names:
                yield node.lineno, f"{full}.{alias.name}"
        elif isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
            if name in {"import_module", "__import__"} and node.args:
                argument = node.args[0]
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield node.lineno, argument.value


def broken_rules(package: Path) -> list[str]:
    """Return one line per broken rule of the package tree whose root folder is given."""
    broken = []
    for path in sorted(package.rglob("*.py")):
        where = path.relative_to(package)
        text = path.read_text(encoding="utf-8")
        n_lines = len(text.splitlines())
        if n_lines > LONGEST:
            broken.append(f"{where} has {n_lines} lines, more than {LONGEST}")
        room = where.parts[0].removesuffix(".py")
        if room not in {*ORDER, *BASE, "kernels", "__init__", "__main__"}:
            broken.append(f"{where} stands in no room of the house")
            continue
        dotted = ".".join(("unikat", *where.parts[:-1]))
        for line, name in imports(ast.parse(text), dotted):
            if reason := refused(room, where, name):
                broken.append(f"{where}:{line} imports {name}: {reason}")
    return broken


def refused(room: str, where: Path, name: str) -> str:
    """Return why a module of a room may not import a name, or an empty string."""
    top, _, rest = name.partition(".")
    if top in NETWORK and room != "web" and not name.startswith("urllib.parse"):
        return "no network outside web"
    if top.startswith("adbc_driver") and where.as_posix() != "data/postgres.py":
        return "the server of a database is asked by data/postgres.py alone"
    if top == "unikat":
        if room == target_room(rest) == "report":
            return refused_floor(where.parts[1], rest.split(".")[1])
        return "" if room == "__init__" else refused_room(room, target_room(rest))
    if room in DOORS and top in COMPUTING:
        return "cli and web compute nothing"
    if room == "kernels" and top not in KERNELS_MAY and where.name not in {"jit.py", "launch.py"}:
        return "kernels import NumPy, Numba and themselves"
    return ""


def target_room(rest: str) -> str:
    """Return the room of a name inside the package."""
    return rest.partition(".")[0]


def refused_floor(floor: str, target: str) -> str:
    """Return why one floor of the report may not import another, or an empty string."""
    if floor not in FLOORS or target not in FLOORS:
        return "" if floor not in FLOORS or target == floor else "floors stand below the rest"
    lower = FLOORS.index(target) <= FLOORS.index(floor)
    return "" if lower else "facts, text, pages, folders: never back"


def module_of(name: str, modules: dict[str, Path]) -> str:
    """Return the module that an imported name is, or is defined in."""
    return name if name in modules else name.rpartition(".")[0]


def circles(package: Path) -> list[set[str]]:
    """Return the sets of modules that import each other, at any depth and for types alone too."""
    modules = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).with_suffix("").parts
        modules[".".join(("unikat", *parts)).removesuffix(".__init__")] = path
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        package_of = module if path.name == "__init__.py" else module.rpartition(".")[0]
        found = {module_of(name, modules) for _, name in imports(tree, package_of)}
        # The door loads names when they are asked for.
        graph[module] = (found & set(modules)) - {module} if module != "unikat" else set()
    return [part for part in strongly_connected(graph) if len(part) > 1]


def strongly_connected(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of nodes that reach each other: those a node reaches, and that reach it."""
    reached = {node: reach(graph, node) for node in graph}
    parts = {
        node: frozenset({node} | {other for other in reached[node] if node in reached[other]})
        for node in graph
    }
    return [set(part) for part in set(parts.values())]


def reach(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return what can be reached from a node."""
    found: set[str] = set()
    open_ = [start]
    while open_:
        for target in graph[open_.pop()] - found:
            found.add(target)
            open_.append(target)
    return found


def test_no_modules_import_each_other():
    assert circles(PACKAGE) == []


@pytest.mark.parametrize(
    "line",
    [
        "import unikat.data.a",
        "from unikat.data import a",
        "from unikat.data.a import f",
        "from .a import f",
        "def f():\n    from unikat.data.a import g",
        "if TYPE_CHECKING:\n    from unikat.data.a import F",
    ],
)
def test_a_planted_circle_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "__init__.py").write_text("from unikat.data.a import f")
    (tmp_path / "data" / "__init__.py").write_text("")
    (tmp_path / "data" / "a.py").write_text("from unikat.data import b")
    (tmp_path / "data" / "b.py").write_text("from unikat.data.c import f")
    (tmp_path / "data" / "c.py").write_text("")
    assert circles(tmp_path) == []
    (tmp_path / "data" / "c.py").write_text(line)
    assert circles(tmp_path) == [{"unikat.data.a", "unikat.data.b", "unikat.data.c"}]


def refused_room(room: str, target: str) -> str:
    """Return why one room of the house may not import another, or an empty string."""
    if target in {"", room}:
        return ""
    if target not in {*ORDER, *BASE, "kernels"}:
        return "inside the package, import from the module that defines a name"
    if room == "kernels":
        return "kernels import NumPy, Numba and themselves"
    if room in BASE:
        return "" if target in BASE else "base modules import no package of unikat"
    if target == "kernels":
        return "cli and web compute nothing" if room in DOORS else ""
    if target in BASE or room == "__main__":
        return ""
    return "" if ORDER.index(target) < ORDER.index(room) else "later may import earlier, never back"


def test_rules_hold_in_the_package():
    assert broken_rules(PACKAGE) == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("data/table.py", "from unikat.models.base import Model"),
        ("data/table.py", "from unikat.models import base"),
        ("data/table.py", "from ..risk import measures"),
        ("data/table.py", "from unikat import HDP"),
        ("data/table.py", "import unikat.report.pages.assessment"),
        ("data/table.py", "def f():\n    from unikat.risk import estimate"),
        ("data/table.py", "import importlib\nimportlib.import_module('unikat.cli.main')"),
        ("models/base.py", "from unikat.inference.draws import Draws"),
        ("inference/chains.py", "from unikat.risk.measures import RiskMeasures"),
        ("risk/measures.py", "if True:\n    import unikat.report.folders.assessment"),
        ("kernels/cells.py", "import pandas"),
        ("kernels/cells.py", "from unikat.errors import SpecError"),
        ("kernels/cells.py", "from unikat.data.table import CellTable"),
        ("errors.py", "from unikat.data import Key"),
        ("spec/assessment.py", "import unikat.kernels.jit"),
        ("cli/main.py", "import numpy as np"),
        ("cli/main.py", "from numba import njit"),
        ("cli/main.py", "from unikat.kernels import cells"),
        ("report/facts/zeros.py", "from unikat.report.text import zeros"),
        ("report/pages/assessment.py", "import socket"),
        ("report/pages/assessment.py", "from urllib.request import urlopen"),
        ("report/pages/assessment.py", "from http import server"),
        ("cli/main.py", "import webbrowser"),
        ("extra/thing.py", "import math"),
        ("misc.py", "import math"),
        ("data/table.py", "\n" * LONGEST + "x = 1"),
    ],
)
def test_a_planted_violation_is_found(tmp_path, module, line):
    path = tmp_path / module
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line)
    assert len(broken_rules(tmp_path)) == 1


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("data/table.py", "from unikat.errors import DataError\nfrom unikat.kernels import cells"),
        ("data/table.py", "from unikat.data.keys import Key\nfrom .keys import MISSING"),
        ("report/folders/assessment.py", "from unikat.risk.estimate import RiskEstimate"),
        (
            "report/folders/assessment.py",
            "from urllib.parse import quote\nfrom unikat._version import __version__",
        ),
        ("kernels/cells.py", "import math\nimport numpy as np\nfrom unikat.kernels.jit import f"),
        ("spec/tables.py", "from unikat.errors import SpecError\nimport unikat.files.toml"),
        ("cli/main.py", "import click\nfrom unikat.jobs.assess import run"),
        ("web/app.py", "import socket"),
        ("__init__.py", "from unikat.data import read"),
    ],
)
def test_what_is_allowed_is_not_reported(tmp_path, module, line):
    path = tmp_path / module
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line)
    assert broken_rules(tmp_path) == []


HEAVY = (
    "arviz_base",
    "arviz_stats",
    "duckdb",
    "numba",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "scipy",
    "starlette",
    "uvicorn",
    "xarray",
)


def loaded_by(code: str) -> set[str]:
    """Return which heavy packages a fresh Python has loaded after running the code."""
    ask = f"import sys; print('LOADED', *(set({HEAVY}) & set(sys.modules)))"
    program = f"try:\n    {code}\nexcept SystemExit as end:\n    assert not end.code\n{ask}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_import_loads_nothing_heavy():
    assert loaded_by("import unikat") == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["assess", "--help"],
        ["evaluate", "--help"],
        ["zeros", "suggest", "--help"],
        ["web", "--help"],
    ],
)
def test_help_loads_nothing_heavy(arguments):
    code = f"import sys; sys.argv = {['unikat', *arguments]}; "
    assert loaded_by(code + "from unikat.cli.main import main; sys.exit(main())") == set()


def test_heavy_packages_would_be_noticed():
    assert "numpy" in loaded_by("import unikat._typing")
