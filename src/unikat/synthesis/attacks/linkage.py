"""Record linkage of a file with an external one, by Splink on DuckDB (docs/design/linkage.md).

Both files are given to the engine as numbers of levels, so no value of a record is in a message of
it. Candidate pairs are those that agree on all keys of one of a few sets (*blocking*), the sets
being chosen so that a pair of one person agrees on one of them as probably as the number of pairs
allows. The weight of a pair is that of Fellegi and Sunter (1969) with the frequency of each value:
log2 (1 - e) / q of a key that agrees, log2 e / (1 - u) of one that differs, nothing of a missing
one; e is the rate of errors of the key, q the share of the value in both files, and u the chance
that two records agree. Each record is linked to the candidate with the largest weight.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.engine import session
from unikat.errors import SpecError
from unikat.spec.key_errors import Rates
from unikat.synthesis.attacks.rates import Contributions, Rate, rate_of

THRESHOLDS = (0.0, 0.5, 0.9, 0.99)
"""Probabilities from which on a link is accepted."""
USUAL = Rates(wrong=0.05)
"""Errors of a key of which nothing is said."""
MOST_PAIRS = 5_000_000
"""Candidate pairs that are compared, at most; ten of each record where that is more."""
_MOST_SETS = 8
"""Sets of keys on one of which candidates agree."""
_MOST_LEFT_OUT = 4
"""Keys that are not in such a set, at most."""
_TRIED = 400
"""Sets that are looked at."""
_LEAST_WRONG = 1e-6
"""Rate of errors at least, so that one difference does not rule a pair out."""
_TIES = 1e-6
"""By which weights differ that count as the same."""


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """Links that are accepted from a probability on."""

    probability: float
    n_links: int
    """Records that are linked."""
    n_correct: float | None
    """Of these, those linked to the same person, of several candidates with the same weight each by
    its chance; None if the truth is not known."""
    correct: Rate | None
    """The same as a share of the file's records."""
    right: Rate | None
    """As a share of the links."""


@dataclass(frozen=True, kw_only=True)
class LinkFacts:
    """What a linkage engine finds."""

    n_shared: int | None
    """Records of the file whose person is in the external file; None if the truth is not known."""
    n_pairs: int
    """Candidate pairs that were compared."""
    blocking: tuple[tuple[str, ...], ...]
    """Sets of keys, on one of which candidates agree."""
    compared: float
    """Share of the pairs of one person that are candidates, expected by the rates of errors."""
    errors: tuple[tuple[str, float, float], ...]
    """Of each key: its name, the shares of wrong and of missing values."""
    n_single: int
    """Persons who have one record in each file; 0 if the truth is not known."""
    observed: tuple[tuple[str, float, float], ...]
    """The errors that these have, of the keys that some of them shows in both files."""
    accepted: tuple[Accepted, ...]
    """By falling number of links."""
    joined: Accepted
    """What a join on all keys finds; `probability` is 1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Links:
    """Links of the records of a file, the best of each; none of records without a candidate."""

    facts: LinkFacts
    columns: dict[str, Any] = field(repr=False)
    """Of `links.parquet`, (n_links,) each."""


def check_engine() -> None:
    """Refuse to link without the engine (SpecError)."""
    try:
        import splink  # noqa: F401
    except ImportError:
        raise SpecError(
            "Linking with an external file needs the package splink: install it with  pip install "
            "'unikat[link]',  or leave --external out."
        ) from None


def link(
    file: Int32,
    external: Int32,
    names: Sequence[str],
    rates: Sequence[Rates],
    persons: tuple[Int64, Int64] | None,
    *,
    household: Int32 | Int64 | None = None,
    level: float = 0.95,
    n_threads: int = 1,
    memory_limit: str = "2GB",
) -> Links:
    """Link the records of a file with those of an external one.

    Parameters
    ----------
    file, external
        (n, n_keys) and (m, n_keys) codes of the keys, -1 where missing.
    names, rates
        Of the keys, and errors of each in the external file.
    persons
        Number of the person of each record of either file, (n,) and (m,), -1 where not known; None
        if the truth is not known.
    household
        (n,): records that are not independent.
    level
        Probability of the intervals.
    n_threads, memory_limit
        Of the engine.
    """
    check_engine()
    plan = blocking(file, external, rates)
    if not plan.sets:
        raise SpecError(
            "No set of keys has few enough pairs of records that agree on it, so nothing can be "
            "linked. Name more keys, or finer ones."
        )
    engine = _Engine(file, external, rates, plan.sets, persons)
    best, n_pairs = engine.best(n_threads, memory_limit)
    row, probability, n = best["row"], best["probability"], len(file)
    values = best["correct"] if persons is not None else None

    def accepted(least: float) -> Accepted:
        some = probability >= least
        return _accepted(
            least, row[some], None if values is None else values[some], n, household, level
        )

    joined_row, joined_value = _join(file, external, persons)
    shared, n_single, observed = None, 0, tuple[tuple[str, float, float], ...]()
    if persons is not None:
        shared = int((np.isin(persons[0], persons[1]) & (persons[0] >= 0)).sum())
        mine, theirs = _single_pairs(*persons)
        n_single = len(mine)
        observed = _observed(file[mine], external[theirs], names)
    return Links(
        facts=LinkFacts(
            n_shared=shared,
            n_pairs=n_pairs,
            blocking=tuple(tuple(names[j] for j in one) for one in plan.sets),
            compared=plan.compared,
            errors=tuple((name, *one) for name, one in zip(names, rates, strict=True)),
            n_single=n_single,
            observed=observed,
            accepted=tuple(map(accepted, THRESHOLDS)),
            joined=_accepted(1.0, joined_row, joined_value, n, household, level),
        ),
        columns={**best, "row": row + 1, "external_row": best["external_row"] + 1},
    )


def _single_pairs(one: Int64, other: Int64) -> tuple[Int64, Int64]:
    """Rows in both files of the persons who have one record in each."""
    rows = []
    for persons in (one, other):
        known = np.flatnonzero(persons >= 0)
        number, first, counts = np.unique(persons[known], return_index=True, return_counts=True)
        rows.append((number[counts == 1], known[first[counts == 1]]))
    _, mine, theirs = np.intersect1d(rows[0][0], rows[1][0], True, True)
    return rows[0][1][mine].astype(np.int64), rows[1][1][theirs].astype(np.int64)


def _observed(
    file: Int32, external: Int32, names: Sequence[str]
) -> tuple[tuple[str, float, float], ...]:
    """Shares of wrong and of missing values of each key in pairs of one person."""
    found = []
    for name, x, y in zip(names, file.T, external.T, strict=True):
        known = y[x >= 0] >= 0
        if known.any():
            differ = (x != y)[(x >= 0) & (y >= 0)]
            found.append((name, float(differ.mean()), float(1.0 - known.mean())))
    return tuple(found)


class Blocking(NamedTuple):
    """Which pairs are compared."""

    sets: list[list[int]]
    """Keys of each set; a candidate pair agrees on all keys of one."""
    compared: float
    """Probability that a pair of one person is a candidate."""


def blocking(file: Int32, external: Int32, rates: Sequence[Rates]) -> Blocking:
    """Choose sets of keys on one of which the pairs agree that are compared.

    One after the other, each time the one that adds most to the probability that a pair of one
    person agrees on a set, by pair that it adds.
    """
    n_keys = file.shape[1]
    bad = np.array([one.missing + (1.0 - one.missing) * one.wrong for one in rates])
    every = range(n_keys)
    left_out = [
        some
        for size in range(min(_MOST_LEFT_OUT, n_keys - 1) + 1)
        for some in combinations(every, size)
    ][:_TRIED]
    # What goes wrong in a pair: subsets of keys, as far as they are listed.
    of_errors = np.array([[j in some for j in every] for some in left_out], bool)
    chance = np.where(of_errors, bad, 1.0 - bad).prod(axis=1)
    within = (~of_errors[None] | of_errors[:, None]).all(axis=2)
    pairs = np.array([_n_pairs(file, external, ~some) for some in of_errors])
    room, added = max(MOST_PAIRS, 10 * max(len(file), len(external))), 0.0
    covered, chosen = np.zeros(len(left_out), bool), []
    for _ in range(_MOST_SETS):
        gain = np.where(pairs + added <= room, within @ (chance * ~covered), 0.0)
        place = int(np.argmax(gain / (pairs + len(file))))
        if gain[place] <= 1e-9:
            break
        chosen.append(place)
        covered |= within[place]
        added += pairs[place]
    # A pair that agrees on more keys is a candidate by fewer.
    needed = [one for one in chosen if not any(within[two, one] for two in chosen if two != one)]
    sets = [np.flatnonzero(~of_errors[one]).tolist() for one in needed]
    return Blocking(sets, float(chance[covered].sum()))


def _n_pairs(file: Int32, external: Int32, keys: Bool) -> float:
    """Pairs that agree on some keys, none of which is missing."""
    ours, theirs = _joined(file, external, keys)
    n = int(max(ours.max(initial=-1), theirs.max(initial=-1))) + 1
    counts = [np.bincount(one[one >= 0], minlength=n) for one in (ours, theirs)]
    return float(counts[0].astype(np.float64) @ counts[1])


def _joined(file: Int32, external: Int32, keys: Bool) -> tuple[Int64, Int64]:
    """Number of the combination of some keys of each record; -1 where one of them is missing."""
    both = np.concatenate((file[:, keys], external[:, keys]))
    # A sum over the keys: two combinations have the same once in some 10^9 files.
    of_level = np.random.default_rng(0).integers(2**64, size=both.shape[1], dtype=np.uint64)
    number = (both.astype(np.int64).astype(np.uint64) * of_level).sum(axis=1)
    place = np.unique(number, return_inverse=True)[1].ravel().astype(np.int64)
    place[(both < 0).any(axis=1)] = -1
    return place[: len(file)], place[len(file) :]


def _join(
    file: Int32, external: Int32, persons: tuple[Int64, Int64] | None
) -> tuple[Int64, Float64 | None]:
    """Records that agree with others on all keys, and how probably the one taken is right."""
    ours, theirs = _joined(file, external, np.ones(file.shape[1], bool))
    n = int(max(ours.max(initial=-1), theirs.max(initial=-1))) + 1
    times = np.bincount(theirs[theirs >= 0], minlength=n)
    row = np.flatnonzero((ours >= 0) & (times[np.maximum(ours, 0)] > 0)).astype(np.int64)
    if persons is None:
        return row, None
    mine, other = persons
    # Records of the same person that agree on all keys, over all that do.
    n_persons = int(max(mine.max(initial=-1), other.max(initial=-1))) + 1
    known = (other >= 0) & (theirs >= 0)
    same, counts = np.unique(theirs[known] * n_persons + other[known], return_counts=True)
    asked = np.where(mine[row] >= 0, ours[row] * n_persons + mine[row], -1)
    place = np.minimum(np.searchsorted(same, asked), max(len(same) - 1, 0))
    found = np.zeros(len(row))
    if len(same):
        found = np.where(same[place] == asked, counts[place], 0) / times[ours[row]]
    return row, found


def _accepted(
    probability: float,
    row: Int64,
    values: Float64 | None,
    n: int,
    household: Int32 | Int64 | None,
    level: float,
) -> Accepted:
    """Count links of records `row`, `values` of which are right."""
    if values is None:
        return Accepted(
            probability=probability, n_links=len(row), n_correct=None, correct=None, right=None
        )
    whole = np.zeros(n)
    whole[row] = values
    right = None
    if len(row):
        own = None if household is None else household[row]
        right = rate_of(Contributions(values, own), level)
    return Accepted(
        probability=probability,
        n_links=len(row),
        n_correct=float(values.sum()),
        correct=rate_of(Contributions(whole, household), level),
        right=right,
    )


class _Engine(NamedTuple):
    """Splink, with the weights that the rates give."""

    file: Int32
    external: Int32
    rates: Sequence[Rates]
    sets: Sequence[Sequence[int]]
    persons: tuple[Int64, Int64] | None

    def best(self, n_threads: int, memory_limit: str) -> tuple[dict[str, Any], int]:
        """The best candidate of each record, and the number of pairs that were compared.

        Columns, a record in each row: `row` and `external_row` from 0, `weight`
        in bits, `probability` that the pair is of one person, if there is one among the candidates
        or none, `n_tied` candidates with the same weight, and where the truth is known `correct`,
        the share of these that are of the same person.
        """
        from splink import DuckDBAPI, Linker

        prior = 1.0 / max(len(self.file), len(self.external))
        with session((), name="The linkage", memory_limit=memory_limit, threads=n_threads) as con:
            with _quiet():
                api = DuckDBAPI(con)
                tables = [
                    api.register(self._table(place), table_name=name)
                    for place, name in enumerate(("ours", "theirs"))
                ]
                linker = Linker(
                    tables, self._settings(prior), log_level=None, validate_settings=False
                )
                pairs = linker.inference.predict().physical_name
            truth = "sum((p_l = p_r)::INT)::DOUBLE / count(*)" if self.persons else "NULL"
            bits = np.log2(prior / (1.0 - prior))
            found = con.sql(
                f"""
                WITH pairs AS (
                    SELECT a.unique_id AS l, b.unique_id AS r, a.person AS p_l, b.person AS p_r,
                        match_weight AS w, pow(2.0, least(match_weight, 900.0)) AS odds
                    FROM {pairs}
                    JOIN ours AS a ON a.unique_id = unique_id_l
                    JOIN theirs AS b ON b.unique_id = unique_id_r
                ), ranked AS (
                    SELECT *, max(w) OVER of_record AS best, sum(odds) OVER of_record AS total
                    FROM pairs WINDOW of_record AS (PARTITION BY l)
                )
                SELECT l AS row, min(r) AS external_row, max(w) - ({bits}) AS weight,
                    max(odds) / (1.0 + max(total)) AS probability, count(*) AS n_tied,
                    {truth} AS correct
                FROM ranked WHERE w >= best - {_TIES} GROUP BY l ORDER BY l
                """
            ).to_arrow_table()
            n_pairs = con.sql(f"SELECT count(*) FROM {pairs}").fetchall()[0][0]
        columns = {name: found[name].to_numpy() for name in found.column_names}
        if self.persons is None:
            del columns["correct"]
        return columns, int(n_pairs)

    def _settings(self, prior: float) -> Any:
        """What Splink is asked to do: a comparison of each key, and the sets of keys."""
        from splink import SettingsCreator, block_on
        from splink.comparison_library import ExactMatch

        comparisons = []
        for j, rate in enumerate(self.rates):
            stays = 1.0 - max(rate.wrong, _LEAST_WRONG)
            shares = []
            n_levels = int(max(self.file[:, j].max(), self.external[:, j].max())) + 1
            for codes in (self.file[:, j], self.external[:, j]):
                counts = np.bincount(codes[codes >= 0], minlength=max(n_levels, 1))
                shares.append(counts / max(counts.sum(), 1))
            alike = min(max(float(shares[0] @ shares[1]), 1e-9), 1.0 - 1e-9)
            comparisons.append(
                ExactMatch(f"k{j}").configure(
                    term_frequency_adjustments=True,
                    m_probabilities=[stays, 1.0 - stays],
                    u_probabilities=[alike, 1.0 - alike],
                )
            )
        return SettingsCreator(
            link_type="link_only",
            comparisons=comparisons,
            blocking_rules_to_generate_predictions=[
                block_on(*(f"k{j}" for j in some)) for some in self.sets
            ],
            probability_two_random_records_match=prior,
            retain_matching_columns=False,
        )

    def _table(self, place: int) -> Any:
        """A file as Splink takes it: codes of the keys, number of the record, and person."""
        import pyarrow as pa

        codes = (self.file, self.external)[place]
        columns = {
            f"k{j}": pa.array(codes[:, j], mask=codes[:, j] < 0) for j in range(codes.shape[1])
        }
        person = np.full(len(codes), -1) if self.persons is None else self.persons[place]
        columns["unique_id"] = pa.array(np.arange(len(codes)))
        columns["person"] = pa.array(person, mask=person < 0)
        return pa.table(columns)


@contextmanager
def _quiet() -> Iterator[None]:
    """Let the engine say nothing: its messages quote its statements."""
    logger = logging.getLogger("splink")
    before = logger.level, logger.propagate
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before[0])
        logger.propagate = before[1]
