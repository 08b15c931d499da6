"""A folder of data may hold modules of whoever made it: none of them is ever run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MARKER = "ran"
MODULES = (
    *("multiprocessing/__init__.py", "multiprocessing/forkserver.py", "unikat/__init__.py"),
    *("numpy.py", "numba.py", "signal.py", "contextlib.py", "pickle.py", "sitecustomize.py"),
)
ASSESS = [
    *("assess", "d.csv", "--keys", "a,b", "--population-size", "400", "--out", "out", "--quiet"),
    *("--model", "gom", "--max-sweeps", "20", "--workers", "2"),
]
CALL = """
import os, sys
os.chdir(sys.argv[1])
import unikat
unikat.assess("d.csv", keys=["a", "b"], population_size=400, model="gom", max_sweeps=20, workers=2,
              out="out", progress=False)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Data, and modules that leave a trace where they are run."""
    here = tmp_path / "data"
    here.mkdir()
    (here / "d.csv").write_text("a,b\n" + "".join(f"{i % 9},{i * i % 13}\n" for i in range(70)))
    for name in MODULES:
        (here / name).parent.mkdir(exist_ok=True)
        trace = str(tmp_path / MARKER)
        (here / name).write_text(f"open({trace!r}, 'a').write(__file__ + chr(10))\n")
    return here


def python(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def check(done: subprocess.CompletedProcess[str], folder: Path) -> None:
    trace = folder.parent / MARKER
    assert not trace.exists(), trace.read_text()
    # Few sweeps do not converge.
    assert done.returncode in (0, 2), done.stderr


@pytest.mark.slow
def test_workers_of_the_program(folder: Path) -> None:
    check(python(Path(sys.executable).with_name("unikat"), *ASSESS, cwd=folder), folder)
    assert (folder / "out" / "result.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["dask"])
def test_workers_of_a_cluster_on_this_machine(folder: Path, executor: str) -> None:
    pytest.importorskip("distributed")
    program = Path(sys.executable).with_name("unikat")
    check(python(program, *ASSESS, "--executor", executor, cwd=folder), folder)
    assert (folder / "out" / "result.json").is_file()


@pytest.mark.slow
def test_python_m(folder: Path) -> None:
    """What Python imports to find the program there cannot be kept out; all else is."""
    (folder / "contextlib.py").unlink()
    (folder / "unikat" / "__init__.py").unlink()
    (folder / "unikat").rmdir()
    check(python("-m", "unikat", *ASSESS, cwd=folder), folder)
    assert (folder / "out" / "result.json").is_file()


@pytest.mark.slow
def test_python_m_runs_no_more_of_a_folder_than_python_itself(tmp_path: Path) -> None:
    """`python -m` imports a few modules before it has found the program, whichever that is."""
    trace = tmp_path / MARKER
    again = f"""
import sys
with open({str(trace)!r}, "a") as trace:
    trace.write(__name__ + chr(10))
path = list(sys.path)
sys.path[:] = [one for one in path if one not in ("", {str(tmp_path)!r})]
sys.modules.pop(__name__, None)
import importlib
sys.path_importer_cache.clear()
sys.modules[__name__] = importlib.import_module(__name__)
sys.path[:] = path
"""
    for name in {*sys.stdlib_module_names, "numpy", "numba", "click", "pydantic", "duckdb"}:
        (tmp_path / f"{name}.py").write_text(again)
    (tmp_path / "nothing.py").write_text("")
    ran = []
    for arguments in (["-m", "nothing"], ["-m", "unikat", "assess", "no.csv", "--keys", "a"]):
        trace.write_text("")
        python(*arguments, cwd=tmp_path)
        ran.append(set(trace.read_text().split()))
    assert ran[1] <= ran[0]
    assert len(ran[0]) < 9


@pytest.mark.slow
def test_workers_of_a_script(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(CALL)
    check(python(script, folder, cwd=tmp_path), folder)
    assert (folder / "out" / "result.json").is_file()


def test_processes_of_the_workbench(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is started as the workbench starts it, in the folder of the data."""
    from unikat.web.explorers import Explorer
    from unikat.web.runs import _Job, _let_go, _process

    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    place = folder / "run"
    place.mkdir()
    job = _Job(id="run", folder=place, resume=False)
    job.process = _process(job, folder)
    job.process.wait(60)
    _let_go(job)
    explorer = Explorer(place, folder)
    explorer.wait(lambda: explorer.state != "preparing", 60)
    explorer.close()
    assert not (folder.parent / MARKER).exists()


def test_the_environment_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    from unikat.inference.processes import not_from_here

    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    with not_from_here():
        with not_from_here():
            pass
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert "PYTHONSAFEPATH" not in os.environ
    monkeypatch.setenv("PYTHONSAFEPATH", "yes")
    with not_from_here():
        assert os.environ["PYTHONSAFEPATH"] == "yes"
    assert os.environ["PYTHONSAFEPATH"] == "yes"
