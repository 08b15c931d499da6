"""docs/leaderboard.md and its figures, made of leaderboard.md and of files in results/.

Tests hold the page and the figures equal to the files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from leaderboard_chance import NORMAL, SMALL, by_size
from leaderboard_figure import among_populations, coverage_and_width, ratios

RESULTS = Path(__file__).parent / "results" / "leaderboard.jsonl"
MEMORY = RESULTS.with_name("leaderboard-memory.json")
FRAME = (Path(__file__).parent / "leaderboard.md").read_text(encoding="utf-8")
"""The page around its tables."""
TITLES = (
    "estimator", "error", "by chance", "contained", "above, below", "width", "AUC", "Brier",
    "log score", "τ2", "seconds",
)  # fmt: skip
HEADING = ("| " + " | ".join(TITLES) + " |", "|" + "---|" * len(TITLES))
REFERENCE, CLAIRVOYANT = "auto", "clairvoyant"
FEW = 5
"""Samples by which the error of a model is told from chance, at least."""
MODELS = ("auto", "loglinear", "skinner-holmes", "individual-risk")
KNOW = {
    "persons": None,
    "households": ("auto", CLAIRVOYANT),
    "unequal": (*MODELS, "benedetti-franconi", CLAIRVOYANT),
    "missing-2": (*MODELS, CLAIRVOYANT),
    "missing-7": (*MODELS, CLAIRVOYANT),
}
"""Estimators that are told what a design does; of simple samples there is nothing to tell."""
TITLE = {
    "persons": "Simple random samples of persons",
    "households": "Whole households",
    "unequal": "Unequal chances",
    "missing-2": "2% of the values missing",
    "missing-7": "7% of the values missing",
}
SHORT = {
    "persons": "persons",
    "households": "households",
    "unequal": "unequal",
    "missing-2": "2% missing",
    "missing-7": "7% missing",
}
_MISSING = (
    "Every value of a sample was set missing with the same probability. The truth is that of all "
    "values. Estimators with † take the complete records, and their totals are scaled to all "
    "records; AUC, Brier and log score are of the complete records for everybody."
)
DRAWN = {
    "persons": "",
    "households": "All members of the households that are drawn are in the sample, and share the "
    "keys of the household. Estimators with † take them for persons who were drawn one by one.",
    "unequal": "As many persons from every region, state or stratum, so that weights differ. "
    "Estimators with † know nothing of weights or strata.",
    "missing-2": _MISSING,
    "missing-7": _MISSING,
}
FIGURE = """![Estimate of τ1 over the truth, a row for each estimator](images/leaderboard.svg)

*Estimate of τ1 over the truth, on a scale of ratios: a mark for each population and size of the
sample, its colour by the share that is sampled; triangles lie beyond the scale. At 1 the estimate
is right; left of it the risk is understated.*
"""
WIDTHS = """![Coverage of intervals against their width](images/leaderboard-width.svg)

*Share of the 95% intervals that contained the truth against their width, over the width of the
interval of who knows the risks: a mark for each model and design. Good intervals lie at the line
of 95%, as far left as they can.*
"""
AUCS = """![AUC of each population, a row each](images/leaderboard-auc.svg)

*AUC in simple random samples of persons: how well r1 tells population uniques from other sample
uniques. 0.5 is a guess.*
"""

Line = dict[str, Any]


def lines(path: Path = RESULTS) -> list[Line]:
    """Results by design, population, size and estimator; the last of each counts."""
    if not path.exists():
        return []
    found = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    every = ({"design": "persons"} | one for one in found)
    return list({(*_place(one), one["model"]): one for one in every}.values())


def page(path: Path = RESULTS) -> str:
    """Text of the page."""
    found = lines(path)
    if not found:
        return FRAME.replace("{tables}", "")
    parts = [_made(found), *_glance(found), FIGURE]
    for design, title in TITLE.items():
        of_design = [one for one in found if one["design"] == design]
        if of_design:
            parts += [f"\n## {title}\n", *_part(design, of_design)]
    persons = [one for one in found if one["design"] == "persons"]
    parts += ["\n## Coverage against width\n", WIDTHS, *_calibration(found), *_aucs(persons)]
    parts += by_size([one["tau1"]["truth"] for one in _large(_of(REFERENCE, persons))])
    for title, chosen in _by_share(persons):
        parts += [f"\n## {title}\n", *_table(chosen)]
    parts += ["\n## By population\n", *_by_population(persons), *_memory()]
    return FRAME.replace("{tables}", "\n".join(parts))


def figures(path: Path = RESULTS) -> dict[str, str]:
    """Figures of the page by the name of their file; estimators in the order of its first table."""
    found = lines(path)
    persons = [one for one in found if one["design"] == "persons"]
    errors = {model: _error(_of(model, persons), "tau1") for model in _models(persons)}
    known = {model: error for model, error in errors.items() if error is not None}
    points = [
        (model, design, *beside)
        for design in TITLE
        for model in MODELS
        if (beside := _interval(_of(model, [o for o in found if o["design"] == design]), found))
    ]
    return {
        "leaderboard.svg": ratios(persons, sorted(known, key=lambda model: known[model])),
        "leaderboard-width.svg": coverage_and_width(points),
        "leaderboard-auc.svg": among_populations(_auc_of_populations(persons)),
    }


def write(folder: Path) -> None:
    """Write the page and its figures."""
    (folder / "leaderboard.md").write_text(page(), encoding="utf-8")
    for name, text in figures().items():
        (folder / "images" / name).write_text(text, encoding="utf-8")


def _made(found: Sequence[Line]) -> str:
    first = _of(REFERENCE, found)
    populations = {one["population"] for one in first}
    dates = sorted({one["date"] for one in found})
    unfinished = sum(one["n_unconverged"] for one in found)
    samples = ", ".join(
        f"{sum(one['n_samples'] for one in first if one['design'] == design)} ({title.lower()})"
        for design, title in TITLE.items()
        if any(one["design"] == design for one in first)
    )
    short = sorted(one["evidence"] for one in first if one.get("evidence"))
    evidence = (
        f" In {len(short)} of the samples `auto` selects by {short[0]:g} to {short[-1]:g} seconds "
        "of work on the evidence in place of 60."
        if short
        else ""
    )
    smoke = " Fits were cut short, to see that everything runs." if found[0]["smoke"] else ""
    return (
        f"{len(populations)} populations; samples: {samples}. {dates[0]} to {dates[-1]}, unikat "
        f"{found[-1]['version']}, {found[-1]['machine'].partition(', Python')[0]}, busy with "
        f"other work, so that times are rough. {unfinished} fits stopped at a limit before they "
        f"had converged.{evidence}{smoke}\n"
    )


def _glance(found: Sequence[Line]) -> Iterator[str]:
    """Where `auto` stands in each design: its place, and who comes before or next."""
    yield (
        "| samples | error | place | best of others | log score | place | by chance | contained "
        "| width |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for design, title in SHORT.items():
        others = [o for o in found if o["design"] == design and o["model"] != CLAIRVOYANT]
        own = _of(REFERENCE, others)
        if not _large(own):
            continue
        models = _models(others)
        errors = {m: e for m in models if (e := _error(_of(m, others), "tau1")) is not None}
        scores = {
            m: -sum(one["records"]["log_score"] for one in some) / len(some)
            for m in models
            if (some := [one for one in _of(m, others) if one["records"]])
        }
        best = min((m for m in errors if m != REFERENCE), key=lambda m: errors[m], default=None)
        beside = "–" if best is None else f"`{best}` {_percent(errors[best])}"
        by_chance, contained, _, width = _beside_chance(own, others)
        yield (
            f"| {title} | {_percent(errors[REFERENCE])} | {_rank(errors)} | {beside} | "
            f"{-scores[REFERENCE]:.3f} | {_rank(scores)} | {by_chance} | {contained} | {width} |"
        )
    yield "\n*Where `auto` stands. A place in few samples says little.*\n"


def _memory() -> Iterator[str]:
    """Memory of each estimator, where it was measured."""
    if not MEMORY.exists():
        return
    found = json.loads(MEMORY.read_text(encoding="utf-8"))
    yield "\n## Memory\n"
    yield (
        f"Peak memory of a process of its own over what it held with the sample read; "
        f"{found['population']}, n = {found['n']:,} ({found['machine']}; "
        "`benchmarks/leaderboard_memory.py`). `formulas` are all published formulas together.\n"
    )
    yield "| estimator | MB |"
    yield "|---|---|"
    yield from (f"| `{name}` | {mb:,} |" for name, mb in found["mb"].items())


def _rank(values: dict[str, float]) -> str:
    """Place of `auto` among those that have a value, the least first."""
    before = sum(value < values[REFERENCE] for value in values.values())
    return f"{before + 1} of {len(values)}"


def _part(design: str, found: Sequence[Line]) -> Iterator[str]:
    """What is said of a design."""
    if DRAWN[design]:
        yield DRAWN[design] + "\n"
    small = [one for one in _of(REFERENCE, found) if one["tau1"]["truth"] < SMALL]
    if small:
        names = ", ".join(one["population"] for one in small)
        yield f"Left out of error and width, with fewer than {SMALL} population uniques: {names}.\n"
    yield from _table(found)
    without = sorted({one["model"] for one in found if one["n_failed"]})
    if without:
        yield "\nNo estimate in some samples: " + ", ".join(f"`{name}`" for name in without) + "."
    own = _large(_of(REFERENCE, found))
    if len(own) >= FEW:
        error, chance = (
            math.sqrt(_mean(own, lambda one, name=name: _relative(one, name) ** 2))
            for name in ("rmse", "chance")
        )
        model = math.sqrt(max(error**2 - chance**2, 0.0))
        yield (
            f"\nRoot mean squared error of `auto`: {error:.1%} of τ1, of which {chance:.1%} is "
            f"chance and {model:.1%} error of the model (squares add)."
        )


def _relative(one: Line, name: str) -> float:
    """Error of τ1, or standard deviation by chance, over the truth."""
    if name == "chance":
        return NORMAL * one["records"]["by_chance"] / one["tau1"]["truth"]
    return one["tau1"][name] / one["tau1"]["truth"]


def _mean(own: Sequence[Line], value: Any) -> float:
    """Mean over samples."""
    n = sum(one["n_samples"] for one in own)
    return sum(one["n_samples"] * value(one) for one in own) / n


def _large(own: Iterable[Line]) -> list[Line]:
    return [one for one in own if one["tau1"] and one["tau1"]["truth"] >= SMALL]


def _of(model: str, found: Iterable[Line]) -> list[Line]:
    return [one for one in found if one["model"] == model]


def _by_share(found: Sequence[Line]) -> Iterable[tuple[str, list[Line]]]:
    groups = (
        ("Persons: below 2% of the population", lambda share: share < 0.02),
        ("Persons: from 2% to 6%", lambda share: 0.02 <= share < 0.06),
        ("Persons: from 6%", lambda share: share >= 0.06),
    )
    parts = [(title, [o for o in found if takes(o["n"] / o["N"])]) for title, takes in groups]
    several = [(title, chosen) for title, chosen in parts if chosen]
    return several if len(several) > 1 else []


def _models(found: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(one["model"] for one in found))


def _table(found: Sequence[Line]) -> list[str]:
    """Rows by error; estimators without τ1 at the end."""
    rows = [_row(model, _of(model, found), found) for model in _models(found)]
    rows.sort(key=lambda row: row[0])
    return [*HEADING, *(row[1] for row in rows)]


def _row(model: str, own: Sequence[Line], found: Sequence[Line]) -> tuple[float, str]:
    know = KNOW[own[0]["design"]]
    error = _error(own, "tau1")
    cells = [_percent(error), *_beside_chance(own, found)]
    records = [one["records"] for one in own if one["records"]]
    for name, digits in (("auc", 3), ("brier", 4), ("log_score", 4)):
        values = [one[name] for one in records if one[name] is not None]
        cells.append(f"{sum(values) / len(values):.{digits}f}" if values else "–")
    cells.append(_percent(_error(own, "tau2")))
    seconds = [one["seconds"] for one in own if one["seconds"] is not None]
    mean = sum(seconds) / len(seconds) if seconds else None
    cells.append("–" if mean is None else "<0.1" if mean < 0.1 else f"{mean:.3g}")
    mark = "" if know is None or model in know else " †"
    return 1e9 if error is None else error, f"| `{model}`{mark} | " + " | ".join(cells) + " |"


def _beside_chance(own: Sequence[Line], found: Sequence[Line]) -> tuple[str, ...]:
    """Error and width over those that chance makes; intervals that contain the true value."""
    chance = _chances(found)
    beside = [one for one in _large(own) if _place(one) in chance]
    if not beside:
        return ("–",) * 4
    least = _mean(beside, lambda one: chance[_place(one)]["by_chance"] / one["tau1"]["truth"])
    error = f"{_mean(beside, lambda one: _relative(one, 'absolute')) / least:.2f}"
    interval = _interval(own, found)
    if interval is None:
        return error, *("–",) * 3
    n, inside, above, below = (
        sum(one["tau1"][name] for one in own if one["tau1"] and one["tau1"]["n_intervals"])
        for name in ("n_intervals", "n_covered", "n_above", "n_below")
    )
    return error, f"{inside} of {n}", f"{above}, {below}", f"{interval[1]:.2f}"


def _interval(own: Sequence[Line], found: Sequence[Line]) -> tuple[float, float] | None:
    """Share of intervals that contained the truth, and width over that of who knows the risks."""
    chance = _chances(found)
    with_ends = [one for one in own if one["tau1"] and one["tau1"]["n_intervals"]]
    beside = [one for one in _large(with_ends) if _place(one) in chance]
    if not beside:
        return None
    n, inside = (sum(one["tau1"][k] for one in with_ends) for k in ("n_intervals", "n_covered"))
    narrow = _mean(
        beside, lambda one: chance[_place(one)]["width_by_chance"] / one["tau1"]["truth"]
    )
    return inside / n, _mean(beside, lambda one: _relative(one, "width")) / narrow


def _chances(found: Iterable[Line]) -> dict[Any, Any]:
    return {_place(one): one["records"] for one in _of(REFERENCE, found)}


def _place(one: Line) -> tuple[str, str, int]:
    return one["design"], one["population"], one["n"]


def _error(own: Iterable[Line], measure: str) -> float | None:
    """Mean relative error; None without an estimate."""
    found = [one for one in own if one[measure] and one[measure]["truth"] >= SMALL]
    if not found:
        return None
    return _mean(found, lambda one: one[measure]["absolute"] / one[measure]["truth"])


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}" if share < 1 else f"{share:.0%}"


def _calibration(found: Sequence[Line]) -> Iterator[str]:
    """Predicted and true shares of population uniques by tenths of r1, all designs."""
    models = [model for model in _models(found) if any(o["r1_groups"] for o in _of(model, found))]
    yield "\n## Calibration of r1\n"
    yield (
        "Sample uniques of all samples and designs, by tenths of r1: mean r1 and, after the slash, "
        "the share that is population unique. Equal numbers are right.\n"
    )
    yield "| r1 | " + " | ".join(f"`{model}`" for model in models) + " |"
    yield "|" + "---|" * (len(models) + 1)
    for tenth in range(10):
        cells = []
        for model in models:
            groups = [one["r1_groups"][tenth] for one in _of(model, found) if one["r1_groups"]]
            n = sum(group["records"] for group in groups)
            said, true = (
                sum(group["records"] * (group[name] or 0.0) for group in groups) / max(n, 1)
                for name in ("predicted", "truth")
            )
            cells.append(f"{said:.2f} / {true:.2f}" if n else "–")
        yield f"| {tenth / 10:.1f} to {tenth / 10 + 0.1:.1f} | " + " | ".join(cells) + " |"


def _auc_of_populations(found: Sequence[Line]) -> dict[str, dict[str, float]]:
    """AUC by population and estimator, where there is more to tell than a guess."""
    rows: dict[str, dict[str, list[float]]] = {}
    for one in found:
        if one["records"] and one["records"]["auc"] not in (None, 0.5):
            row = rows.setdefault(one["population"], {})
            row.setdefault(one["model"], []).append(one["records"]["auc"])
    return {
        name: {model: sum(values) / len(values) for model, values in row.items()}
        for name, row in rows.items()
    }


def _aucs(found: Sequence[Line]) -> Iterator[str]:
    """AUC of each population, beside the clairvoyant's."""
    rows = _auc_of_populations(found)
    both = {name: row for name, row in rows.items() if {REFERENCE, CLAIRVOYANT} <= row.keys()}
    can = [name for name, row in both.items() if row[CLAIRVOYANT] >= 0.9]
    does = [name for name in can if both[name][REFERENCE] >= 0.9]
    yield "\n## AUC beside the clairvoyant's\n"
    yield AUCS
    yield (
        f"The clairvoyant reaches 0.9 in {len(can)} of {len(both)} populations, and `auto` in "
        f"{len(does)} of these{': ' + ', '.join(does) if does else ''}. A sample of a few percent "
        "does not tell all that the whole file tells of single cells."
    )


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
        first = [one["tau1"]["truth"] for one in _of(models[0], own) if one["tau1"]]
        errors = [_error(_of(model, own), "tau1") for model in models]
        cells = ["–" if error is None else f"{error:.0%}" for error in errors]
        truth = sum(first) / max(len(first), 1)
        rows.append(f"| {name} | {own[0]['N']:,} | {truth:.0f} | " + " | ".join(cells) + " |")
    return [*head, *rows]
