"""What a study asks of a generator of synthetic files, and how its files are scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from unikat.inference.plan import Plan
    from unikat.studies.designs import Sample


@dataclass(frozen=True, kw_only=True)
class SyntheticScore:
    """A synthetic file of a sample beside the population, and beside the sample's uniques."""

    n_records: int
    distances: tuple[float, ...]
    """Mean total variation distance of the one-, two- and three-way margins from those of the
    population, 0 to 1; of two keys there are two. Of households: margins of the members, with the
    keys of their households."""
    apart: float | None
    """Mean total variation distance of the tables of one key of two members who live together;
    None where records are no households."""
    reproduced: int
    """Sample uniques whose combination of all keys the file has."""
    reproduced_alone: int
    """Those of them that are unique in the population."""
    claims: int
    """Records that are alone with their combination in the file: an intruder who takes the file
    for a sample claims to have found these persons."""
    true_claims: int
    """Claims whose combination one person of the population has, who is in the sample."""
    inferred: float | None
    """Share of right guesses of a key of a sample unique by its other keys, from the nearest
    records of the file, mean over keys and sample uniques; None without a sample unique, and of
    households."""


class Synthesised(NamedTuple):
    """What a generator made of a sample, scored."""

    score: SyntheticScore
    converged: bool
    """Whether its chains converged; True without chains."""


class Synthesizer(ABC):
    """Makes a synthetic file of a sample, and scores it. It is sent to worker processes."""

    @abstractmethod
    def score(
        self, sample: Sample, second: Sample, *, seed: int, plan: Plan, n_threads: int
    ) -> Synthesised:
        """Make a file of as many records as the sample has, and score it.

        Parameters
        ----------
        sample, second
            The sample, and one of the same size of others of the population.
        seed
            Of this sample.
        plan, n_threads
            Chains, if it needs any.
        """
