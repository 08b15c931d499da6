"""Texts about records in words for households."""

from __future__ import annotations

import pytest

from unikat.report.text.households import of_households, page_of_households


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "660 sample uniques: records that are alone",
            "660 sample uniques: households that are alone",
        ),
        (
            "Records whose r1 is high; records.parquet",
            "Households whose r1 is high; records.parquet",
        ),
        ("variables of a person: the keys", "variables of a household: the keys"),
        ("the person's record", "the person's household"),
        ("It recorded nothing", "It recorded nothing"),
    ],
)
def test_words(text: str, expected: str):
    assert of_households(text) == expected


def test_tags_of_a_page_stay():
    page = '<a href="#records">Records</a><style>.records {}</style><text>12 in 40 records</text>'
    found = page_of_households(page)
    assert (
        found == '<a href="#records">Households</a><style>.records {}</style><text>12 of 40</text>'
    )


def test_the_sentence_on_who_can_be_found_makes_sense():
    said = "anyone who knows these values of a person can find the person&#39;s record."
    assert page_of_households(said) == (
        "anyone who knows these values of a household can find it in the file."
    )
