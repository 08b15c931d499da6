"""Terms of hierarchical log-linear models: `A + B:C`, and what follows from them.

A model is given by its *generators*, the maximal sets of keys that interact; all their subsets are
in the model too.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from unikat.data.design import CLASS
from unikat.errors import SpecError, brief, suggest

Generators: TypeAlias = tuple[tuple[int, ...], ...]
"""Sets of key positions, each ascending, none within another, in ascending order."""

NAMED = {"independence": 1, "two-way": 2, "three-way": 3}
"""Names for all interactions of so many keys."""


def maximal(sets: Iterable[Collection[int]]) -> Generators:
    """Keep the sets that are in no other.

    Examples
    --------
    >>> maximal([{0}, {1, 0}, {2}])
    ((0, 1), (2,))
    """
    found = {frozenset(one) for one in sets}
    kept = [one for one in found if not any(one < other for other in found)]
    return tuple(sorted(tuple(sorted(one)) for one in kept))


def all_interactions(n_keys: int, order: int) -> Generators:
    """Generators of the model with all interactions of `order` keys."""
    return maximal(itertools.combinations(range(n_keys), min(order, n_keys)))


def parse_terms(text: str, names: Sequence[str]) -> Generators:
    """Read terms: a name of `NAMED`, or key names joined by `:` within a term, `+` between terms.

    Every key's main effect is in the model, named or not: a model without would give its levels
    equal shares. So is the interaction of every key with the sampling class, if that is among the
    names: within a class unobserved units are like the records, and the classes differ.

    Examples
    --------
    >>> parse_terms("B:C", ["A", "B", "C"])
    ((0,), (1, 2))
    """
    text = text.strip()
    sets: list[set[int]] = [{j} for j in range(len(names))]
    if CLASS in names:
        sets += [{j, names.index(CLASS)} for j in range(len(names))]
    if text in NAMED:
        return maximal([*sets, *all_interactions(len(names), NAMED[text])])
    for term in text.split("+"):
        keys = [key.strip() for key in term.split(":")]
        for key in keys:
            if key not in names:
                unnamed = [name for name in names if ":" in name or "+" in name]
                also = "".join(
                    f" A key with : or + in its name, as {name!r}, must be renamed."
                    for name in unnamed[:1]
                )
                raise SpecError(
                    f"model option terms is {brief(text)!r}, but there is no key {brief(key)!r}."
                    f"{suggest(key, [*names, *NAMED, 'select'])} Write independence, two-way, "
                    f"three-way, select, or terms such as 'A + B:C' of the keys {', '.join(names)}."
                    f"{also}"
                )
        sets.append({names.index(key) for key in keys})
    return maximal(sets)


def write_terms(generators: Generators, names: Sequence[str]) -> str:
    """Write generators as `parse_terms` reads them, by their short name if they have one.

    Examples
    --------
    >>> write_terms(((0,), (1, 2)), ["A", "B", "C"])
    'A + B:C'
    """
    for name, order in NAMED.items():
        if generators == all_interactions(len(names), order):
            return name
    return " + ".join(":".join(names[j] for j in one) for one in generators)


def elimination(generators: Generators, n_keys: int) -> list[tuple[int, tuple[int, ...]]] | None:
    """Order of the keys in which each depends on a clique of earlier ones; None if there is none.

    There is one if and only if the model is decomposable: the graph of the pairs that interact is
    chordal, and its cliques are the generators (Lauritzen 1996, section 4.4). Then the maximum
    likelihood estimate is `prod_v f(v, parents) / f(parents)`.

    Returns
    -------
    list of (key, parents)
        First key first.

    Examples
    --------
    >>> elimination(((0, 1), (1, 2)), 3)
    [(0, ()), (1, (0,)), (2, (1,))]
    >>> elimination(((0, 1), (0, 2), (1, 2)), 3)
    """
    neighbours: list[set[int]] = [set() for _ in range(n_keys)]
    for one in generators:
        for j in one:
            neighbours[j] |= set(one) - {j}
    # Maximum cardinality search: a chordal graph comes out in a perfect order.
    order: list[tuple[int, tuple[int, ...]]] = []
    done: list[int] = []
    while len(done) < n_keys:
        key = max(
            (j for j in range(n_keys) if j not in done),
            key=lambda j: (len(neighbours[j] & set(done)), -j),
        )
        parents = tuple(sorted(neighbours[key] & set(done)))
        if any(b not in neighbours[a] for a, b in itertools.combinations(parents, 2)):
            return None
        order.append((key, parents))
        done.append(key)
    cliques = maximal({key, *parents} for key, parents in order)
    return order if cliques == generators else None
