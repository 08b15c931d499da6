"""What a worker prints that was not told what to do, and what it prints of other errors."""

import subprocess
import sys

import pytest

CODE = """
import sys
import {module}
def _serve_one(): raise {error}
def other(): raise {error}
{call}()
"""


def printed(error: str, call: str) -> str:
    code = CODE.format(module="pickle, unikat.inference.starting", error=error, call=call)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    ).stderr


@pytest.mark.parametrize(
    "error", ["pickle.UnpicklingError('truncated')", "FileNotFoundError(2, 'gone')", "EOFError()"]
)
def test_a_worker_whose_parent_is_gone_says_nothing(error: str) -> None:
    assert printed(error, "_serve_one") == ""
    assert "Traceback" in printed(error, "other")


def test_any_other_error_is_printed() -> None:
    assert "ModuleNotFoundError" in printed("ModuleNotFoundError('numpy')", "_serve_one")
