from __future__ import annotations

import threading

import numpy as np

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.loglinear.conditional import LogLinear
from unikat.models.preparing import report, reporting_to, stage


def some_table() -> CellTable:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 5, 300)
    codes = np.column_stack([a, (a + rng.integers(0, 2, 300)) % 5, rng.integers(0, 4, 300)])
    keys = [Key.of_size(name, size) for name, size in (("A", 5), ("B", 5), ("C", 4))]
    return CellTable.from_codes(codes, keys, 5000)


def test_nobody_has_to_listen() -> None:
    report("nothing")
    with stage("something"):
        report("nothing")


def test_what_is_told_ends_with_what_is_done() -> None:
    heard: list[str] = []
    with reporting_to(heard.append):
        with stage("one"), stage("two"):
            report("three")
        report("four")
    report("five")
    assert heard == ["one", "one, two", "one, two, three", "four"]


def test_other_threads_are_not_heard() -> None:
    heard: list[str] = []
    with reporting_to(heard.append):
        thread = threading.Thread(target=report, args=("elsewhere",))
        thread.start()
        thread.join()
    assert heard == []


def test_a_selection_tells_its_steps_and_comes_to_the_same() -> None:
    heard: list[str] = []
    model, table = LogLinear(terms="select"), some_table()
    silent = model.prepare(table)
    with reporting_to(heard.append):
        told = model.prepare(table)
    assert [step.evidence for step in told.path] == [step.evidence for step in silent.path]
    assert len(told.path) > 1
    assert any("0 added, B2/√ν" in words and "trying 2 of 3" in words for words in heard)
    assert any("margins within" in words for words in heard)
