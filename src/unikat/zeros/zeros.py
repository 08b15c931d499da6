"""Structural zeros: the rules, and which patterns they make impossible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from unikat._typing import AnyArray, Bool, Int64
from unikat.data.keys import MISSING, Key
from unikat.errors import SpecError
from unikat.kernels.zeros import Diagram
from unikat.language.rules import called, parse
from unikat.zeros.binding import all_forbidden, nothing_forbidden
from unikat.zeros.conditions import Context, Layout, simplified
from unikat.zeros.diagram import NothingPossibleError, build, n_possible, possible
from unikat.zeros.tables import conditions_from_table, everything_forbidden, text_of_table


@dataclass(frozen=True, kw_only=True, eq=False)
class Rule:
    """What a rule, or a table of conditions, makes impossible.

    Parameters
    ----------
    text
        The rule as it was written; of a table, what it is.
    name
        What messages and reports call it; None if its text is to speak for it.
    n_levels
        Levels of each key of the table, n_keys of them.
    keys
        Names of the keys it is about.
    from_table
        Whether it is a table of conditions.
    conditions
        (n_conditions, n_rows): whether a level is in the set of a condition. The levels of key j
        are columns offsets[j] to offsets[j+1]-1; a cell is impossible if there is a condition all
        of whose sets hold its levels.

    Examples
    --------
    >>> keys = [Key.of_size("AGE", 90), Key.of_size("SEX", 2)]
    >>> rule = Rule.of("AGE < 14 and SEX == 1", keys)
    >>> rule.keys, rule.forbids(np.array([[13, 1], [14, 1], [13, -1]])).tolist()
    (('AGE', 'SEX'), [True, False, False])
    """

    text: str
    name: str | None = None
    n_levels: tuple[int, ...]
    keys: tuple[str, ...]
    conditions: Bool
    from_table: bool = False

    @classmethod
    def of(cls, text: str, keys: Sequence[Key], name: str | None = None) -> Rule:
        """Read a rule (see :mod:`unikat.language.rules`).

        Parameters
        ----------
        text
            The rule.
        keys
            The key variables.
        name
            What messages and reports call it.

        Raises
        ------
        SpecError
            If it is no rule, does not fit the keys, or forbids nothing or everything.
        """
        return _read(text, Context(keys), called(text, name=name), name)

    @classmethod
    def of_table(
        cls,
        table: Any,
        keys: Sequence[Key],
        name: str | None = None,
        *,
        encoding: str | None = None,
    ) -> Rule:
        """Read a table of conditions as one rule.

        Parameters
        ----------
        table
            A path or a frame (see :func:`unikat.zeros.conditions_from_table`).
        keys
            The key variables.
        name
            What messages and reports call it.
        encoding
            Character encoding of a file that is not UTF-8.

        Raises
        ------
        SpecError, DataError
            If it cannot be read, does not fit the keys, or forbids everything.
        """
        conditions = conditions_from_table(table, keys, encoding=encoding)
        text = text_of_table(table, len(conditions))
        layout = Layout(n_levels=tuple(key.n_levels for key in keys))
        rule = replace(_rule(conditions, layout, keys, text, name), from_table=True)
        try:
            _ = rule.diagram
        except NothingPossibleError:
            raise everything_forbidden(table) from None
        return rule

    @property
    def offsets(self) -> Int64:
        """First column of each key in `conditions`, and the number of columns, (n_keys + 1,)."""
        return Layout(n_levels=self.n_levels).offsets

    @cached_property
    def constrained(self) -> tuple[int, ...]:
        """Positions of the keys it is about."""
        return _constrained(self.conditions, self.offsets)

    @cached_property
    def diagram(self) -> Diagram:
        """The cells of the keys it is about that this rule alone leaves possible."""
        offsets = self.offsets
        columns = [np.arange(offsets[j], offsets[j + 1], dtype=np.int64) for j in self.constrained]
        inner = np.cumsum([0, *(len(column) for column in columns)]).astype(np.int64)
        return build(self.conditions[:, np.concatenate(columns)], inner)

    @property
    def n_impossible(self) -> int:
        """Number of cells it makes impossible."""
        inner = [self.n_levels[j] for j in self.constrained]
        n_inner = prod(inner)
        return (n_inner - n_possible(self.diagram, inner)) * (prod(self.n_levels) // n_inner)

    def forbids(self, cells: AnyArray) -> Bool:
        """Tell which patterns this rule alone makes impossible, (n,): all their completions.

        Parameters
        ----------
        cells
            (n, n_keys) codes, -1 where missing.
        """
        return ~possible(self.diagram, _checked(cells, self.n_levels)[:, list(self.constrained)])


@dataclass(frozen=True, kw_only=True, eq=False)
class Zeros:
    """The impossible combinations of the keys.

    Parameters
    ----------
    keys
        The key variables of the table, n_keys of them.
    rules
        What declares combinations impossible.
    conditions
        Those of all rules, (n_conditions, n_rows), without repeated ones (see :class:`Rule`).
    diagram
        The possible cells.

    Examples
    --------
    >>> keys = [Key.of_size("AGE", 90), Key.of_size("EDUC", 12), Key.of_size("SEX", 2)]
    >>> zeros = Zeros.of(["AGE < 14 and EDUC >= 11"], keys)
    >>> zeros.n_impossible, zeros.n_cells
    (28, 2160)
    >>> zeros.forbids([[5, 11, 0], [5, -1, 0], [-1, 11, -1]]).tolist()
    [True, False, False]
    """

    keys: tuple[Key, ...]
    rules: tuple[Rule, ...]
    conditions: Bool
    diagram: Diagram

    @classmethod
    def of(
        cls,
        rules: Sequence[str | tuple[str | None, str] | Rule],
        keys: Sequence[Key],
        tables: Sequence[Any] = (),
        *,
        encoding: str | None = None,
    ) -> Zeros:
        """Read rules and tables of conditions.

        Parameters
        ----------
        rules
            Texts, pairs (name, text), or rules that were read for the same keys.
        keys
            The key variables.
        tables
            Paths or frames with a row per impossible combination (see
            :func:`unikat.zeros.conditions_from_table`).
        encoding
            Character encoding of files of conditions that are not UTF-8.

        Raises
        ------
        SpecError
            If a rule is wrong, forbids nothing or everything, or nothing is left possible.
        DataError
            If a table cannot be read.
        """
        if isinstance(rules, str):
            raise SpecError("rules must be a list of texts, such as ['AGE < 14 and EDUC >= 11'].")
        context = Context(keys)
        found = [_any_rule(rule, context, n) for n, rule in enumerate(rules, start=1)]
        found += [Rule.of_table(table, keys, encoding=encoding) for table in tables]
        if not found:
            raise SpecError(
                "There are no rules; write what is impossible, such as 'AGE < 14 and EDUC >= 11'."
            )
        layout = context.layout
        bits = simplified(bits for rule in found for bits in layout.to_bits(rule.conditions))
        conditions = layout.to_array(bits)
        return cls(
            keys=tuple(keys),
            rules=tuple(found),
            conditions=conditions,
            diagram=build(conditions, layout.offsets),
        )

    @property
    def n_levels(self) -> tuple[int, ...]:
        """Number of levels of each key."""
        return tuple(key.n_levels for key in self.keys)

    @property
    def offsets(self) -> Int64:
        """First column of each key in `conditions`, and the number of columns, (n_keys + 1,)."""
        return Layout(n_levels=self.n_levels).offsets

    @property
    def n_cells(self) -> int:
        """Number of combinations of levels, possible or not."""
        return prod(self.n_levels)

    @cached_property
    def n_impossible(self) -> int:
        """Number of impossible combinations."""
        return self.n_cells - n_possible(self.diagram, self.n_levels)

    def forbids(self, cells: AnyArray) -> Bool:
        """Tell which patterns are impossible, (n,): those all of whose completions are.

        Parameters
        ----------
        cells
            (n, n_keys) codes, -1 where missing.
        """
        return ~possible(self.diagram, _checked(cells, self.n_levels))


def _any_rule(rule: str | tuple[str | None, str] | Rule, context: Context, number: int) -> Rule:
    if isinstance(rule, Rule):
        if rule.n_levels != context.layout.n_levels:
            raise SpecError(
                f"Rule {number} was read for keys with other numbers of levels; read it again "
                "with the keys of the table."
            )
        return rule
    pair = (None, rule) if isinstance(rule, str) else rule
    if not isinstance(pair, tuple) or list(map(type, pair[1:])) != [str]:
        raise SpecError(
            f"Rule {number} must be a text, or a pair of name and text; got {type(rule).__name__}."
        )
    name, text = pair
    return _read(text, context, called(text, number, name), name)


def _read(text: str, context: Context, where: str, name: str | None) -> Rule:
    layout = context.layout
    bits = context.conditions(parse(text, where), text, where)
    unit = "combination of levels"
    if not bits:
        raise nothing_forbidden(text, where, unit)
    rule = _rule(layout.to_array(bits), layout, context.keys, text, name)
    everything = not rule.constrained
    if not everything and len(bits) > 1:
        try:
            _ = rule.diagram
        except NothingPossibleError:
            everything = True
    if everything:
        raise all_forbidden(text, where, unit)
    return rule


def holds(text: str, keys: Sequence[Key], cells: AnyArray, where: str) -> Bool:
    """Tell of which patterns a condition on one person is true, (n,); not if a key is missing.

    Parameters
    ----------
    text
        The condition, written as a rule.
    keys
        The keys of the patterns.
    cells
        (n, n_keys) codes, -1 where missing.
    where
        What messages call it.

    Examples
    --------
    >>> keys = [Key.of_size("AGE", 90), Key.of_size("SEX", 2)]
    >>> holds("AGE < 14 or SEX == 1", keys, [[13, -1], [14, 1], [14, -1]], "The rule").tolist()
    [True, True, False]
    """
    context = Context(keys)
    layout = context.layout
    conditions = layout.to_array(context.conditions(parse(text, where), text, where))
    codes, offsets = np.asarray(cells), layout.offsets
    found = np.zeros(len(codes), bool)
    for condition in conditions:
        true = np.ones(len(codes), bool)
        for j in range(len(keys)):
            levels = condition[offsets[j] : offsets[j + 1]]
            if not levels.all():
                true &= np.where(codes[:, j] >= 0, levels[codes[:, j]], False)
        found |= true
    return found


def _rule(
    conditions: Bool, layout: Layout, keys: Iterable[Key], text: str, name: str | None
) -> Rule:
    names = [key.name for key in keys]
    constrained = _constrained(conditions, layout.offsets)
    return Rule(
        text=text,
        name=name,
        n_levels=layout.n_levels,
        keys=tuple(names[j] for j in constrained),
        conditions=conditions,
    )


def _constrained(conditions: Bool, offsets: Int64) -> tuple[int, ...]:
    return tuple(
        j for j in range(len(offsets) - 1) if not conditions[:, offsets[j] : offsets[j + 1]].all()
    )


def _checked(cells: AnyArray, n_levels: tuple[int, ...]) -> AnyArray:
    array = np.asarray(cells)
    if array.ndim != 2 or array.shape[1] != len(n_levels):
        raise SpecError(
            f"Patterns must have shape (n, {len(n_levels)}), a column per key; got {array.shape}."
        )
    if len(array) and ((array < MISSING) | (array >= np.array(n_levels))).any():
        raise SpecError(
            "Patterns hold codes that are no level of their key; codes go from 0, -1 is missing."
        )
    return array
