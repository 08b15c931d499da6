"""The first cases of the fuzzer (`benchmarks/fuzz.py` has more), and that it sees what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from hostile import fuzz
from hostile.case import Case
from hostile.fuzz import Outcome, campaign
from hostile.inputs import case
from hostile.mutations import option, spoiled, spoiled_json, toml

CASES = 120
"""About 40 seconds, once the kernels are compiled."""


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_hostile_inputs_are_answered() -> None:
    outcomes = list(campaign(1, 0, CASES, limit=300.0))
    assert len(outcomes) == CASES
    assert [f"1-{one.i}: {one.problems}" for one in outcomes if one.problems] == []
    # Neither all are refused nor all accepted.
    refused = sum(one.code == 1 for one in outcomes)
    assert CASES / 4 < refused < CASES
    assert {"file", "specification", "options", "rules"} <= {one.kind for one in outcomes}


def test_the_same_seed_makes_the_same_case(tmp_path: Path) -> None:
    def makes(folder: Path) -> list[tuple[list[str], dict[str, bytes]]]:
        found = []
        for i in range(60):
            place = folder / str(i)
            place.mkdir(parents=True)
            try:
                made = case(7, i, place, tmp_path / "no results")
            except FileNotFoundError:
                # It would have damaged results.
                continue
            files = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
            found.append((made.arguments, files))
        return found

    first = makes(tmp_path / "first")
    assert len(first) > 15
    assert makes(tmp_path / "second") == first


def test_mutations_are_seeded_and_change_what_they_are_given() -> None:
    content = b"AGE,SEX\n1,2\n3,4\n" * 20
    both = [[spoiled(Random(i), content) for i in range(50)] for _ in range(2)]
    assert both[0] == both[1]
    assert sum(one != content for one in both[0]) > 40
    text = '{"a": [1, {"b": null}], "c": "d"}'
    assert len({spoiled_json(Random(i), text) for i in range(50)}) > 10
    assert len({option(Random(i)) for i in range(200)}) > 30
    assert len({toml(Random(i)) for i in range(200)}) > 30


GOOD = Case("file", ["assess", "people.csv", "--out", "out"], ["out"])


def ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: Callable[[list[str]], int]
) -> list[str]:
    """What the fuzzer says of a program that does this in the place of ours."""
    (tmp_path / "work").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "work" / "people.csv").write_text("AGE\n1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(fuzz, "_main", what)
    outcome = Outcome(seed=0, i=0, kind="file", arguments=GOOD.arguments)
    fuzz.run(GOOD, tmp_path, outcome)
    return [problem.partition(":")[0] for problem in outcome.problems]


def _says(text: str, code: int = 1) -> Callable[[list[str]], int]:
    def program(_: list[str]) -> int:
        import os

        os.write(2, text.encode())
        return code

    return program


def _does(*steps: Callable[[], object], code: int = 2) -> Callable[[list[str]], int]:
    def program(_: list[str]) -> int:
        for step in steps:
            step()
        return code

    return program


def _raises(_: list[str]) -> int:
    raise KeyError("x")


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (_says("Error: The file is empty.\n"), []),
        (_says("", 0), []),
        (_says("", 1), ["no message"]),
        (_says("", 3), ["exit code"]),
        (_raises, ["traceback"]),
        (_says("Error: x\nTraceback (most recent call last):\n"), ["traceback"]),
        (_says("Error: a defect of unikat\n"), ["defect"]),
        (_says("Error: " + "x" * 2000), ["long message"]),
        (_says("Error: " + "x\n" * 30), ["long message"]),
        (_says("Error: \x1b[2J"), ["control characters"]),
        (_says("Error: zqx3v is no level"), ["value shown"]),
        (_says("done 9173042", 0), ["value shown"]),
        (_says("a.py:3: RuntimeWarning: divide\n", 0), ["warning"]),
        (_does(lambda: Path("out").mkdir(mode=0o700)), []),
        (_does(lambda: Path("out").mkdir(mode=0o755)), ["mode"]),
        (_does(lambda: Path("elsewhere").touch()), ["left behind"]),
        (_does(lambda: Path("people.csv").write_text("")), ["overwritten"]),
        (_does(lambda: Path("people.csv").unlink()), ["deleted"]),
        (_does(lambda: Path("../tmp/keys.parquet").touch()), ["temporary files"]),
        (
            _does(lambda: Path("out").mkdir(mode=0o700), lambda: _says("Error: x")([]), code=1),
            ["left behind"],
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_seen(
    program: Callable[[list[str]], int],
    found: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ran(tmp_path, monkeypatch, program) == found
