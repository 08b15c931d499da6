"""τ1 under other assumptions in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from report.estimates import estimate, provenance, spec, summarise
from report.text.test_selection import Words, result, traces
from unikat.report.facts.result import Result
from unikat.report.facts.sensitivity import SensitivityFacts
from unikat.report.pages.assessment import render
from unikat.report.text import sensitivity


def row(assumption: Any, value: float, tau1: float = 50.0) -> SensitivityFacts:
    return SensitivityFacts(
        assumption=assumption, value=value, tau1_median=tau1, tau1_lower=tau1 - 9.0,
        tau1_upper=tau1 + 9.0, draws=None if assumption == "misreported_keys" else 400.0,
    )  # fmt: skip


ROWS = (
    row("overdispersion", 0.09, 52.0),
    row("overdispersion", 0.49, 44.0),
    row("level", 0.9, 55.0),
    row("level", 1.05, 46.0),
    row("rare_cells", 0.5, 57.0),
    row("misreported_keys", 0.01, 45.0),
    row("misreported_keys", 0.05, 31.0),
)


def found(*rows: SensitivityFacts) -> Result:
    return replace(result(), sensitivity=rows or ROWS)


def test_every_assumption_has_a_row() -> None:
    labels = [
        (group.title, [one.label for one in group.rows]) for group in sensitivity.groups(found())
    ]
    assert labels == [
        ("", ["Answer: latent-class with model uncertainty"]),
        (
            "Model error",
            [
                "Small deviations (30%)",
                "Large deviations (70%)",
                "Cells 10% rarer",
                "Cells 5% more frequent",
            ],
        ),
        ("Evidence on the model error", ["Rare cells, weight 0.5"]),
        (
            "Candidate models, each without model error",
            ["latent-class", "hdp:alpha=per-record"],
        ),
        ("Misreported key values, correct matches", ["1% misreported", "5% misreported"]),
    ]


def test_the_section_says_between_what_numbers_the_answer_moves() -> None:
    page = sensitivity.on_page(found())
    assert page is not None
    assert "between 31 (“5% misreported”) and 57 (“Rare cells, weight 0.5”)" in page.opening
    assert [note.split(":")[0] for note in page.notes] == [
        "Model error", "Rare cells", "Misreported key values"
    ]  # fmt: skip
    text = Words(render(found(), traces())).text
    assert page.opening in text
    assert all(note in text for note in page.notes)
    # The figure speaks its numbers.
    assert "Rare cells, weight 0.5: 57 (48 to 66)" in text


def test_assumptions_that_make_no_difference() -> None:
    page = sensitivity.on_page(found(row("misreported_keys", 0.01)))
    assert page is not None
    assert page.opening.endswith("Under the other assumptions it is about 50.")
    assert len(page.notes) == 1


def test_a_model_alone_has_the_rows_that_exist() -> None:
    plain = summarise(estimate(), spec(), provenance())
    assert sensitivity.on_page(plain) is None
    assert sensitivity.sentences(plain) == {}
    assert "Sensitivity to assumptions" not in render(plain, traces())
    some = replace(plain, sensitivity=ROWS[-2:])
    first, misreported = sensitivity.groups(some)
    assert [one.label for one in first.rows] == ["Answer: hdp"]
    assert len(misreported.rows) == 2
    assert "Sensitivity to assumptions" in render(some, traces())


def test_unreliable_intervals_are_not_compared() -> None:
    plain = summarise(estimate(), spec(), provenance())
    unreliable = replace(plain, model="loglinear", sensitivity=ROWS[-2:])
    assert sensitivity.groups(unreliable) == ()
