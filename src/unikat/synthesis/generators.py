"""Generators of synthetic files side by side: of one sample, beside the population behind it.

| generator | makes |
|---|---|
| `ByModel` | records from a state of a fitted mixture, as `unikat synthesize` does |
| `cart` | keys one after the other, each by a classification tree of those before it |
| `independence` | every key by itself, by its shares in the sample |
| `second_sample` | nothing: the records of other persons of the population. It is the yardstick |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from unikat._typing import Int32, Int64
from unikat.data.patterns import distinct, is_in
from unikat.data.table import CellTable
from unikat.errors import SpecError, UnikatError
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.plan import Plan
from unikat.models.base import AnyModel
from unikat.models.named import build_model
from unikat.spec.evaluation import COMPARATORS, SECOND_SAMPLE
from unikat.spec.model import ModelSpec
from unikat.studies.designs import Population, Sample
from unikat.studies.synthesizers import Synthesised, Synthesizer, SyntheticScore
from unikat.synthesis.attacks.files import Files
from unikat.synthesis.attacks.model_free import Setting, inference
from unikat.synthesis.convergence import SynthesisMeasures
from unikat.synthesis.generate import draw_households, draw_persons, posterior_states
from unikat.synthesis.utility import margin_distances

MIN_LEAF = 5
"""Records of a leaf at least, as in synthpop."""
MIN_SPLIT = 15
"""Records of a node that is split at least, as in synthpop: rpart takes three leaves."""
ENOUGH = 100.0
"""Effective sample size with which a chain may stop, as in `unikat synthesize`."""
_PURPOSE = 0x59
"""Part of the seed of draws that no chain makes."""


class Training(NamedTuple):
    """What a generator is given."""

    table: CellTable
    """The sample."""
    second: CellTable
    """Another sample of the same population."""
    seed: int
    plan: Plan
    n_threads: int

    @property
    def codes(self) -> Int32:
        """Records of the sample, (n, n_keys)."""
        return self.table.cells[self.table.record_cell]

    @property
    def rng(self) -> np.random.Generator:
        """Random numbers of this sample."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(_PURPOSE,)))


class Made(NamedTuple):
    """A synthetic file."""

    codes: Int32
    """(n, n_keys)"""
    converged: bool = True


Generator = Callable[[Training], Made]


@dataclass(frozen=True)
class ByModel:
    """Draws records, or households, from the posterior predictive distribution of a model."""

    model: AnyModel

    def __call__(self, training: Training) -> Made:
        """Fit the model and draw from the last state of its first chain."""
        table, plan = training.table, training.plan
        stop = replace(plan.stop, ess=min(plan.stop.ess, ENOUGH))
        draws = sample(
            self.model,
            table,
            SynthesisMeasures.of(table),
            seed=training.seed,
            plan=replace(plan, stop=stop),
            workers=Workers(n_workers=1, n_threads=training.n_threads),
        )
        if draws.stop_reason == "interrupted":
            raise KeyboardInterrupt
        data = self.model.prepare(table)
        at = next(posterior_states(draws, self.model, data, 1, training.n_threads))
        if table.layout is None:
            return Made(draw_persons(at, self.model, data, table, table), draws.converged)
        rows = draw_households(at, data, table.layout.rules, table, table)
        return Made(rows, draws.converged)


def cart(training: Training) -> Made:
    """Draw the keys in their order, each from the records in its leaf of a classification tree.

    The tree of a key is grown on the keys before it, whose levels it takes in their order; a leaf
    has at least five records, and splits that tell no value better are taken back. The first key
    has its shares in the sample. So does the program synthpop of R by default, but for the order of
    levels.
    """
    codes, rng = training.codes, training.rng
    made = np.empty_like(codes)
    made[:, 0] = rng.choice(codes[:, 0], len(codes))
    for key in range(1, codes.shape[1]):
        made[:, key] = cart_values(codes[:, :key], codes[:, key], made[:, :key], rng)
    return Made(made)


def cart_values(known: Int32, values: Int32, wanted: Int32, rng: np.random.Generator) -> Int32:
    """Grow a tree of values on what is known, and draw from the leaves of what is wanted.

    Parameters
    ----------
    known, values
        (n, n_columns) and (n,): of the sample.
    wanted
        (n_wanted, n_columns): of the synthetic records.
    rng
        For the draws.
    """
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        raise UnikatError(
            "The synthesizer cart needs scikit-learn. Install it with  "
            "pip install 'unikat[cart]',  or leave cart out."
        ) from None
    tree = DecisionTreeClassifier(
        min_samples_leaf=MIN_LEAF,
        min_samples_split=MIN_SPLIT,
        random_state=int(rng.integers(2**31)),
    )
    tree.fit(known, values)
    leaves, grown = tree.apply(known), tree.tree_
    kept = _pruned(leaves, values, grown.children_left, grown.children_right)
    return _from_leaves(kept[leaves], values, kept[tree.apply(wanted)], rng)


def _pruned(leaves: Int64, values: Int32, left: Int64, right: Int64) -> Int64:
    """Node that stands for each node, (n_nodes,), once splits that correct nothing are taken back.

    A split corrects something if more records have the commonest value of their leaf than have that
    of the node: the cost of Breiman and others (1984), by which rpart prunes though it splits by
    another one. Children are numbered after their parents.
    """
    counts = np.zeros((len(left), int(values.max()) + 1), dtype=np.int64)
    np.add.at(counts, (leaves, values), 1)
    correct = counts.max(axis=1)
    inner = np.flatnonzero(left >= 0)
    for node in inner[::-1]:
        counts[node] = counts[left[node]] + counts[right[node]]
        correct[node] = correct[left[node]] + correct[right[node]]
    idle = counts.max(axis=1) == correct
    kept = np.arange(len(left))
    for node in inner:
        if idle[node] or kept[node] != node:
            kept[left[node]] = kept[right[node]] = kept[node]
    return kept


def _from_leaves(leaves: Int64, values: Int32, wanted: Int64, rng: np.random.Generator) -> Int32:
    """Draw for each wanted leaf the value of one of its records."""
    order = np.argsort(leaves, kind="stable")
    sizes = np.bincount(leaves, minlength=int(wanted.max()) + 1)
    first = np.cumsum(sizes) - sizes
    chosen: Int32 = values[order[first[wanted] + rng.integers(sizes[wanted])]]
    return chosen


def independence(training: Training) -> Made:
    """Draw every key by itself from its values in the sample."""
    codes, rng = training.codes, training.rng
    return Made(np.stack([rng.choice(column, len(codes)) for column in codes.T], axis=1))


def second_sample(training: Training) -> Made:
    """Take the records of the second sample."""
    return Made(training.second.cells[training.second.record_cell])


OTHERS: dict[str, Generator] = dict(
    zip(COMPARATORS, (cart, independence, second_sample), strict=True)
)
"""Generators that are no model, by name."""


def generators(labels: Iterable[str]) -> dict[str, Generator]:
    """Make generators by their labels; the second sample is always among them."""
    found: dict[str, Generator] = {}
    for label in dict.fromkeys([*labels, SECOND_SAMPLE]):
        asked = ModelSpec.of(label)
        if asked.name not in OTHERS:
            found[asked.label] = ByModel(build_model(asked.name, asked.options))
        elif asked.options:
            raise SpecError(f"The synthesizer {asked.name} has no options; leave them out.")
        else:
            found[asked.label] = OTHERS[asked.name]
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured(Synthesizer):
    """A generator whose files are scored beside a population."""

    make: Generator
    cells: Int32 = field(repr=False)
    """Of the population, (n_cells, n_keys)."""
    counts: Int64 = field(repr=False)
    """Persons in each, (n_cells,)."""

    @classmethod
    def of(cls, make: Generator, population: Population) -> Measured:
        """Score a generator beside a population of persons."""
        return cls(make=make, cells=population.table.cells, counts=population.table.counts)

    def score(
        self, sample: Sample, second: Sample, *, seed: int, plan: Plan, n_threads: int
    ) -> Synthesised:
        """Make a file of a sample, and score it; see `Synthesizer.score`."""
        made = self.make(Training(sample.table, second.table, seed, plan, n_threads))
        return Synthesised(self.scored(sample, made.codes, n_threads), made.converged)

    def scored(self, sample: Sample, codes: Int32, n_threads: int = 1) -> SyntheticScore:
        """Score a synthetic file, (n, n_keys) codes in the levels of the population."""
        table, n_levels = sample.table, sample.table.n_levels
        uniques = table.cells[table.unique]
        alone = uniques[sample.population_counts[table.unique] == 1]
        found = distinct(codes, n_levels)
        cells = codes[found.first]
        claimed = cells[found.counts == 1]
        return SyntheticScore(
            n_records=len(codes),
            distances=self.distances(codes, table),
            apart=self.apart(codes),
            reproduced=int(is_in(uniques, cells, n_levels).sum()),
            reproduced_alone=int(is_in(alone, cells, n_levels).sum()),
            claims=len(claimed),
            true_claims=int(is_in(claimed, alone, n_levels).sum()),
            inferred=self.inferred(sample, codes, n_threads),
        )

    def distances(self, codes: Int32, table: CellTable) -> tuple[float, ...]:
        """Distances of the one-, two- and three-way margins, as `SyntheticScore` has them."""
        return margin_distances(self.cells, self.counts, codes, table.n_levels)

    def apart(self, codes: Int32) -> float | None:
        """Distance of pairs of members: records are no households."""
        return None

    def inferred(self, sample: Sample, codes: Int32, n_threads: int) -> float | None:
        """Share of right guesses of a key of the sample uniques by its nearest records."""
        return _inferred(sample.table, codes, n_threads)


def _inferred(table: CellTable, codes: Int32, n_threads: int) -> float | None:
    """Share of right guesses of a key of the sample uniques by the nearest records of a file."""
    unique = np.flatnonzero(table.unique[table.record_cell])
    if not len(unique):
        return None
    nobody = np.empty((0, table.n_keys), np.int32)
    files = Files(
        names=tuple(key.name for key in table.keys),
        n_keys=table.n_keys,
        n_levels=table.n_levels,
        original=table.cells[table.record_cell],
        synthetic=(codes,),
        control=nobody,
        population=nobody,
    )
    setting = Setting(
        files=files, original=unique, control=np.empty(0, np.int64), n_threads=n_threads
    )
    shares = [inference(key)(setting, codes).own.mean() for key in range(table.n_keys)]
    return float(np.mean(shares))
