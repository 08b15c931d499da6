"""What a list of runs says of a result, read from its file of numbers.

The file may be of another version, or changed: what it lacks is left out, or makes it none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, NamedTuple, TypeAlias, get_args

from unikat.data.units import HOUSEHOLD, RECORD, Unit
from unikat.report.text import numbers
from unikat.report.text.language import DEFAULT, speaking
from unikat.risk.limits import Verdict

_LONGEST = 2_000
Numbers: TypeAlias = Mapping[str, Any]
Figures: TypeAlias = Iterator[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A result as lists of results show it."""

    data: str
    """Name of the file."""
    models: Sequence[str]
    headline: str
    verdict: str
    """On the limit: `met`, `not met` or `not known`; empty if there is none."""
    created: str
    """When the run was started, in UTC."""
    converged: bool
    complete: bool
    """Whether all that was asked for was done."""
    figures: Mapping[str, str]
    """Numbers by what they are; the same words mean the same in all kinds of runs."""


def listed(kind: str, found: Numbers) -> Listed | None:
    """Say what a result is, from its numbers; None if they are none of this kind."""
    if kind not in _KINDS:
        return None
    reader = _KINDS[kind]
    try:
        fit = found["fit"] if kind == "synthesize" else found
        # Their names are English.
        with speaking(DEFAULT):
            said = dict(reader.figures(found))
        said["Converged"] = "yes" if fit["converged"] is True else "no"
        if "seconds" in fit:
            said["Seconds of sampling"] = _number(fit["seconds"])
        said["Seed"] = str(found["provenance"]["seed"])
        return Listed(
            data=_text(reader.data(found) or "a data frame"),
            models=tuple(map(_text, reader.models(found))),
            headline=_text(reader.headline(found)),
            verdict=next((one for one in get_args(Verdict) if one == found.get("verdict")), ""),
            created=_text(found["provenance"]["started"])[:16].replace("T", " "),
            converged=fit["converged"] is True,
            complete=found.get("complete", True) is True and found.get("stage") != "preliminary",
            figures={_text(name): _text(value) for name, value in said.items()},
        )
    # Generators end in RuntimeError where a part is not found.
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError):
        return None


def _text(value: object) -> str:
    """Write a text of the file, whatever it is."""
    return str(value)[:_LONGEST]


def _number(value: float | None) -> str:
    """Write a number of the file, in which one that is not known is null."""
    return numbers.number(nan if value is None else value)


def _percent(value: float | None) -> str:
    """Write a share of the file, likewise."""
    return numbers.percent(nan if value is None else value)


def _estimate(found: Numbers, centre: str = "median") -> str:
    """Write the centre that the report shows, and the interval."""
    return f"{_number(found[centre])} ({_number(found['lower'])} to {_number(found['upper'])})"


def _risk(found: Numbers, of: str, centres: Sequence[str] = ("mean",)) -> Figures:
    if "n_uniques" in found:
        yield f"Sample uniques of {of}", _number(found["n_uniques"])
    for name in ("tau1", "tau2"):
        for centre in centres:
            yield f"{name.replace('tau', 'τ')} of {of}, {centre}", _estimate(found[name], centre)


def _judged(found: Numbers | None) -> Figures:
    if found is not None:
        yield "Limit", found["limit"]
        yield "Verdict", found["verdict"]


def _sample(found: Numbers, unit: Unit = RECORD) -> Figures:
    yield unit.many.capitalize(), _number(found["n_records"])
    yield "Key variables", _number(found["n_keys"])
    yield "Population", _number(found["population_size"])
    yield "Sample uniques of the file", _number(found["n_uniques"])


def _assessed(found: Numbers) -> Figures:
    yield from _sample(found["sample"], HOUSEHOLD if found.get("households") else RECORD)
    risk = {name: found[name] for name in ("tau1", "tau2")}
    # Its report has the median; with other kinds of runs the mean is compared.
    yield from _risk(risk, "the file", ("median", "mean"))
    yield "Probability of the intervals", _percent(found["tau1"]["level"])
    yield "Model", found["model"]
    yield from _judged(found.get("threshold"))


def _compared(found: Numbers) -> Figures:
    yield from _sample(found["sample"])
    yield "Probability of the intervals", _percent(found["level"])
    for model in found["models"]:
        for name in ("tau1", "tau2"):
            yield f"{name.replace('tau', 'τ')} by {model['model']}, median", _estimate(model[name])
        if model["held_out"] is not None:
            score = model["held_out"]["mean"]
            said = "not known" if score is None else f"{score:.3f} nats per record"
            yield f"Held-out log score of {model['model']}", said


def _evaluated(found: Numbers) -> Figures:
    population, study = found["population"], found["study"]
    yield "Population", _number(population["n_units"])
    yield "Key variables", _number(population["n_keys"])
    yield "Population uniques", _number(population["n_uniques"])
    yield "Design", study["design"]
    yield "Samples of each size", _number(study["repeats"])
    yield "Probability of the intervals", _percent(study["level"])
    for one in found["results"]:
        of = f"{one['model']}, n {_number(one['n'])}"
        for name in ("tau1", "tau2"):
            score, symbol = one[name], name.replace("tau", "τ")
            if score is not None:
                yield f"True {symbol}, {of}", _number(score["truth"])
                yield f"Estimated {symbol}, {of}", _number(score["estimate"])
                yield f"RMSE of {symbol}, {of}", _number(score["rmse"])
                yield (
                    f"Coverage of {symbol}, {of}",
                    f"{score['n_covered']} of {one['n_samples']} samples",
                )


def _protected(found: Numbers) -> Figures:
    yield "Records", _number(found["n_records"])
    yield "Key variables", _number(len(found["columns"]))
    yield "Population", _number(found["population_size"])
    yield from _risk(found["before"], "the file")
    yield from _risk(found["after"], "the protected file")
    plan = next(plan for plan in found["plans"] if plan["chosen"])
    yield "Information lost", _percent(found["lost"])
    yield "Probability of the intervals", _percent(found["level"])
    yield "Model", found["model"]
    yield from _judged(found["target"])
    for name, recoding in plan["recodings"].items():
        yield f"Recoding of {name}", recoding
    if found["suppression"] is not None:
        yield "Values suppressed", _number(found["suppression"]["n_values"])
    if found["perturbation"] is not None:
        yield "Records perturbed", _number(found["perturbation"]["n_records"])


def _verified(found: Numbers) -> Figures:
    yield "Records", _number(found["n_protected"])
    yield "Key variables", _number(len(found["keys"]))
    yield "Population", _number(found["population_size"])
    yield from _risk(found["before"], "the file")
    if found["after"] is not None:
        yield from _risk(found["after"], "the protected file")
    yield "Probability of the intervals", _percent(found["level"])
    yield "Model", found["model"]
    yield from _judged(found["target"])


def _checked(found: Numbers) -> Figures:
    if found["n_records"] is not None:
        yield "Records", _number(found["n_records"])
    yield "Key variables", _number(len(found["keys"]))
    if found["risk"] is not None:
        yield "Population", _number(found["population_size"])
        yield from _risk(found["risk"], "the file")
        yield "Model", found["model"]
    yield "Policy", found["policy"]
    for one in found["limits"]:
        limit = f"{one['scenario'] or 'minimum cell'}: {one['target']['limit']}"
        yield limit, one["target"]["verdict"]
    yield "Verdict", found["verdict"]


def _synthesized(found: Numbers) -> Figures:
    yield "Records", _number(found["original"]["n_records"])
    yield "Key variables", _number(len(found["original"]["keys"]))
    yield "Synthetic files", _number(found["datasets"])
    yield "Synthetic records that repeat one of the original", _percent(found["repeated"])
    yield "Model", found["fit"]["model"]


def _attacked(found: Numbers) -> Figures:
    yield "Records", _number(found["original"]["n_records"])
    yield "Key variables", _number(len(found["keys"]))
    if links := found.get("linkage"):
        yield "Records linked", _number(links["accepted"][0]["n_links"])
        return
    yield "Synthetic files", _number(len(found["synthetic"]))
    for one in found["attacks"]:
        of = f"{one['name']}, {one['target']}" if one["target"] else one["name"]
        if one["rate"] is not None:
            yield f"Success of {of}", _percent(one["rate"]["value"])


def _coverage(found: Numbers) -> str:
    """Say how many intervals contained the true value."""
    level = _percent(found["study"]["level"])
    done = [one for one in found["results"] if one["tau1"] is not None]
    failed = f" {_number(found['n_failed'])} fits failed." if found["n_failed"] else ""
    if not done:
        return f"No fit gave an estimate.{failed}"
    shares = [one["tau1"]["n_covered"] / one["n_samples"] for one in done]
    if len(done) == 1:
        how = f"{done[0]['tau1']['n_covered']} of {done[0]['n_samples']} samples"
    elif min(shares) == max(shares):
        how = f"{_percent(shares[0])} of the samples, for every size and model"
    else:
        how = (
            f"{_percent(min(shares))} to {_percent(max(shares))} of the samples, by size and model"
        )
    return f"The {level} interval contained the true τ1 in {how}.{failed}"


def _said(name: str) -> Callable[[Numbers], Any]:
    return lambda found: found["sentences"][name]


class _Reader(NamedTuple):
    """What finds the parts of a result of one kind."""

    data: Callable[[Numbers], Any]
    models: Callable[[Numbers], Sequence[Any]]
    headline: Callable[[Numbers], Any]
    figures: Callable[[Numbers], Figures]


_KINDS = {
    "assess": _Reader(
        lambda it: it.get("data"), lambda it: [it["model"]], _said("answer"), _assessed
    ),
    "compare": _Reader(
        lambda it: it["data"],
        lambda it: [model["model"] for model in it["models"]],
        _said("answer"),
        _compared,
    ),
    "evaluate": _Reader(
        lambda it: it["population"]["data"],
        lambda it: it["study"]["models"],
        _coverage,
        _evaluated,
    ),
    "protect": _Reader(
        lambda it: it["data"], lambda it: [it["model"]], _said("answer"), _protected
    ),
    "synthesize": _Reader(
        lambda it: it["original"]["data"],
        lambda it: [it["fit"]["model"]],
        _said("files"),
        _synthesized,
    ),
    "attack": _Reader(
        lambda it: it["original"]["name"],
        lambda it: [it["claims"]["model"]] if it["claims"] else [],
        _said("answer"),
        _attacked,
    ),
    "verify": _Reader(
        lambda it: it["original"], lambda it: [it["model"]], _said("answer"), _verified
    ),
    "check": _Reader(
        lambda it: it["data"],
        lambda it: [it["model"]] if it["model"] else [],
        _said("verdict"),
        _checked,
    ),
}
