"""Synthetic files: from data and options to the files, and to the folder of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Float64, Int32
from unikat.data import CellTable, Design, Key
from unikat.data.microdata import Microdata
from unikat.data.sampling import telling_key
from unikat.data.writers import WRITTEN, ending, has_own_format
from unikat.errors import SpecError, brief, option, suggest, visible
from unikat.files.folder import claim, keep_inputs
from unikat.inference.chains import sample
from unikat.inference.draws import Draws
from unikat.inference.processes import available_cores
from unikat.inference.progress import Watcher
from unikat.jobs.from_python import documented, run_from_python
from unikat.jobs.households import HEAD, read_households
from unikat.jobs.inputs import make_household_zeros, make_zeros, open_data, without_conflicts
from unikat.jobs.job import Job, in_folder
from unikat.jobs.synthesis import Synthesis
from unikat.language.rules import names_in, parse
from unikat.models.base import AnyModel
from unikat.models.households.composition import head_role, role_of
from unikat.models.households.nested import NestedHouseholds
from unikat.models.named import build_model
from unikat.report.facts.synthesis import (
    SCHEMA,
    FitSummary,
    IntervalFacts,
    OriginalFacts,
    RuleBreaks,
    ShareFacts,
    SynthesisSummary,
)
from unikat.report.folders import synthesis as results
from unikat.report.text.sentences import understood_households
from unikat.report.text.summary import explained
from unikat.risk.exposure import fitted_table
from unikat.spec.from_options import Inputs
from unikat.spec.kinds import MODEL, SYNTHESIZE
from unikat.spec.models import HOUSEHOLDS, SIMPLEST
from unikat.spec.synthesis import SynthesisSpec
from unikat.synthesis.convergence import SynthesisMeasures
from unikat.synthesis.generate import draw_households, draw_persons, posterior_states
from unikat.synthesis.partial import draw_given, draw_members_given
from unikat.synthesis.persons import (
    Columns,
    Persons,
    columns_of,
    head_codes,
    heads_first,
    of_first_members,
    persons_of,
    plain_households,
)
from unikat.synthesis.shares import (
    Formula,
    combined_share,
    original_share,
    parse_formula,
    share_of,
)
from unikat.synthesis.utility import margin_utility, repeated_uniques
from unikat.zeros.zeros import holds


@documented(SYNTHESIZE)
def synthesize(data: Any, *given: Any, **options: Any) -> Synthesis:
    """Draw synthetic files from a model fitted to microdata, and compare them with the original.

    Parameters
    ----------
    data
        As for :func:`unikat.assess`; or the path of a ``synthesis.toml``.

    Returns
    -------
    Synthesis
        The synthetic files, and what they are good for.

    Raises
    ------
    SpecError, DataError
        If an option or the data are wrong. Nothing was written.
    OutputError
        If `out` holds a synthesis and neither `resume` nor `overwrite` is set, or it cannot be
        written.
    KeyboardInterrupt
        On Ctrl-C; the chains are kept in `out`.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> frame = pd.DataFrame({"sex": ["f", "m", "f"] * 9, "age": [31, 44, 68] * 9})
    >>> found = unikat.synthesize(frame, keys=["sex", "age"], datasets=2, chains=2,
    ...                           max_sweeps=60, workers=1)
    >>> [frame.shape for frame in found.frames]
    [(27, 2), (27, 2)]
    """
    return run_from_python(SYNTHESIZE, run, (data, *given), options)


class _Original(NamedTuple):
    """What was read, and what is fitted to it."""

    microdata: Microdata
    table: CellTable
    """Records are households or persons, with design and rules."""
    persons: Persons
    n_left_out: int
    head: str | None = None
    """The rule of the head."""


@in_folder(SYNTHESIZE)
def run(job: Job[SynthesisSpec]) -> Synthesis:
    """Synthesise what a specification names, in a folder of its own (see :func:`in_folder`).

    Results are written as a whole or not at all.
    """
    spec, inputs, folder, watcher = job.spec, job.inputs, job.folder, job.watcher
    asked = load_and_check(spec, inputs, watcher)
    model, original, table = asked.model, asked.original, asked.table
    columns, replaced, weights = asked.columns, asked.replaced, asked.weights
    files = results.file_names(spec.datasets, ending(original.microdata.source))
    if folder is not None:
        keep_inputs([folder / name for name in files], spec.input_files())
        claim(folder, files)
    fitted = fitted_table(table)
    watcher.stage("Fitting")
    draws = sample(
        model,
        fitted,
        SynthesisMeasures.of(fitted),
        seed=spec.sampling.seed,
        plan=job.plan,
        workers=job.workers,
        checkpoint=job.execution.of(MODEL).checkpoint,
        progress=watcher.progress,
    )
    if draws.stop_reason == "interrupted":
        raise KeyboardInterrupt
    watcher.stage("Drawing")
    drawn = _draw(original, spec, model, table, fitted, draws, replaced)
    keys = original.persons.keys
    names = replaced or tuple(original.persons.names)
    seed = spec.sampling.seed
    tables = tuple(
        results.Records(
            columns.table(codes, keys, seed, number, names),
            columns.letters(codes, keys, seed, number, names),
            columns.labels,
        )
        for number, codes in enumerate(drawn)
    )
    watcher.stage("Comparing with the original")
    n_levels = [key.n_levels for key in keys]
    margins = margin_utility(
        original.persons.codes,
        drawn,
        n_levels,
        original.persons.names,
        kept=[name for name in original.persons.names if name not in names],
        weights=weights,
    )
    layout = original.table.layout
    summary = SynthesisSummary(
        schema=SCHEMA,
        original=OriginalFacts(
            data=spec.data.name,
            n_records=len(original.persons.rows),
            n_households=None if layout is None else original.table.n_records,
            keys=tuple(original.persons.names),
            left_out=columns.left_out,
            n_rows_left_out=original.n_left_out,
        ),
        fit=FitSummary.of(
            draws,
            model=draws.model.name,
            method=spec.method if spec.model.name == HOUSEHOLDS else None,
            ties=model.ties if isinstance(model, NestedHouseholds) else None,
        ),
        datasets=spec.datasets,
        replaced=replaced,
        files=files,
        level=spec.report.level,
        margins=margins,
        repeated=repeated_uniques(original.persons.codes, drawn, n_levels),
        shares=_shares(original, spec, asked.formulas, drawn, weights),
        impossible=_impossible(original, spec, drawn),
        provenance=job.record(original.table.fingerprint),
    )
    return job.finished(
        Synthesis(
            summary=explained(summary),
            spec=job.completed(),
            folder=folder,
            _tables=tables,
            _microdata=original.microdata,
            _data=inputs.data,
            _frames=job.frames,
        )
    )


class Loaded(NamedTuple):
    """Everything that is known before the fit."""

    model: AnyModel
    original: _Original
    columns: Columns
    """Of the synthetic files."""
    replaced: tuple[str, ...]
    """Keys whose values alone are drawn."""
    formulas: list[Formula]
    weights: Float64 | None
    """Of the persons; None without a design."""
    table: CellTable
    """To which the model is fitted, with its design."""


def load_and_check(spec: SynthesisSpec, inputs: Inputs, watcher: Watcher) -> Loaded:
    """Read all that a synthesis reads, and check all that can be checked before the fit."""
    if spec.datasets == 1 and spec.shares:
        raise SpecError(
            f"{option('datasets', 1)} with {option('share', spec.shares[0])}: the interval of a "
            "probability within households needs how it differs between synthetic files, so at "
            f"least two. Give {option('datasets', 2)}, or leave {option('share')} out."
        )
    options = spec.model.options
    if spec.model.name == HOUSEHOLDS:
        # Comparators are the paper's.
        usual = {"ties": "head"} if spec.method == "truncated" else {"composition": "none"}
        options = {**usual, **options}
    model = build_model(spec.model.name, options)
    original = (_read_households if spec.model.name == HOUSEHOLDS else _read_persons)(
        spec, inputs.data, watcher
    )
    design = spec.design
    columns = columns_of(
        original.microdata,
        original.persons,
        design.household,
        [name for name in (design.weights, design.inclusion, design.strata) if name is not None],
        spec.data.decimal,
    )
    if columns.left_out:
        watcher.note(f"Left out, since they are no keys: {', '.join(columns.left_out[:20])}")
    if inputs.data is None and not has_own_format(original.microdata.source):
        watcher.note(f"The synthetic files are Parquet: {WRITTEN}.")
    replaced = _replaced(spec, original)
    if isinstance(model, NestedHouseholds) and model.ties == "head":
        model = _tied(model, spec, original.table, replaced)
    formulas = [parse_formula(text) for text in spec.shares]
    weights = _weights(original, spec)
    _shares(original, spec, formulas, [original.persons.codes] * 2, weights)
    if spec.method == "flat":
        model = build_model(SIMPLEST, {})
    table = _fitted_to(original, spec)
    model.check_keys([key.name for key in table.keys])
    return Loaded(model, original, columns, replaced, formulas, weights, table)


def _tied(
    model: NestedHouseholds, spec: SynthesisSpec, table: CellTable, replaced: Sequence[str]
) -> NestedHouseholds:
    """Leave the ties to the head out where nothing says who that is, or the key is replaced."""
    role = role_of(table, model.composition)
    assert table.layout is not None
    if role < 0 or head_role(table, role) < 0:
        return replace(model, ties="none")
    if table.layout.person_keys[role].name not in replaced:
        return model
    if "ties" in spec.model.options:
        raise SpecError(
            f"The option ties needs the head to be known, and {option('replace')} names "
            f"{brief(table.layout.person_keys[role].name)!r}. Leave out one of them."
        )
    return replace(model, ties="none")


def _read_persons(spec: SynthesisSpec, source: Any, watcher: Watcher) -> _Original:
    """Read a sample of persons."""
    watcher.stage("Reading")
    design = Design(
        without_population=not (spec.design.weights or spec.design.inclusion or spec.design.strata),
        **spec.design.model_dump(),
    )
    microdata = open_data(spec.data, spec.keys, design, source, watcher=watcher)
    table = microdata.tabulate()
    rows = np.arange(table.n_records)
    if spec.zeros is not None:
        handled = without_conflicts(table, spec.zeros, spec.data)
        table, rows = handled.table, np.flatnonzero(handled.kept)
    watcher.note(f"{table.n_records:,} records, {table.n_keys} keys")
    if homes := microdata.unnamed_households():
        watcher.note(
            f"{visible(brief(homes[0]))} looks like the number of a household. Persons are drawn "
            f"one by one here. To draw whole households, write {option('household', homes[0])}."
        )
    persons = Persons(table.keys, table.cells[table.record_cell], rows)
    return _Original(microdata, table, persons, microdata.n_records - len(rows))


def _read_households(spec: SynthesisSpec, source: Any, watcher: Watcher) -> _Original:
    """Read a sample of households."""
    microdata, sample = read_households(spec, source, watcher)
    table = sample.table
    watcher.note(understood_households(replace(table, population_size=None), microdata.n_records))
    every = microdata.tabulate()
    there = np.flatnonzero(sample.of_record >= 0)
    rows = there[np.argsort(sample.of_record[there], kind="stable")]
    names = [key.name for key in every.keys]
    assert table.layout is not None
    known = {key.name for key in (*table.layout.household_keys, *table.layout.person_keys)}
    kept = [j for j, name in enumerate(names) if name in known]
    persons = Persons(
        tuple(every.keys[j] for j in kept),
        every.cells[every.record_cell[rows]][:, kept],
        rows,
        sample.of_record[rows],
        None if sample.head is None else sample.head[rows],
    )
    head = None if spec.households is None else spec.households.head
    if head is None and spec.zeros is not None:
        head = spec.zeros.roles.get("head")
    return _Original(microdata, table, persons, microdata.n_records - len(rows), head)


def _replaced(spec: SynthesisSpec, original: _Original) -> tuple[str, ...]:
    """Names of the keys whose values alone are drawn."""
    persons, table = original.persons, original.table
    known = dict(zip(spec.keys, persons.names, strict=False))
    known |= {name: name for name in persons.names}
    for text in spec.replace:
        if text not in known:
            raise SpecError(
                f"{option('replace')} names {brief(text)!r}, which is no key."
                f"{suggest(text, persons.names)} Add it to the keys."
            )
    found = tuple(dict.fromkeys(known[text] for text in spec.replace))
    if found and len(found) == len(persons.names):
        raise SpecError(
            f"{option('replace')} names all keys, so that nothing is left to draw them by; leave "
            "it out, and all keys are drawn."
        )
    telling = None if table.sampling is None else telling_key(table.sampling, table)
    if telling is not None and table.keys[telling].name in found:
        raise SpecError(
            f"{option('replace')} names {brief(table.keys[telling].name)!r}, which says in which "
            "stratum a record is; the files keep the stratum of every record, so leave it out of "
            "the keys that are replaced."
        )
    return found


def _fitted_to(original: _Original, spec: SynthesisSpec) -> CellTable:
    """The table to which the model of a method is fitted."""
    table = original.table
    if spec.method == "flat":
        persons = original.persons
        return CellTable.from_codes(persons.codes, persons.keys, len(persons.codes), table.missing)
    if spec.method in ("untruncated", "reject"):
        assert table.layout is not None
        return replace(table, layout=replace(table.layout, rules=None))
    return table


def _draw(
    original: _Original,
    spec: SynthesisSpec,
    model: AnyModel,
    table: CellTable,
    fitted: CellTable,
    draws: Draws,
    replaced: Sequence[str],
) -> list[Int32]:
    """Codes of the persons of every synthetic file."""
    data = model.prepare(fitted)
    persons, layout = original.persons, original.table.layout
    found = []
    for at in posterior_states(draws, model, data, spec.datasets, available_cores()):
        if layout is None or spec.method == "flat":
            codes = (
                draw_given(at, model, data, table, fitted, replaced)
                if replaced
                else draw_persons(at, model, data, table, fitted)
            )
            if layout is not None:
                drawn = replaced or persons.names
                shared = [name for name in _shared(original) if name in drawn]
                codes = of_first_members(codes, persons, shared)
            found.append(codes)
            continue
        rules = layout.rules if spec.method != "untruncated" else None
        if replaced:
            found.append(draw_members_given(at, data, rules, persons, table, fitted, replaced))
        else:
            cells = draw_households(at, data, rules, table, fitted)
            codes = persons_of(cells, layout, persons.names, head_codes(persons, layout))
            found.append(_heads_first(codes, original))
    return found


def _shared(original: _Original) -> list[str]:
    """Names of the keys that all members of a household share."""
    layout = original.table.layout
    assert layout is not None
    return [name for name in original.persons.names if name in _names(layout.household_keys)]


def _names(keys: Sequence[Key]) -> list[str]:
    return [key.name for key in keys]


def _heads_first(codes: Int32, original: _Original) -> Int32:
    """Put the head of each household before its other members, where a key tells it."""
    persons = original.persons
    if original.head is None:
        return codes
    if not set(names_in(parse(original.head, HEAD))) <= set(persons.names):
        return codes
    assert persons.household is not None
    head = holds(original.head, persons.keys, codes, HEAD)
    return heads_first(codes, persons.household, head)


def _impossible(
    original: _Original, spec: SynthesisSpec, drawn: Sequence[Int32]
) -> RuleBreaks | None:
    """Count what breaks the rules in the synthetic files."""
    if spec.zeros is None:
        return None
    persons = original.persons
    if original.table.layout is None:
        impossible = make_zeros(spec.zeros, persons.keys, spec.data)
        return RuleBreaks(
            unit="record",
            shares=tuple(float(impossible.forbids(codes).mean()) for codes in drawn),
        )
    if original.head is not None and not (
        set(names_in(parse(original.head, HEAD))) <= set(persons.names)
    ):
        # Who is the head is not in the files.
        return None
    shares = []
    head = None if "head" in spec.zeros.roles else original.head
    for codes in drawn:
        plain = plain_households(persons, codes, _shared(original))
        zeros = make_household_zeros(
            spec.zeros, plain.household_keys, plain.person_keys, spec.data, head=head
        )
        broken = zeros.broken(plain.houses, plain.members, plain.sizes)
        shares.append(float(broken.any(axis=1).mean()))
    return RuleBreaks(unit="household", shares=tuple(shares))


def _shares(
    original: _Original,
    spec: SynthesisSpec,
    formulas: Sequence[Formula],
    drawn: Sequence[Int32],
    weights: Float64 | None,
) -> tuple[ShareFacts, ...]:
    """Compute the probabilities within households, from the original and the synthetic files."""
    if not formulas:
        return ()
    roles = {} if spec.zeros is None else dict(spec.zeros.roles)
    if original.head is not None:
        roles["head"] = original.head
    persons, shared = original.persons, _shared(original)
    plain = [plain_households(persons, codes, shared) for codes in (original.persons.codes, *drawn)]
    if weights is not None:
        assert persons.household is not None
        weights = weights[np.unique(persons.household, return_index=True)[1]]
    found = []
    for formula in formulas:
        first, *others = (share_of(formula, households, roles, weights) for households in plain)
        said = (original_share(first, spec.report.level), combined_share(others, spec.report.level))
        both = [None if one is None else IntervalFacts.of(one) for one in said]
        found.append(ShareFacts(text=formula.text, original=both[0], synthetic=both[1]))
    return tuple(found)


def _weights(original: _Original, spec: SynthesisSpec) -> Float64 | None:
    """Sample weights of the persons, (n_persons,); None without any."""
    design = spec.design
    if design.weights is not None:
        return original.microdata.numbers(design.weights)[original.persons.rows]
    if design.inclusion is not None:
        inverse: Float64 = 1.0 / original.microdata.numbers(design.inclusion)
        return inverse[original.persons.rows]
    return None
