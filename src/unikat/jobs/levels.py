"""What a level editor shows of a key: its levels with the risk that they carry, and its groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unikat.data.structure import n_named
from unikat.protection.by_hand import meant
from unikat.protection.groups import level_names
from unikat.protection.recoding import KeyRecoding, Recoding, recodable
from unikat.protection.trees import Paths
from unikat.report.facts.breakdown import sums_by_level
from unikat.report.facts.levels import LevelsFacts
from unikat.report.text.plan_words import kind_words
from unikat.risk.estimate import RiskEstimate


@dataclass(frozen=True, kw_only=True)
class Level:
    """A level of a key as it is."""

    value: str
    """As it stands in the file."""
    label: str
    n: int
    """Records."""
    risk: float
    """Expected population uniques among them."""
    path: tuple[str, ...]
    """Groups of a hierarchy that it is in, from the top; none of other keys."""
    valid: bool
    """Whether it can be joined with others: it is not declared missing."""


@dataclass(frozen=True, kw_only=True)
class KeyLevels:
    """The levels of a key. The code of a level is its place."""

    name: str
    title: str
    """Label of the column in a statistical file; else empty."""
    kind: str
    """`nominal`, `ordered`, `hierarchical` or `numeric`."""
    words: str
    """Kind and why, as a sentence."""
    levels: tuple[Level, ...]
    order: tuple[int, ...]
    """Valid levels from the lowest to the highest; empty if they have no order."""
    labels: dict[str, str]
    """What groups of a hierarchy are called."""
    heights: tuple[str, ...]
    """What the groups of each height of a hierarchy are, from the top; `` `` where that is not
    known."""
    n_missing: int
    """Records without a value."""


@dataclass(frozen=True, kw_only=True)
class KeyGroups:
    """The groups of a recoded key; those of one level included."""

    of_level: tuple[int, ...]
    """Group of each level."""
    labels: tuple[str, ...]
    risk: tuple[float, ...]
    """Expected population uniques of each; empty until they are known."""


def key_levels(estimate: RiskEstimate, name: str, kind: str) -> KeyLevels:
    """Tell what is known of the levels of a key.

    Parameters
    ----------
    estimate
        Of the file as it is.
    name
        Of the key.
    kind
        How its levels are meant: `found`, or as `--levels` takes it.

    Raises
    ------
    SpecError
        If the levels cannot be of that kind.
    """
    table = estimate.table
    (at,) = (j for j, key in enumerate(recodable(table)) if key.name == name)
    key = table.keys[at]
    structure, codes = meant(key, kind)
    n, risk = _sums(estimate, at, key.n_levels)
    paths = Paths.of(structure)
    above: dict[int, tuple[str, ...]] = {}
    if paths is not None:
        pairs = zip(codes.tolist(), paths.paths, strict=True)
        above = {code: path[:-1] for code, path in pairs}
    n_levels, names = n_named(key), level_names(key)
    valid = {*codes.tolist()}
    titles = () if paths is None else paths.titles
    return KeyLevels(
        name=name,
        title=key.title,
        kind=structure.kind,
        words=kind_words(LevelsFacts.of_structure(name, structure)),
        levels=tuple(
            Level(
                value=names[code],
                label=key.labels[code],
                n=int(n[code]),
                risk=float(risk[code]),
                path=above.get(code, ()),
                valid=code in valid,
            )
            for code in range(n_levels)
        ),
        order=tuple(codes[structure.order].tolist()) if structure.order is not None else (),
        labels=dict(paths.labels) if paths is not None else {},
        heights=tuple(
            titles[i] if i < len(titles) else ""
            for i in range(0 if paths is None else paths.height)
        ),
        n_missing=int(n[n_levels:].sum()),
    )


def key_groups(
    recoding: Recoding, name: str, estimate: RiskEstimate | None = None
) -> KeyGroups | None:
    """Tell the groups of a key of a recoded file; None if it is left out.

    Parameters
    ----------
    recoding
        What was recoded.
    name
        Of the key.
    estimate
        Of the recoded file; without it no risk is told.
    """
    (place,) = (j for j, one in enumerate(recoding.keys) if one.name == name)
    one = recoding.keys[place]
    if one.key is None:
        return None
    n, risk = n_named(one.key), np.zeros(0)
    if estimate is not None:
        risk = _sums(estimate, recoding.kept.index(place), one.key.n_levels)[1][:n]
    n_levels = len(one.groups) - (one.key.missing_level is not None)
    return KeyGroups(
        of_level=tuple(one.groups[:n_levels].tolist()),
        labels=tuple(one.labels.get(label, label) for label in one.key.labels[:n]),
        risk=tuple(risk.tolist()),
    )


def rows_of(one: KeyRecoding, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Each level of a key with its group, as a hierarchy of one column has them.

    Parameters
    ----------
    one
        A recoding by groups that are named.
    names
        What the levels are called in rules.
    """
    rule = one.rule if isinstance(one.rule, dict) else {}
    return tuple((name, rule.get(name, name)) for name in names)


def _sums(estimate: RiskEstimate, at: int, n_levels: int) -> tuple[np.ndarray, np.ndarray]:
    table = estimate.table
    r1 = np.nan_to_num(estimate.records.r1, nan=0.0)
    n, _, risk = sums_by_level(table.cells[:, at], n_levels, (table.counts, table.unique, r1))
    return n, risk
