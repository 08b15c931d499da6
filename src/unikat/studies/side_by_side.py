"""Generators of synthetic files beside a second sample: of each, means over the samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from unikat.studies.scores import FitScore
from unikat.studies.synthesizers import SyntheticScore


@dataclass(frozen=True, kw_only=True)
class Beside:
    """A number of the files, beside that of the second samples."""

    mean: float
    """Over the samples in which it is defined."""
    difference: float
    """Mean of the number minus that of the second sample of the same sample."""
    lower: float | None
    """Ends of the interval of the difference (Student's t over the samples); None with one."""
    upper: float | None


@dataclass(frozen=True, kw_only=True)
class SynthesizerScore:
    """One generator on all samples of one size; None where no file was made or none has it."""

    synthesizer: str
    n: int
    n_samples: int
    """Files that were made, converged or not."""
    n_failed: int
    n_unconverged: int
    seconds: float | None
    """Mean time to make and score a file."""
    distances: tuple[Beside, ...]
    """Mean total variation distance of the one-, two- and three-way margins from the
    population's."""
    apart: Beside | None
    """Mean total variation distance of the tables of one key of two members who live together;
    None where the units are persons."""
    reproduced: Beside | None
    """Share of the sample uniques whose combination of all keys the file has."""
    reproduced_alone: Beside | None
    """The same of those that are unique in the population."""
    true_claims: Beside | None
    """Share of the records that are unique in the file whose combination one person of the
    population has, who is in the sample."""
    inferred: Beside | None
    """Share of right guesses of a key of a sample unique by its other keys."""

    @property
    def distance(self) -> float | None:
        """Distance of the largest margins over that of the second samples; 1 is as near."""
        if not self.distances:
            return None
        last = self.distances[-1]
        second = last.mean - last.difference
        return last.mean / second if second > 0.0 else None


def summarise_synthetic(
    scores: Sequence[FitScore], yardstick: str, level: float
) -> tuple[SynthesizerScore, ...]:
    """Pool the files of each generator and size, by order of the sizes, then generators."""
    second = {
        (one.n, one.repeat): one for one in scores if one.model == yardstick and one.synthetic
    }
    pooled = []
    for n in sorted({one.n for one in scores}):
        for name in dict.fromkeys(one.model for one in scores):
            files = [one for one in scores if one.model == name and one.n == n]
            if files:
                pooled.append(_pooled(name, n, files, second, level))
    return tuple(pooled)


def _pooled(
    name: str,
    n: int,
    files: Sequence[FitScore],
    second: dict[tuple[int, int], FitScore],
    level: float,
) -> SynthesizerScore:
    made = [one for one in files if one.synthetic is not None]
    pairs = [(one, second[one.n, one.repeat]) for one in made if (one.n, one.repeat) in second]

    def beside(of: Callable[[FitScore, SyntheticScore], float | None]) -> Beside | None:
        both = []
        for pair in pairs:
            values = [of(one, one.synthetic) for one in pair if one.synthetic is not None]
            known = [value for value in values if value is not None]
            if len(known) == 2:
                both.append(known)
        return _beside(both, level)

    n_orders = min((len(one.synthetic.distances) for one in made if one.synthetic), default=0)
    distances = [beside(_distance(order)) for order in range(n_orders)]
    seconds = [one.seconds for one in made if one.seconds is not None]
    return SynthesizerScore(
        synthesizer=name,
        n=n,
        n_samples=len(made),
        n_failed=len(files) - len(made),
        n_unconverged=sum(not one.converged for one in made),
        seconds=float(np.mean(seconds)) if seconds else None,
        distances=tuple(one for one in distances if one is not None),
        apart=beside(lambda _, found: found.apart),
        reproduced=beside(lambda one, found: _share(found.reproduced, one.n_uniques)),
        reproduced_alone=beside(lambda one, found: _share(found.reproduced_alone, one.tau1_true)),
        true_claims=beside(lambda _, found: _share(found.true_claims, found.claims)),
        inferred=beside(lambda _, found: found.inferred),
    )


def _distance(order: int) -> Callable[[FitScore, SyntheticScore], float]:
    return lambda _, found: found.distances[order]


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _beside(pairs: Sequence[Sequence[float]], level: float) -> Beside | None:
    """Summarise pairs of a file's number and that of the second sample."""
    if not pairs:
        return None
    values, others = np.array(pairs).T
    difference = values - others
    mean = float(difference.mean())
    lower = upper = None
    if len(difference) > 1:
        # Loaded here: it takes as long as all else that an evaluation loads.
        from scipy.stats import t

        error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
        width = float(t.ppf(0.5 + level / 2.0, len(difference) - 1)) * error
        lower, upper = mean - width, mean + width
    return Beside(mean=float(values.mean()), difference=mean, lower=lower, upper=upper)
