"""The colours of pages and figures, on light paper, on dark, and in print."""

from __future__ import annotations

from collections.abc import Mapping

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1b2430",
    "soft": "#5b6675",
    "rule": "#d9dee5",
    "wash": "#f4f6f8",
    "main": "#1f5f8b",
    "mid": "#7ba7c4",
    "faint": "#c9dbe7",
    "mark": "#b3361e",
    "bad": "#fdf0dc",
    "bad-ink": "#7d4400",
    "chain0": "#1f5f8b",
    "chain1": "#c2703d",
    "chain2": "#4d8b5b",
    "chain3": "#85589b",
    "chain4": "#9a8412",
    "chain5": "#2b938c",
    "chain6": "#a8486f",
    "chain7": "#76808c",
}
DARK = {
    "paper": "#14181d",
    "ink": "#e4e8ed",
    "soft": "#9ca7b4",
    "rule": "#333c47",
    "wash": "#1c2229",
    "main": "#6fb0dc",
    "mid": "#4a7897",
    "faint": "#2d4556",
    "mark": "#f08a70",
    "bad": "#33270f",
    "bad-ink": "#f0c079",
    "chain0": "#6fb0dc",
    "chain1": "#e29a6c",
    "chain2": "#82c091",
    "chain3": "#b994cc",
    "chain4": "#cdb53c",
    "chain5": "#5cc4bc",
    "chain6": "#dc86a8",
    "chain7": "#a3adb9",
}
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
