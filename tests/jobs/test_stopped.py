"""Ctrl-C in a run of several fits: what was done is kept, and the rest gives the same numbers."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from unikat.errors import OutputError, SpecError
from unikat.files.json import json_text
from unikat.inference.progress import Watcher
from unikat.jobs.job import Unfinished
from unikat.spec.from_options import specify
from unikat.spec.kinds import FITS, KINDS
from web_client import SURVEY

SMALL: dict[str, Any] = {
    "keys": "age,sex,region", "population_size": 5000, "chains": 2, "workers": 1, "max_sweeps": 60,
    "set": {"sampling.ess": 1e6},
}  # fmt: skip
MODEL: dict[str, Any] = {"model": "latent-class"}
ASKED: dict[str, dict[str, Any]] = {
    "protect": SMALL | MODEL | {"target": "tau1 <= 25", "suppress": "k >= 2"},
    "verify": SMALL | MODEL | {"protected": "other.csv"},
    "check": SMALL | MODEL | {"policy": {"scenario": [{"name": "all", "target": "tau1 <= 5"}]}},
    "attack": SMALL | MODEL | {"synthetic": "survey.csv", "targets": "region"},
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("survey.csv").write_text(SURVEY)
    head, *rows = SURVEY.splitlines()
    # The first key of each third record is suppressed.
    shown = ["," + row.split(",", 1)[1] if i % 3 == 0 else row for i, row in enumerate(rows)]
    Path("other.csv").write_text("\n".join([head, *shown]) + "\n")


def run(name: str, out: str, stop: int = 0, **how: Any) -> Any:
    """Run into a folder; stop it in the fit of this number, at its first draws."""
    options = {**ASKED[name], **how.pop("options", {})}
    spec, inputs = specify(KINDS[name].specification, "survey.csv", options, shell=True)
    fit, last = 0, 1

    def stopping(event: Any) -> None:
        nonlocal fit, last
        sweeps = getattr(event, "sweeps", 0)
        fit, last = fit + (sweeps < last), sweeps
        if fit == stop and sweeps:
            raise KeyboardInterrupt

    watcher = Watcher(progress=stopping) if stop else Watcher()
    return import_module(f"unikat.jobs.{name}").run(spec, inputs, Path(out), watcher=watcher, **how)


def numbers(found: Any) -> Any:
    """All but how long it took and when."""
    said = json.loads(json_text(asdict(found.summary)))
    return {name: value for name, value in said.items() if name not in ("provenance", "seconds")}


@pytest.mark.parametrize(
    ("name", "fit"),
    [(name, fit) for name in ASKED for fit in (1, 2) if (name, fit) != ("check", 2)],
)
def test_a_run_that_was_stopped_goes_on_to_the_same_numbers(name: str, fit: int) -> None:
    undisturbed = run(name, "whole")
    with pytest.raises(Unfinished, match="--resume"):
        run(name, "out", stop=fit)
    assert sorted(path.name for path in Path("out").iterdir()) == [".unikat", FITS]
    with pytest.raises(OutputError, match="an unfinished"):
        run(name, "out")
    resumed = run(name, "out", resume=True)
    assert numbers(resumed) == numbers(undisturbed)
    # It has not converged, so it can go on further.
    assert Path("out", FITS).is_dir()
    further = run(name, "out", resume=True, options={"max_sweeps": 120})
    assert numbers(further) == numbers(run(name, "longer", options={"max_sweeps": 120}))


@pytest.mark.parametrize("name", ASKED)
def test_what_is_kept_goes_when_all_has_converged(name: str) -> None:
    easy = {"max_sweeps": 2000, "set": {"sampling.ess": 1.0, "sampling.rhat": 100.0}}
    assert run(name, "out", options=easy).converged
    assert not Path("out", FITS).exists()
    with pytest.raises(OutputError, match="is finished: there is nothing to resume"):
        run(name, "out", options=easy, resume=True)


def test_a_finished_fit_is_not_made_again() -> None:
    with pytest.raises(Unfinished):
        run("protect", "out", stop=2)
    (first,) = Path("out", FITS, "original").iterdir()
    before = first.read_bytes()
    begin = time.time()
    os.utime(first, (begin - 100.0, begin - 100.0))
    run("protect", "out", resume=True)
    assert first.read_bytes() == before


def test_what_is_kept_of_another_run_is_refused_and_replaced() -> None:
    with pytest.raises(Unfinished):
        run("verify", "out", stop=1)
    with pytest.raises(OutputError, match=r"belongs to another run .*seed"):
        run("verify", "out", resume=True, options={"seed": 2})
    found = run("verify", "out", overwrite=True, options={"seed": 2})
    assert {path.name for path in Path("out", FITS).iterdir()} == {"original", "protected"}
    assert numbers(found) == numbers(run("verify", "whole", options={"seed": 2}))


def test_a_target_that_cannot_be_reached_leaves_nothing_unless_something_was_kept() -> None:
    never = {"target": "k >= 30", "keep": "sex,region", "recodings": {"age": ["width(2)"]}}
    with pytest.raises(SpecError, match="No recoding reaches"):
        run("protect", "out", options=never)
    assert not Path("out").exists()
    with pytest.raises(Unfinished):
        run("protect", "out", stop=2)
    with pytest.raises(SpecError, match="No recoding reaches"):
        run("protect", "out", options=never, resume=True)
    # The first fit serves another target.
    assert Path("out", FITS, "original").is_dir()
    assert numbers(run("protect", "out", resume=True)) == numbers(run("protect", "whole"))
