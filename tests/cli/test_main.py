from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.test_assess import specify, write_people
from report.estimates import estimate, provenance, spec, write
from unikat import __version__
from unikat.cli.main import main
from unikat.inference.progress import AnswerSoFar, ProgressEvent, TimeLeft
from unikat.jobs.progress import describe, share_done, watching
from unikat.protection.search import SearchProgress

ROOT = Path(__file__).parents[2]
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may ignore it
from unikat.cli.main import main
sys.exit(main())
"""
COMMAND = [sys.executable, "-c", PROGRAM]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def test_ctrl_c_while_the_program_is_loaded() -> None:
    """It comes at the first import of a library."""
    program = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Finder:
    def find_spec(name, *_):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder)
from unikat.__main__ import main
sys.exit(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


def test_version(capsys: Any) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"unikat, version {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["--help"], ["assess", "--help"], ["evaluate", "--help"], ["demo", "-h"]]
)
def test_help(arguments: list[str], capsys: Any) -> None:
    assert main(arguments) == 0
    assert "Usage: unikat" in capsys.readouterr().out


def test_an_unknown_command_is_an_error(capsys: Any) -> None:
    assert main(["asess"]) == 1
    assert "asess" in capsys.readouterr().err


def test_help_loads_click_alone() -> None:
    program = (
        "import sys; from unikat.cli.main import main; main(['--help']);"
        "heavy = {'numpy', 'numba', 'pydantic', 'rich', 'pyarrow', 'jinja2', 'duckdb'};"
        "sys.exit(','.join(heavy & set(sys.modules)) or 0)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


def test_report_renders_again(tmp_path: Path, capsys: Any) -> None:
    write(estimate(), tmp_path / "out", spec(), provenance())
    path = tmp_path / "out" / "report.html"
    before = path.read_bytes()
    path.write_text("lost")
    assert main(["report", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert path.read_bytes() == before


def test_an_edited_result_is_not_reported(tmp_path: Path, capsys: Any) -> None:
    write(estimate(), tmp_path / "out", spec(), provenance())
    path = tmp_path / "out" / "result.json"
    path.write_text(path.read_text().replace('"converged": true', '"converged": false'))
    report = (tmp_path / "out" / "report.html").read_bytes()
    assert main(["report", str(tmp_path / "out")]) == 1
    told = capsys.readouterr().err
    assert told.startswith("Error: ")
    assert "result.json does not match manifest.json" in told
    assert (tmp_path / "out" / "report.html").read_bytes() == report


def test_a_folder_without_a_run_is_not_reported(tmp_path: Path, capsys: Any) -> None:
    assert main(["report", str(tmp_path)]) == 1
    assert "there are no results in it" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    write(estimate(), tmp_path / "out", spec(), provenance())
    process = subprocess.Popen(
        [*COMMAND, "report", str(tmp_path / "out")],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        told = process.stderr.read()
    assert process.wait(60) == 0, told
    assert told == ""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a POSIX signal")
def test_ctrl_c_keeps_what_is_done_and_resume_goes_on(tmp_path: Path) -> None:
    write_people(tmp_path / "people.csv")
    specify(tmp_path, rhat=1.0000001, ess=1e9, max_sweeps=10**9)
    out = tmp_path / "people-unikat"
    process = subprocess.Popen(
        [*COMMAND, "assess", "spec.toml"],
        env=ENVIRONMENT,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        end = time.monotonic() + 120
        while (
            not (out / "fits" / "model" / "sampling.checkpoint").exists() and time.monotonic() < end
        ):
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        shown, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 2, told
    assert "Traceback" not in told
    assert "--resume" in told
    assert "NOT CONVERGED" in shown
    result = json.loads((out / "result.json").read_text())
    assert result["stop_reason"] == "interrupted"
    reached = result["sampling"]["n_sweeps"]
    assert f"max_sweeps = {reached}\n" in (out / "assessment.toml").read_text()
    specify(tmp_path, rhat=3.0, ess=4)
    run = subprocess.run(
        [*COMMAND, "assess", "spec.toml", "--resume", "--quiet"],
        env=ENVIRONMENT,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    result = json.loads((out / "result.json").read_text())
    assert result["converged"]
    assert result["sampling"]["n_sweeps"] >= reached


def event(**changes: Any) -> ProgressEvent:
    values: dict[str, Any] = {
        "sweeps": 1234,
        "max_sweeps": 200_000,
        "seconds": 75.0,
        "time_left": TimeLeft(3600.0, 10_800.0),
        "draws": {},
        "tau1": AnswerSoFar(51.26, 40.0, 63.0, 0.95),
        "whole_run": True,
        "rhat": 1.012,
        "ess": 310.0,
    }
    return ProgressEvent(**{**values, **changes})


def test_progress_in_one_line() -> None:
    assert describe(event()) == (
        "1,234 sweeps  1:15  1 to 3 hours left  τ1 51 (95% interval 40 to 63)  R-hat 1.012  "
        "effective draws 310"
    )
    # Of one fit of several, whose τ1 is not the answer.
    other = describe(event(whole_run=False, tau1=None))
    assert "1 to 3 hours left of this fit" in other
    assert "τ1" not in other
    early = event(time_left=None, tau1=None, rhat=None, ess=None)
    assert describe(early) == "1,234 sweeps  1:15"
    assert "Compiling" in describe(event(sweeps=0))
    fitting = event(sweeps=0, preparing="selecting terms, margins within 3 records")
    assert describe(fitting) == "Selecting terms, margins within 3 records  1:15"


def test_progress_of_a_search_in_one_line() -> None:
    def search(**changes: Any) -> SearchProgress:
        values: dict[str, Any] = {"looks": 120, "most_looks": 2000, "lost": 0.065, "seconds": 75.0}
        return SearchProgress(**{"name": "Search", **values, **changes})

    assert describe(search()) == (
        "Search: look 120 of at most 2,000, least information lost so far 6.5%  1:15"
    )
    assert describe(search(lost=None)) == "Search: look 120 of at most 2,000  1:15"
    assert "look 2,003, making the best plan finer" in describe(search(looks=2003))
    assert share_done(search()) is None


def test_progress_is_plain_and_rare_when_piped(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("unikat.jobs.progress.time.monotonic", lambda: now)
    with watching(True) as watcher:
        watcher.stage("Reading")
        assert capsys.readouterr().err == ""
        for now in (1.0, 19.0, 21.0, 22.0, 45.0):  # noqa: B007  # read by the clock above
            watcher.progress(event())
    told = capsys.readouterr()
    assert told.out == ""
    # The stage, and progress twice.
    assert told.err.count("\n") == 3
    assert "\x1b" not in told.err
    with watching(False) as watcher:
        watcher.stage("Reading")
        watcher.note("Found")
        assert watcher.progress is None
    with watching() as watcher:
        # Nobody asked, and nobody looks at a terminal.
        watcher.stage("Reading")
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "")


def test_progress_is_live_on_a_terminal(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with watching() as watcher:
        watcher.stage("Reading [bold]people[/]")
        watcher.progress(event())
    assert "Traceback" not in capsys.readouterr().err


def test_ctrl_c_while_a_library_executes_text_has_the_exit_code_of_ctrl_c(tmp_path: Path) -> None:
    """Python ended by the signal (-2) although the message had been printed."""
    (tmp_path / "hurt").mkdir()
    (tmp_path / "hurt" / "sitecustomize.py").write_text(
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'unikat.jobs.job':\n"
        "            exec('raise KeyboardInterrupt')\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    (tmp_path / "a.csv").write_text("A\n1\n2\n")
    command = [sys.executable, "-m", "unikat", "assess", "a.csv", "--keys", "A"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "hurt")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr.strip().startswith("Interrupted; nothing was kept.")
    assert done.returncode == 130
