"""Killed runs go on to the results of an undisturbed one; the long campaign is benchmarks/kills.py.

Which step of a run is hit differs from time to time; what must hold does not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from .campaign import Blow, Reference, disturbed, prepare, undisturbed

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"), pytest.mark.slow]

BLOWS = [
    Blow("assess", "SIGKILL", "parent", 0.8),
    Blow("assess", "SIGTERM", "parent", 0.9),
    Blow("assess", "SIGTERM", "group", 0.7),
    Blow("compare", "SIGKILL", "worker", 0.7),
    Blow("evaluate", "SIGKILL", "group", 0.8),
    Blow("evaluate", "SIGINT", "group", 0.6),
    Blow("synthesize", "SIGKILL", "group", 0.6),
    Blow("protect", "SIGTERM", "parent", 0.7),
    Blow("protect", "SIGKILL", "parent", 0.8),
    Blow("attack", "SIGINT", "group", 0.7),
    Blow("verify", "SIGKILL", "group", 0.7),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Callable[[str], Reference]]:
    """The folder, and the undisturbed run of a kind, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("kills")
    prepare(folder)
    return folder, cache(lambda kind: undisturbed(kind, folder))


@pytest.mark.parametrize(
    ("number", "blow"),
    list(enumerate(BLOWS)),
    ids=[f"{blow.kind}-{blow.signal}-{blow.target}" for blow in BLOWS],
)
def test_a_disturbed_run_ends_as_if_undisturbed(
    place: tuple[Path, Callable[[str], Reference]], number: int, blow: Blow
) -> None:
    folder, reference = place
    assert disturbed(blow, folder, number, reference(blow.kind)) == []
