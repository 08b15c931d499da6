"""A folder belongs to one kind of run; and what-if says no more than the fit that it is of."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat

KEYS = ["A", "B", "C"]


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame({key: rng.integers(0, 5, 120) for key in KEYS})


def assessed(frame: pd.DataFrame | Path, **more: Any) -> unikat.Assessment:
    return unikat.assess(
        frame, keys=KEYS, population_size=3000, model="latent-class", max_sweeps=40, chains=2,
        workers=1, seed=1, **more,
    )  # fmt: skip


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"overwrite": True}])
@pytest.mark.parametrize("dry", [False, True])
def test_a_folder_of_another_kind_is_refused_and_left_as_it_is(
    frame: pd.DataFrame, tmp_path: Path, how: dict[str, bool], dry: bool
) -> None:
    out = tmp_path / "out"
    assert not assessed(frame, out=out).converged
    before = everything(out)
    asked: Any = {"keys": KEYS, "model": "latent-class", "out": out, **how}
    asked |= {"target": "tau1 <= 5", "population_size": 3000}
    run = partial(unikat.dry_run, unikat.protect) if dry else unikat.protect
    with pytest.raises(unikat.OutputError, match=r"holds an assessment\. A run of another kind"):
        run(frame, **asked)
    assert everything(out) == before
    # Its chains are still there to go on from.
    assert assessed(frame, out=out, resume=True).result.stop_reason == "sweep limit"


def test_what_if_of_chains_that_have_not_converged_has_not_converged(
    frame: pd.DataFrame, tmp_path: Path
) -> None:
    frame.to_csv(tmp_path / "file.csv", index=False)
    found = assessed(tmp_path / "file.csv", out=tmp_path / "out", keep_states=True)
    assert not found.converged
    for one in (found, unikat.load(tmp_path / "out", trust_spec=True)):
        answer = one.what_if({"A": None})
        assert not answer.converged
        assert any("before it converged" in text for text in answer.warnings)
