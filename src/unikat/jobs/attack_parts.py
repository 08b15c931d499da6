"""The fits of an attack, in their order, and what is foreseen of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Int32
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.draws import Observer
from unikat.inference.trial import counted_alone
from unikat.jobs.schedule import ORIGINAL, Part
from unikat.models.households.nested import NestedHouseholds
from unikat.studies import foreseen
from unikat.studies.foreseen import Workload
from unikat.synthesis.attacks.fits import MOST_TIMES
from unikat.synthesis.attacks.households import Generator, attacked_households
from unikat.synthesis.attacks.membership_model import CellLaw
from unikat.synthesis.attacks.persons import attacked_persons
from unikat.synthesis.attacks.posterior import joined_table

WITHOUT_MODEL, TESTS, RISK = "attacks without a model", "tests of membership", "tau1"
RATIO, GOING_ON, BOUND = "ratio", "going on", "bound"
"""Names of the parts."""


class Fits(NamedTuple):
    """Fits of a kind, all about as long."""

    name: str
    load: Workload
    """Of one of them."""
    n: int
    work: tuple[float, float]
    """Of one, relative to others that are made of the same model, at least and at most."""


class Fitted(NamedTuple):
    """What an attack fits."""

    original: CellTable
    """By whose τ1 claims are judged."""
    risk: Any
    """The model of that; None if no population is known."""
    known: bool
    """Whether an assessment has told the risk of the original."""
    n_files: int
    """Synthetic ones."""
    n_halves: int
    """Of the control file, for a test of membership."""
    model: Any = None
    """Of the intruder who knows it; None if there is none."""
    label: str = ""
    table: CellTable | None = None
    """The original as he knows it; None without him."""
    synthetic: Sequence[Int32] = ()


def fits_of(asked: Fitted, **how: Any) -> list[Fits]:
    """Foresee the fits of an attack in their order; `how`: plan, seed and workers.

    What a search for the nearest records takes is not known before, and by how much the fits of the
    model go on, their variances tell.
    """
    found, n = [], asked.n_files
    table, law = asked.table, None
    persons = table is not None and not isinstance(asked.model, NestedHouseholds)
    observer: Observer
    if table is not None and persons:
        observer = CellLaw.of(table, how["seed"])
        law = _one(asked, "original", table, observer, how)
        if asked.n_halves:
            # By each synthetic file and both halves of the control file, which are no larger.
            test = _one(asked, "file", table, observer, how)
            found.append(Fits(TESTS, test, n + asked.n_halves, (0.25, 1.0)))
    if asked.risk is not None:
        # A synthetic file is about as large. The original's τ1 may be known by an assessment.
        load = foreseen.of_assessment(asked.risk, asked.original, **how)
        found.append(Fits(RISK, load, n + (not asked.known), (1.0, 1.0)))
    if table is None:
        return found
    if persons:
        observer = attacked_persons(table, how["seed"])
    else:
        asked = asked._replace(model=Generator.of(asked.model, table))
        observer = attacked_households(table, asked.model.prepare(table), how["seed"])
    both = joined_table(table, asked.synthetic[0])
    alone = _one(asked, "original", table, observer, how)
    found.append(Fits(RATIO, alone, 1, (1.0, 1.0)))
    joined = _one(asked, "original with a synthetic file", both, observer, how)
    found.append(Fits(RATIO, joined, n, (1.0, 3.0)))
    if law is not None:
        found.append(Fits(BOUND, law, 1, (0.25, 1.0)))
    return found


def _one(
    asked: Fitted, purpose: str, table: CellTable, observer: Observer, how: dict[str, Any]
) -> Workload:
    fit = foreseen.tried(asked.model, asked.label, purpose, table, observer, **how)
    return foreseen.Workload(fits=(fit,))


def parts_of(asked: Fitted, *, timed: bool, **how: Any) -> list[Part]:
    """Return the parts of an attack, of which those without a model are not foreseen."""
    try:
        with counted_alone():
            fits = fits_of(asked, **how)
    except (SpecError, MemoryError, ArithmeticError, np.linalg.LinAlgError):
        # The run says so itself, when it comes to it.
        return []
    found = [Part(name=WITHOUT_MODEL)]
    for name, load, n, work in fits:
        for number in range(n):
            original = name == RISK and not asked.known and number == 0
            found.append(
                Part.counted(
                    load.fits,
                    timed=timed,
                    name=name,
                    like=RISK if name == RISK else "model",
                    work=work,
                    tau1_of=ORIGINAL if original else None,
                )
            )
    places = [place for place, one in enumerate(found) if one.name == RATIO]
    if places:
        times = MOST_TIMES * sum(found[place].work[1] for place in places)
        found.insert(places[-1] + 1, Part(name=GOING_ON, like="model", work=(0.0, times)))
    return found
