"""docs/leaderboard.md and its figure, made of leaderboard.md and results/leaderboard.jsonl.

Tests hold the page and the figure equal to the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from leaderboard_figure import ratios

RESULTS = Path(__file__).parent / "results" / "leaderboard.jsonl"
FRAME = (Path(__file__).parent / "leaderboard.md").read_text(encoding="utf-8")
"""The page around its tables."""
TITLES = (
    "estimator", "error", "by chance", "contained", "above, below", "width", "AUC", "Brier",
    "log score", "τ2", "seconds",
)  # fmt: skip
HEADING = ("| " + " | ".join(TITLES) + " |", "|" + "---|" * len(TITLES))
REFERENCE = "auto"
FIGURE = """![Estimate of τ1 over the truth, a row for each estimator](images/leaderboard.svg)

*Estimate of τ1 over the truth, on a scale of ratios: a mark for each population and size of the
sample, its colour by the share that is sampled; triangles lie beyond the scale. At 1 the estimate
is right; left of it the risk is understated.*
"""

Line = dict[str, Any]


def lines(path: Path = RESULTS) -> list[Line]:
    """Results by population, size and estimator; the last of each counts."""
    if not path.exists():
        return []
    found = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return list({(one["population"], one["n"], one["model"]): one for one in found}.values())


def page(path: Path = RESULTS) -> str:
    """Text of the page."""
    found = lines(path)
    parts = [_made(found), FIGURE, "## All samples\n", *_table(found)] if found else []
    for title, chosen in _by_share(found):
        parts += [f"\n## {title}\n", *_table(chosen)]
    if found:
        parts += ["\n## By population\n", *_by_population(found)]
    return FRAME.replace("{tables}", "\n".join(parts))


def figure(path: Path = RESULTS) -> str:
    """Figure of the page; estimators in the order of its first table."""
    found = lines(path)
    own = {model: [one for one in found if one["model"] == model] for model in _models(found)}
    errors = {model: _error(some, "tau1") for model, some in own.items()}
    known = {model: error for model, error in errors.items() if error is not None}
    return ratios(found, sorted(known, key=lambda model: known[model]))


def write(folder: Path) -> None:
    """Write the page and its figure."""
    (folder / "leaderboard.md").write_text(page(), encoding="utf-8")
    (folder / "images" / "leaderboard.svg").write_text(figure(), encoding="utf-8")


def _made(found: Sequence[Line]) -> str:
    populations = {one["population"] for one in found}
    samples = sum(one["n_samples"] for one in found if one["model"] == REFERENCE)
    dates = sorted({one["date"] for one in found})
    unfinished = sum(one["n_unconverged"] for one in found)
    smoke = " Fits were cut short, to see that everything runs." if found[0]["smoke"] else ""
    return (
        f"{len(populations)} populations, {samples} samples, {dates[0]} to {dates[-1]}, unikat "
        f"{found[-1]['version']}, {found[-1]['machine'].partition(', Python')[0]}. {unfinished} "
        f"fits stopped at a limit before they had converged.{smoke}\n"
    )


def _by_share(found: Sequence[Line]) -> Iterable[tuple[str, list[Line]]]:
    groups = (
        ("Below 2% of the population", lambda share: share < 0.02),
        ("From 2% to 6%", lambda share: 0.02 <= share < 0.06),
        ("From 6%", lambda share: share >= 0.06),
    )
    parts = [(title, [o for o in found if takes(o["n"] / o["N"])]) for title, takes in groups]
    several = [(title, chosen) for title, chosen in parts if chosen]
    return several if len(several) > 1 else []


def _models(found: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(one["model"] for one in found))


def _table(found: Sequence[Line]) -> list[str]:
    """Rows by error; estimators without τ1 at the end."""
    chance = {_place(one): one["records"] for one in found if one["model"] == REFERENCE}
    rows = []
    for model in _models(found):
        own = [one for one in found if one["model"] == model]
        rows.append(_row(model, own, chance))
    rows.sort(key=lambda row: row[0])
    return [*HEADING, *(row[1] for row in rows)]


def _row(model: str, own: Sequence[Line], chance: dict[Any, Any]) -> tuple[float, str]:
    tau1 = [one for one in own if one["tau1"]]
    error = _error(own, "tau1")
    cells = [_percent(error), *_beside_chance([o for o in tau1 if _place(o) in chance], chance)]
    records = [one["records"] for one in own if one["records"]]
    for name, digits in (("auc", 3), ("brier", 4), ("log_score", 4)):
        values = [one[name] for one in records if one[name] is not None]
        cells.append(f"{sum(values) / len(values):.{digits}f}" if values else "–")
    cells.append(_percent(_error(own, "tau2")))
    seconds = [one["seconds"] for one in own if one["seconds"] is not None]
    mean = sum(seconds) / len(seconds) if seconds else None
    cells.append("–" if mean is None else "<0.1" if mean < 0.1 else f"{mean:.3g}")
    return 1e9 if error is None else error, f"| `{model}` | " + " | ".join(cells) + " |"


def _beside_chance(own: Sequence[Line], chance: dict[Any, Any]) -> tuple[str, ...]:
    """Error and width over those that chance makes; intervals that hold the truth."""
    if not own:
        return ("–",) * 4
    least = sum(chance[_place(one)]["by_chance"] for one in own)
    error = f"{sum(one['tau1']['absolute'] for one in own) / least:.2f}"
    intervals = [one for one in own if one["tau1"]["n_intervals"]]
    if not intervals:
        return error, *("–",) * 3
    n, inside, above, below = (
        sum(one["tau1"][name] for one in intervals)
        for name in ("n_intervals", "n_covered", "n_above", "n_below")
    )
    narrow = sum(chance[_place(one)]["width_by_chance"] for one in intervals)
    width = sum(one["tau1"]["width"] for one in intervals) / narrow
    return error, f"{inside} of {n}", f"{above}, {below}", f"{width:.2f}"


def _place(one: Line) -> tuple[str, int]:
    return one["population"], one["n"]


def _error(own: Iterable[Line], measure: str) -> float | None:
    """Sum of the mean absolute errors over that of the mean truths; None without an estimate."""
    found = [one[measure] for one in own if one[measure]]
    truth = sum(one["truth"] for one in found)
    return sum(one["absolute"] for one in found) / truth if truth else None


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}" if share < 1 else f"{share:.0%}"


def _by_population(found: Sequence[Line]) -> list[str]:
    """Error of τ1 by population; the truth is the mean over its samples."""
    models = [m for m in _models(found) if any(o["tau1"] for o in found if o["model"] == m)]
    head = [
        "| population | N | τ1 | " + " | ".join(f"`{model}`" for model in models) + " |",
        "|" + "---|" * (len(models) + 3),
    ]
    rows = []
    for name in dict.fromkeys(one["population"] for one in found):
        own = [one for one in found if one["population"] == name]
        by_model = {model: [one for one in own if one["model"] == model] for model in models}
        first = [one["tau1"]["truth"] for one in by_model[models[0]] if one["tau1"]]
        errors = [_error(by_model[model], "tau1") for model in models]
        cells = ["–" if error is None else f"{error:.0%}" for error in errors]
        truth = sum(first) / max(len(first), 1)
        rows.append(f"| {name} | {own[0]['N']:,} | {truth:.0f} | " + " | ".join(cells) + " |")
    return [*head, *rows]
