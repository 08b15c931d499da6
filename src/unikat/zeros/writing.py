"""Level sets into the text of a rule, as a person would write it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import inf

from unikat.data.keys import Key
from unikat.data.named_levels import Levels, is_number
from unikat.data.numbers import number_shown
from unikat.data.spans import Interval
from unikat.data.structure import order_of
from unikat.errors import SpecError
from unikat.language.rules import WORDS, parse
from unikat.zeros.conditions import Context

_BARE = re.compile(r"[^\W\d]\w*(?:\.\w+)*")


def rule_text(keys: Sequence[Key], sets: Mapping[int, Iterable[int]]) -> str | None:
    """Write the rule that a combination of levels is impossible.

    Ends of an order are written as comparisons, as in ``AGE < 14``, and most of the levels as
    those left out.

    Parameters
    ----------
    keys
        The key variables.
    sets
        Levels by position of the key; any key that is not named may have any level.

    Returns
    -------
    str or None
        The text, which reads back as the same sets; None if a name or label holds quotation marks
        that no rule can hold.

    Examples
    --------
    >>> age = Key.of_size("AGE", 90)
    >>> sex = Key(name="SEX", levels=(1, 2), labels=("male", "female"))
    >>> rule_text([age, sex], {0: range(14), 1: [1]})
    'AGE < 14 and SEX == "female"'
    """
    parts = []
    for j in sorted(sets):
        part = _part(keys[j], set(sets[j]))
        if part is None:
            return None
        parts.append(part)
    return " and ".join(parts)


def _part(key: Key, chosen: set[int]) -> str | None:
    levels = Levels(key=key)
    if "`" in key.name or "\n" in key.name:
        return None
    bare = _BARE.fullmatch(key.name) and key.name.lower() not in WORDS
    name = key.name if bare else f"`{key.name}`"
    # What reads best comes first; what does not mean just these levels is passed over.
    for text in (*_comparisons(name, levels, chosen), *_lists(name, levels, chosen)):
        if _meant(text, key) == chosen:
            return text
    return None


def _meant(text: str, key: Key) -> set[int] | None:
    """Levels of the key that meet a rule, None if it is none."""
    context = Context([key])
    try:
        found = context.conditions(parse(text), text, "")
    except SpecError:
        return None
    union = 0
    for condition in found:
        union |= condition
    return {code for code in range(key.n_levels) if union >> code & 1}


def _comparisons(name: str, levels: Levels, chosen: set[int]) -> list[str]:
    order = order_of(levels.key)
    if order is None or not levels.views or len(chosen) < 2:
        return []
    view: tuple[Interval, ...] = levels.views[0]
    places = [place for place, code in enumerate(order) if code in chosen]
    first, last = places[0], places[-1]
    if last - first + 1 != len(places):
        return []
    low, high = view[order[first]], view[order[last]]
    texts = []
    if first == 0 and last + 1 < len(order):
        after = view[order[last + 1]]
        texts += [f"{name} < {number_shown(after.low)}"] if after.low > -inf else []
    if last + 1 == len(order) and low.low > -inf:
        texts += [f"{name} {sign} {number_shown(low.low)}" for sign in (">=", ">")]
    if low.low > -inf and high.high < inf:
        texts += [f"{number_shown(low.low)} <= {name} <= {number_shown(high.high)}"]
        texts += [f"{number_shown(low.low)} <= {name} < {number_shown(high.high)}"]
    return texts


def _lists(name: str, levels: Levels, chosen: set[int]) -> list[str]:
    others = set(range(levels.n_named)) - chosen
    texts = []
    for codes, one, several in ((chosen, "==", "in"), (others, "!=", "not in")):
        literals = [_literal(levels, code) for code in sorted(codes)]
        if not literals or any(literal is None for literal in literals):
            continue
        if len(literals) == 1:
            texts.append(f"{name} {one} {literals[0]}")
        else:
            texts.append(f"{name} {several} ({', '.join(map(str, literals))})")
    # Left out are few: then they are told.
    return texts[::-1] if len(others) * 2 <= len(chosen) else texts


def _literal(levels: Levels, code: int) -> str | None:
    value, label = levels.key.levels[code], levels.key.labels[code]
    if is_number(value) and label == str(value) and levels.called(value) == {code}:
        return label
    for said in (label, str(value)):
        if levels.called(said) != {code} or "\n" in said:
            continue
        if '"' not in said:
            return f'"{said}"'
        if "'" not in said:
            return f"'{said}'"
    return None
