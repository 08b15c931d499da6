from __future__ import annotations

from collections.abc import Mapping

import pytest

from unikat.report.pages.colours import DARK, LIGHT, PRINT, style


def luminance(colour: str) -> float:
    """Relative luminance of the accessibility guidelines (WCAG 2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK, PRINT])
def test_text_and_marks_stand_out(palette: Mapping[str, str]) -> None:
    for ink, paper in (
        ("ink", "paper"), ("soft", "paper"), ("ink", "wash"), ("soft", "wash"),
        ("bad-ink", "bad"),
    ):  # fmt: skip
        assert contrast(palette[ink], palette[paper]) >= 4.5, (ink, paper)
    for mark in ("main", "mark", *(f"chain{i}" for i in range(8))):
        assert contrast(palette[mark], palette["paper"]) >= 3.0, mark


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_all_palettes_set_the_same_colours() -> None:
    assert set(LIGHT) == set(DARK) == set(PRINT)
    for name in LIGHT:
        assert style().count(f"--{name}:") == 3
