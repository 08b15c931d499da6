"""The colours of pages and figures, on light paper, on dark, and in print."""

from __future__ import annotations

from collections.abc import Mapping

_COLOURS = {
    "paper": ("#ffffff", "#14181d"),
    "ink": ("#1b2430", "#e4e8ed"),
    "soft": ("#5b6675", "#9ca7b4"),
    "rule": ("#d9dee5", "#333c47"),
    "wash": ("#f4f6f8", "#1c2229"),
    "main": ("#1f5f8b", "#6fb0dc"),
    "mid": ("#7ba7c4", "#4a7897"),
    "faint": ("#c9dbe7", "#2d4556"),
    "safe": ("#256b3a", "#7fcf98"),
    "mark": ("#b3361e", "#f08a70"),
    "bad": ("#fdf0dc", "#33270f"),
    "bad-ink": ("#7d4400", "#f0c079"),
    "chain0": ("#1f5f8b", "#6fb0dc"),
    "chain1": ("#c2703d", "#e29a6c"),
    "chain2": ("#4d8b5b", "#82c091"),
    "chain3": ("#85589b", "#b994cc"),
    "chain4": ("#9a8412", "#cdb53c"),
    "chain5": ("#2b938c", "#5cc4bc"),
    "chain6": ("#a8486f", "#dc86a8"),
    "chain7": ("#76808c", "#a3adb9"),
}
"""On light paper and on dark."""
LIGHT = {name: pair[0] for name, pair in _COLOURS.items()}
DARK = {name: pair[1] for name, pair in _COLOURS.items()}
PRINT = LIGHT | {
    "ink": "#111111",
    "soft": "#444444",
    "rule": "#c4c9cf",
    "wash": "#f6f6f6",
    "bad": "#ffffff",
}


def declared(palette: Mapping[str, str]) -> str:
    """Write a palette as custom properties of a style sheet."""
    return " ".join(f"--{name}: {colour};" for name, colour in palette.items())


def style() -> str:
    """Write the rules of a page's style sheet that set the colours, by what its reader prefers."""
    return (
        f":root {{ color-scheme: light dark; {declared(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {declared(DARK)} }} }}\n"
        f"@media print {{ :root {{ color-scheme: light; {declared(PRINT)} }} }}"
    )
