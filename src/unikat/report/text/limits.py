"""Assumptions and limits of an assessment; the first is how the sample was drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unikat.models.catalogue import MODELS
from unikat.report.text import track_record
from unikat.report.text.numbers import significant, some, with_percent
from unikat.report.text.sentences import about, incomplete, of_kind
from unikat.report.text.words import counted, say
from unikat.spec.models import AUTO, CATALOGUE

if TYPE_CHECKING:
    from unikat.data.units import Unit
    from unikat.report.facts.design import DesignResult
    from unikat.report.facts.result import Result


def limits(result: Result) -> list[tuple[str, str]]:
    """Return what the numbers assume and leave out: a title and a text for each point."""
    known = [
        _point(result, "keys_known"),
        _point(result, "keys_right"),
    ]
    missing = say("limits.missing.title"), incomplete(result)
    if result.known_exactly:
        return known
    by_household = result.households is not None and result.households.rules
    declared = result.zeros is not None or by_household
    points = [
        design_limit(result),
        *known,
        missing,
        _point(result, "impossible" if declared else "undeclared"),
        _point(
            result,
            "model",
            covers=of_kind(result, "covers"),
            trials=track_record.of_result(result).sentence,
            terms=say("terms" in result.fit and "limits.model.terms"),
        ),
    ]
    most = CATALOGUE[result.fitted_model].exact_keys
    if most is not None and result.sample.n_keys > most:
        points.append(_point(result, "many_keys", most=most))
    return points


def _point(result: Result, name: str, **facts: object) -> tuple[str, str]:
    speak = about(result)
    return speak(f"limits.{name}.title"), speak(f"limits.{name}.text", **facts)


def design_sentences(result: Result) -> Mapping[str, str]:
    """Return sentences for the design, for known margins and for households, if there are any."""
    said = {}
    if result.design is not None:
        said["design"] = _drawn(result.design, result.unit)
        said["design.design_effect"] = about(result)("limits.design.effect")
    if result.margins:
        said["margins"] = _known_counts(result)
    if result.sample.n_households is not None:
        said["sample.n_households"] = about(result)("households.sampled")
    return said


def _known_counts(result: Result) -> str:
    """Say which margins were used, and what they add to the sample."""
    tables = [f"{' × '.join(one.keys)} ({counted(one.n_cells, 'cell')})" for one in result.margins]
    finest = max(result.margins, key=lambda one: one.n_cells)
    known = finest.standard_error is not None and finest.off is not None
    return say(
        "limits.margins.known",
        known and "limits.margins.error",
        tables=some(tables, 5),
        finest=finest,
        keys=" × ".join(finest.keys),
    )


def _clusters(result: Result) -> str:
    """Say what is made of households; nothing where they are the units."""
    if result.households is not None:
        return ""
    if result.sample.n_households is None:
        return say("limits.households.unused")
    apart = MODELS[result.fitted_model].leaves_out_companions
    return about(result)(
        "households.sampled",
        apart and bool(result.sample.n_shared_keys) and "limits.households.shared",
        f"limits.households.{'left_out' if apart else 'one_by_one'}",
        apart and result.model == AUTO and "limits.households.calibrated",
    )


def _drawn(design: DesignResult, unit: Unit) -> str:
    """Say how the units of the file were drawn."""
    code = "one_class" if design.n_classes == 1 else design.classes
    low, high = map(_percent, (design.lowest_fraction, design.highest_fraction))
    return say(f"limits.design.{code}", unit=unit, design=design, low=low, high=high)


def design_limit(result: Result) -> tuple[str, str]:
    """Return what the numbers assume about the drawing of the sample: a title and a text."""
    design, speak = result.design, about(result)
    if result.margins:
        name, texts = "margins", ["limits.margins.text"]
    elif design is None:
        name = "random" if result.sample.n_households is None else "households"
        texts = [f"limits.{name}.text"]
    elif design.used == "cells":
        name, texts = "cells", ["limits.cells.text"]
    elif design.used == "none":
        name = "none"
        texts = [f"limits.none.{'nothing' if design.n_classes == 1 else 'text'}"]
    else:
        name = "classes"
        sizes = "sizes" if design.weights is None else "sums"
        texts = [f"limits.classes.{design.classes}", f"limits.classes.{sizes}"]
    drawn = "" if result.margins or design is None else _drawn(design, result.unit)
    parts = (drawn, speak(*texts), _clusters(result))
    return speak(f"limits.{name}.title"), " ".join(filter(None, parts))


def _percent(share: float) -> str:
    return with_percent(significant(100.0 * share, 3))
