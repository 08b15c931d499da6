"""Labels whose words tell an order: levels of education, and answers on a scale."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

_SCALES = (
    # Education, from none to doctor; English and Spanish.
    (
        r"\bno(?:ne| schooling| education)|never attended|nursery|pre-?school|kindergarten|"
        r"early childhood|ningun|sin (?:instrucci|estudios)|inicial|nunca asist",
        r"\bprimary|elementary|grade [1-6]\b|[1-6](?:st|nd|rd|th) grade|primaria|básica|basica",
        r"lower secondary|middle|junior|grade (?:[7-9]|1[01])\b|(?:[7-9]|1[01])th grade|"
        r"no diploma|secundaria incompleta|(?:less|lower) than (?:high|upper)",
        r"^(?!.*(?:lower|post)).*secondary|high school|\bged\b|upper secondary|a-level|secundaria|"
        r"bachillerato",
        r"post-?secondary|vocational|apprentice|some college|associate|short-cycle|technic|"
        r"técnic|tecnic|superior incompleta|universitari[ao] incompleta",
        r"bachelor|university degree|undergraduate|graduate degree|universitari[ao] complet|"
        r"licenciatura|tertiary|superior complet",
        r"\bmaster|postgraduate|maestr|posgrado|máster|professional (?:degree|school)",
        r"doctor|ph\.?d",
    ),
    # How good, how often, how much: the ends and the middle.
    (
        r"^(?:very|extremely) (?:bad|poor)|^muy mal[ao]?",
        r"^(?:bad|poor)\b|^mal[ao]?\b",
        r"^(?:fair|regular|average|moderate|neither)\b",
        r"^good\b|^buen[ao]?\b",
        r"^(?:very|extremely) good|^excellent|^muy buen[ao]?|^excelente",
    ),
    (r"^never|^nunca", r"^rarely|^seldom|^rara", r"^sometimes|^a veces", r"^often|^a menudo",
     r"^always|^siempre"),
    (r"strongly disagree", r"^disagree", r"^neither|^neutral", r"^agree", r"strongly agree"),
    (r"^(?:very )?low\b|^baj[ao]\b", r"^(?:medium|middle|mid)\b|^medi[ao]\b",
     r"^(?:very )?high\b|^alt[ao]\b"),
)  # fmt: skip
_SHARE = 0.75
"""Of the labels, that have a place on a scale at least; the others may stand anywhere."""
_FEWEST = 3
"""Places of a scale that labels have at least."""


def tell_an_order(labels: Sequence[str]) -> bool:
    """Whether the words of labels rise, or fall, along one scale in the order of their codes.

    Examples
    --------
    >>> tell_an_order(["No schooling", "Primary", "Secondary", "Bachelor's degree"])
    True
    >>> tell_an_order(["Very good", "Good", "Fair", "Bad"]), tell_an_order(["Good", "Bad", "Fair"])
    (True, False)
    """
    for scale in _SCALES:
        places = [_place(label.casefold(), scale) for label in labels]
        known = [place for place in places if place is not None]
        if len({*known}) < _FEWEST or len(known) < _SHARE * len(labels):
            continue
        if all(a <= b for a, b in pairwise(known)) or all(a >= b for a, b in pairwise(known)):
            return True
    return False


def _place(label: str, scale: Sequence[str]) -> int | None:
    """Place of a label on a scale, the last that it has words of; None if it has none."""
    found = [place for place, words in enumerate(scale) if re.search(words, label)]
    return found[-1] if found else None
