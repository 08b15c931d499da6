"""No number of the fixed runs has moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import digests

KNOWN: dict[str, Any] = json.loads(digests.REFERENCE.read_text(encoding="utf-8"))
SAME_MACHINE = KNOWN["machine"] == digests.machine()
OF_RANKS = 5e-3
"""R-hat ranks distances from the median. Those of the two middle draws are equal, and rounding says
which is the larger: with 48 draws that moves R-hat by up to 0.003."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of the runs."""
    folder = tmp_path_factory.mktemp("digests")
    digests.write_inputs(folder)
    return folder


def test_the_list_is_that_of_the_reference():
    assert set(KNOWN) == {"machine", *digests.runs()}


@pytest.mark.parametrize("label", digests.runs())
def test_no_number_has_moved(inputs: Path, tmp_path: Path, label: str) -> None:
    arguments = digests.runs()[label]
    found = digests.run(arguments, inputs, str(tmp_path / "out"))
    known = KNOWN[label]
    assert sorted(found) == sorted(known)
    if SAME_MACHINE:
        moved = [at for at, value in found.items() if value[:2] != known[at][:2]]
    else:
        # Another processor rounds the last bit of a sum or a logarithm otherwise.
        moved = [
            at
            for at, value in found.items()
            if value[0] != known[at][0]
            or value[2:] != pytest.approx(known[at][2:], 1e-6, OF_RANKS if "rhat" in at else 1e-9)
        ]
    assert moved == []


def test_a_moved_number_is_seen(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"tau1": {"mean": 1.5, "draws": [1, 2]}}')
    before = digests.numbers(tmp_path)
    (tmp_path / "result.json").write_text('{"tau1": {"mean": 1.5, "draws": [2, 1]}}')
    after = digests.numbers(tmp_path)
    assert before["result.json tau1.mean"] == after["result.json tau1.mean"]
    assert before["result.json tau1.draws"] != after["result.json tau1.draws"]
