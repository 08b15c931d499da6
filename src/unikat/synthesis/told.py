"""Synthetic files that other generators made of the samples of a study, scored like ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unikat._typing import Int32
from unikat.errors import DataError
from unikat.studies.designs import Population
from unikat.studies.evaluate import Study, sample_of
from unikat.studies.scores import Fit, FitScore, score_synthetic
from unikat.studies.synthesizers import Synthesised
from unikat.studies.told import check_told
from unikat.synthesis.generators import Measured


@dataclass(frozen=True, kw_only=True, eq=False)
class ToldFile:
    """The synthetic records of one generator and one sample."""

    fit: Fit
    """The name of the generator as the model, and the sample."""
    codes: Int32
    """(n_records, n_keys) codes in the levels of the population."""


def score_files(
    population: Population,
    study: Study,
    files: Sequence[ToldFile],
    synthesizers: Mapping[str, Measured],
) -> Iterator[FitScore]:
    """Score the files of other generators beside the population."""
    scorer = next(iter(synthesizers.values()), None)
    for one in files:
        fit = one.fit
        check_told(fit, study, synthesizers, "synthetic records", "run")
        sample = sample_of(population, study, fit.n, fit.repeat)
        if sample is not None:
            assert scorer is not None
            made = Synthesised(scorer.scored(sample, one.codes), converged=True)
            yield score_synthetic(
                sample, made, model=fit.model, n=fit.n, repeat=fit.repeat, seconds=None
            )


def split_files(
    codes: Int32, names: Sequence[str], n: Sequence[float], repeat: Sequence[float]
) -> list[ToldFile]:
    """Split records by the generator that made them and the sample that it made them of.

    Parameters
    ----------
    codes
        (n_records, n_keys)
    names, n, repeat
        Name of the generator, size and number of the sample, of each record.
    """
    places: dict[Fit, list[int]] = {}
    for place, (name, size, number) in enumerate(zip(names, n, repeat, strict=True)):
        if size != int(size) or number != int(number):
            raise DataError(
                "The columns n and repeat of synthetic records must be whole numbers, as in "
                "samples.parquet."
            )
        places.setdefault(Fit(model=name, n=int(size), repeat=int(number)), []).append(place)
    return [ToldFile(fit=fit, codes=codes[np.array(rows)]) for fit, rows in places.items()]
