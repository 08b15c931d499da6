"""Ctrl-C in a run that keeps nothing on the way: it ends, and leaves nothing."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from unikat.inference.progress import Watcher
from unikat.spec.from_options import Inputs, specify
from unikat.spec.kinds import KINDS
from web_client import SURVEY

ASKED: dict[str, dict[str, Any]] = {
    "protect": {"target": "tau1 <= 1"},
    "verify": {"protected": "survey.csv"},
    "attack": {"synthetic": "survey.csv", "targets": "region"},
}


@pytest.mark.parametrize("name", ASKED)
def test_a_fit_that_was_stopped_is_not_taken_for_one_that_is_done(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("survey.csv").write_text(SURVEY)
    job = import_module(f"unikat.jobs.{name}")
    kind = KINDS[name]
    small = {"keys": "age,sex,region", "population_size": 5000, "chains": 2, "workers": 1}
    model = {} if name == "attack" else {"model": "latent-class"}
    options = small | {"max_sweeps": 2000, "set": {"sampling.ess": 1e6}} | model | ASKED[name]
    spec, _ = specify(kind.specification, "survey.csv", options, shell=True)
    stopped: list[int] = []

    def stop(event: Any) -> None:
        # There are draws already.
        if getattr(event, "sweeps", 0) and event.sweeps >= 200:
            stopped.append(event.sweeps)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job.run(spec, Inputs(), Path("out"), watcher=Watcher(progress=stop))
    assert len(stopped) == 1
    assert not Path("out").exists()
