"""τ of a synthetic file: what an intruder claims who takes it for a real sample, and what is true.

He takes each unique of the synthetic file for a person, and estimates τ1, how many of them are
unique in the population. A claim is true if the combination of keys is that of one person in the
population, and he is in the original.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.patterns import numbered
from unikat.risk.estimate import RiskEstimate, Summary
from unikat.synthesis.attacks.files import Files
from unikat.synthesis.attacks.rates import Rate

_DRAWS = 4_000
_ROOM = 20_000_000
"""Random numbers at once."""


@dataclass(frozen=True, kw_only=True)
class FileClaims:
    """What an intruder claims who takes one synthetic file for real."""

    n_uniques: int
    """Uniques of the synthetic file: his claims."""
    n_replicated: int
    """Those with the keys of a unique of the original."""
    tau1: Summary | None
    """How many of his claims he believes to be unique in the population; None without a fit."""
    true: Rate | None
    """Claims that are true, expected from the record risks of the original, with the interval of
    the number given these risks; None without them."""
    n_true: int | None
    """Claims that are true in the population; None, as what follows, if it is not at hand."""
    n_elsewhere: int | None
    """Claims about the only person of the population with these keys, who is not in the
    original."""
    n_nobody: int | None
    """Claims about keys that nobody in the population has."""


@dataclass(frozen=True, kw_only=True)
class Claims:
    """τ of the synthetic files."""

    model: str | None
    """What τ1 and the record risks were estimated by; None if only counts are told."""
    population_size: int | None
    tau1: Summary | None
    """Of the original."""
    by_file: tuple[FileClaims, ...]


def claimed(
    files: Files,
    r1: Float64 | None,
    estimate: Callable[[int], RiskEstimate] | None,
    *,
    seed: int,
    level: float,
) -> tuple[FileClaims, ...]:
    """Find what is claimed about each synthetic file, and what of it is true.

    Parameters
    ----------
    files
        The files, with the population if it is known.
    r1
        (n_records,): probability that each record of the original is unique in the population, 0
        for those that are not unique in the original; None if it is not known.
    estimate
        Assesses a synthetic file, by its number, as the intruder does; None: he only counts.
    seed, level
        Of the interval of true claims.
    """
    found = []
    for number, synthetic in enumerate(files.synthetic):
        ids = _numbered(files, synthetic)
        made, real = (np.bincount(one, minlength=ids[3]) for one in ids[:2])
        replicated = (made == 1) & (real == 1)
        true = None
        if r1 is not None:
            generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2, number)))
            true = _number_true(r1[replicated[ids[1]]], generator, level)
        n_true = n_elsewhere = n_nobody = None
        if len(files.population):
            people = np.bincount(ids[2], minlength=ids[3])
            n_true = int(np.count_nonzero(replicated & (people == 1)))
            n_elsewhere = int(np.count_nonzero((made == 1) & (real == 0) & (people == 1)))
            n_nobody = int(np.count_nonzero((made == 1) & (people == 0)))
        found.append(
            FileClaims(
                n_uniques=int(np.count_nonzero(made == 1)),
                n_replicated=int(np.count_nonzero(replicated)),
                tau1=None if estimate is None else estimate(number).tau1,
                true=true,
                n_true=n_true,
                n_elsewhere=n_elsewhere,
                n_nobody=n_nobody,
            )
        )
    return tuple(found)


def _numbered(files: Files, synthetic: Int32) -> tuple[Int64, Int64, Int64, int]:
    """Cells of the synthetic records, the original's and the population's, by number."""
    others = [synthetic, files.original, files.population]
    keys = slice(files.n_keys)
    joined = np.concatenate([one[:, keys] for one in others])
    ids, _, n = numbered(joined, joined[:0], files.n_levels[keys])
    made, real, people = np.split(ids, np.cumsum([len(one) for one in others[:2]]))
    return made, real, people, n


def _number_true(risks: Float64, generator: np.random.Generator, level: float) -> Rate:
    """Expected number of events with these probabilities, and the interval of the number."""
    each = max(1, min(_DRAWS, _ROOM // max(len(risks), 1)))
    drawn = [
        (generator.random((each, len(risks))) < risks).sum(axis=1)
        for _ in range(-(-_DRAWS // each))
    ]
    lower, upper = np.quantile(
        np.concatenate(drawn), [0.5 - level / 2.0, 0.5 + level / 2.0], method="nearest"
    )
    return Rate(value=float(risks.sum()), lower=float(lower), upper=float(upper))
