"""With any umask, nobody else of the machine can read a file of a run, at any time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from .campaign import COMMAND, ROOT
from .watch import Seen, watched

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes and umask are those of POSIX")


def test_the_watcher_sees_files_that_are_gone_again(tmp_path: Path) -> None:
    for name, mode in (("open", 0o755), ("closed", 0o700)):
        (tmp_path / name).mkdir(mode=mode)
    with watched(tmp_path) as seen:
        for name in ("open", "closed"):
            path = tmp_path / name / "file"
            path.write_text("x")
            path.chmod(0o644)
            time.sleep(0.5)
            path.unlink()
        # Closed from the first moment on: the watcher may look at any.
        os.close(os.open(tmp_path / "mine", os.O_CREAT, 0o600))
        time.sleep(0.5)
    assert set(seen.open_) == {str(tmp_path / name / "file") for name in ("open", "closed")}
    assert seen.exposed == {str(tmp_path / "open" / "file")}
    assert str(tmp_path / "mine") in seen.files


def run(here: Path, arguments: list[str]) -> Seen:
    """Run the program with a umask that lets others in, in a folder that everybody may enter."""
    scratch = here / "tmp"
    scratch.mkdir()
    scratch.chmod(0o777)
    with watched(here) as seen:
        subprocess.run(
            ["sh", "-c", 'umask 0; exec "$@"', "sh", *COMMAND, *arguments],
            cwd=here, capture_output=True, timeout=600, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(scratch)},
        )  # fmt: skip
    assert list(scratch.iterdir()) == []
    return seen


@pytest.mark.slow
def test_what_a_library_writes_is_the_owners_alone(tmp_path: Path) -> None:
    """DuckDB makes files of its own when it needs more memory than it may take."""
    rng = np.random.default_rng(1)
    data = rng.integers(0, 400, (300_000, 5))
    lines = [",".join(map(str, row)) for row in data.tolist()]
    (tmp_path / "big.csv").write_text("A,B,C,D,E\n" + "\n".join(lines) + "\n")
    arguments = ["assess", "big.csv", "--keys", "A,B,C,D,E", "--population-size", "9000000"]
    arguments += ["--model", "loglinear", "--memory-limit", "40MB", "--dry-run", "--out", "out"]
    seen = run(tmp_path, arguments)
    names = {Path(path).name for path in seen.files}
    assert {"keys-0.parquet", "work.duckdb.wal"} <= names
    assert any("duckdb_temp" in name for name in names), names
    assert seen.open_ == {}


def test_python_leaves_the_umask_of_its_program_alone() -> None:
    code = "import os; os.umask(0o022); import unikat; unikat.assess; print(os.umask(0))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert int(done.stdout) == 0o022
