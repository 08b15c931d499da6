"""Whatever happens ends in one message: no text of an exception, no traceback."""

from __future__ import annotations

import errno
import logging
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from unikat.cli._boundary import stopping
from unikat.cli.main import cli, main
from unikat.errors import OutputError
from unikat.inference.tasks import run_tasks

posix = pytest.mark.skipif(os.name != "posix", reason="streams and signals are those of POSIX")
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}
COMMAND = [sys.executable, "-m", "unikat.cli.main"]
SECRET = "Alice, 42, widow"


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let a run end in an error that nobody foresaw, raised in code of ours."""

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr("unikat.jobs.outcome.write_page", fail)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError(SECRET), r"defect of unikat \(ValueError in commands.py:\d+\)"),
        (KeyError(SECRET), r"defect of unikat \(KeyError in commands.py:\d+\)"),
        (EOFError(SECRET), r"defect of unikat \(EOFError in commands.py:\d+\)"),
        (RecursionError(SECRET), r"defect of unikat \(RecursionError in"),
        (MemoryError(SECRET), "not enough memory"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files.*ulimit -n"),
        (OSError(errno.ENOSPC, "No space left", "/there/x"), "disk is full, '/there/x'. Make room"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "Permission denied, '/x'"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "9" * 5000), "too long, '9+ … 9+'"),
        (OSError(SECRET), r"defect of unikat \(OSError in"),
        (GeneratorExit(SECRET), r"defect of unikat \(GeneratorExit in"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_what_nobody_foresaw_ends_in_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, error: BaseException, words: str
) -> None:
    raising(monkeypatch, error)
    assert main(["report", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert re.search(words, told.err)
    assert "Alice" not in told.err
    assert "Traceback" not in told.err
    assert len(told.err.strip().splitlines()) == 1
    assert len(told.err) < 400


def test_debug_says_where_and_no_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    raising(monkeypatch, ValueError(SECRET))
    assert main(["--debug", "report", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "builtins.ValueError" in told
    assert f"unikat{os.sep}cli{os.sep}commands.py:" in told
    assert "Alice" not in told


def fails(secret: str) -> None:
    """Fail in a worker, at a place that is ours."""
    import unikat.studies.evaluate

    unikat.studies.evaluate.run_job(None)  # type: ignore[arg-type]


def test_the_place_in_a_worker_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def run(*_: Any, **__: Any) -> None:
        list(run_tasks(fails, [SECRET] * 2, 2))

    monkeypatch.setattr("unikat.jobs.outcome.write_page", run)
    assert main(["report", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "AttributeError in evaluate.py:" in told
    assert "Alice" not in told


def test_ctrl_c_is_told_from_the_end_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    raising(monkeypatch, KeyboardInterrupt())
    assert main(["report", str(tmp_path)]) == 130
    assert "Interrupted; nothing was kept" in capsys.readouterr().err


def test_warnings_of_libraries_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def warn(*_: Any, **__: Any) -> None:
        warnings.warn(SECRET, stacklevel=1)
        logging.getLogger("library").warning(SECRET)
        raise OutputError("There is nothing.")

    monkeypatch.setattr("unikat.jobs.outcome.write_page", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["report", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "Error: There is nothing.\n"
    assert logging.lastResort is not None
    assert logging.lastResort.level == logging.WARNING


def test_ctrl_c_that_others_turned_into_an_error_is_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def turned(*_: Any, **__: Any) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise SystemError(SECRET) from None

    monkeypatch.setattr("unikat.jobs.outcome.write_page", turned)
    assert main(["report", str(tmp_path)]) == 130
    assert "Interrupted" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_to_end_that_falls_into_a_finalizer_is_not_lost(number: int) -> None:
    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(number)
            reached.append(True)

    reached: list[bool] = []

    def run() -> None:
        Finalized()
        time.sleep(30)
        reached.append(True)

    with stopping() as stops:
        with pytest.raises(KeyboardInterrupt):
            run()
        assert stops.asked
    assert not reached


@posix
@pytest.mark.parametrize(
    ("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)], ids=["SIGTERM", "SIGHUP"]
)
def test_a_request_to_end_is_like_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, name: str, code: int
) -> None:
    number = getattr(signal, name)
    before = signal.getsignal(number)

    def ended(*_: Any, **__: Any) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr("unikat.jobs.outcome.write_page", ended)
    assert main(["report", str(tmp_path)]) == code
    assert "Interrupted" in capsys.readouterr().err
    assert signal.getsignal(number) == before


@posix
def test_a_working_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND, "assess", "x.csv"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "Error: The working folder no longer exists; change to another folder and start again.\n"
    )


@posix
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(tmp_path: Path, closed: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, "report", str(tmp_path / "gone")],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    if "2>" not in closed:
        assert "is not a folder" in done.stderr


@posix
def test_letters_that_the_terminal_does_not_have_are_written(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "report", str(tmp_path / "données \udcff")],
        env={**ENVIRONMENT, "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii:strict"},
        capture_output=True,
    )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"is not a folder" in done.stderr


def test_help_names_debug(capsys: Any) -> None:
    assert main(["--help"]) == 0
    assert "--debug" in capsys.readouterr().out
    assert "143 ended by SIGTERM" in (cli.epilog or "")
