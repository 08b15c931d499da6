"""A check: from a file and a policy to a verdict and a certificate; and back from a certificate."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from unikat._typing import Bool, Int32
from unikat.classics.diversity import l_diversity
from unikat.data.keys import MISSING
from unikat.data.sources import Source
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError, brief, only_keys, option, suggest
from unikat.files.folder import claimed
from unikat.files.writing import write_bytes, write_text
from unikat.inference.progress import Watcher
from unikat.jobs.from_python import documented, run_from_python
from unikat.jobs.inputs import UNKNOWN, data_named, design_of, open_file, read_table
from unikat.jobs.job import Job, in_folder
from unikat.jobs.outcome import Tabled
from unikat.jobs.protection_target import seen_by
from unikat.jobs.schedule import Part, Schedule
from unikat.language.keys import column_of
from unikat.models.named import build_model
from unikat.protection.recoding import Recoding, unchanged
from unikat.protection.scenarios import Scenario, Scenarios
from unikat.protection.what_if import Posterior
from unikat.report.facts.certificate import (
    Certificate,
    Digest,
    LimitFacts,
    compare,
    digest_of,
    judged,
    read_certificate,
)
from unikat.report.facts.check import SCHEMA, CheckSummary
from unikat.report.facts.protection import RiskFacts
from unikat.report.facts.supplements import find_column
from unikat.report.folders.folder import copied_files
from unikat.report.pages.cards import card
from unikat.report.pages.check import render
from unikat.report.text.check import HEAD, certified_lines, limit_rows
from unikat.report.text.summary import explained
from unikat.report.text.track_record import unknown_of
from unikat.risk.limits import Judged, Measured, Reason, Verdict, judge
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.check import CheckSpec
from unikat.spec.columns import alike
from unikat.spec.from_options import Inputs
from unikat.spec.kinds import CHECK, Kind
from unikat.spec.limits import Limit
from unikat.spec.policy import Policy, PolicySpec
from unikat.spec.protection import ProtectionSpec
from unikat.spec.tables import DataSpec, ReportSpec
from unikat.studies.fit import Fit
from unikat.zeros.conflicts import Handled


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Check(Tabled):
    """The verdict of a policy on a file, `table` by limit; from :func:`unikat.check`.

    >>> import pandas as pd, unikat
    >>> frame = pd.DataFrame({"sex": ["f", "m"] * 20, "age": ["20-39", "40-59"] * 20})
    >>> policy = {"scenario": [{"name": "neighbour", "keys": ["sex", "age"], "target": "k >= 3"}]}
    >>> found = unikat.check(frame, policy=policy)
    >>> found.verdict, found.table.shape[0]
    ('met', 1)
    """

    summary: CheckSummary
    spec: CheckSpec
    _policy: bytes | None = None

    kind: ClassVar[Kind] = CHECK

    @property
    def verdict(self) -> Verdict:
        """Whether all that the policy asks for is met."""
        return self.summary.verdict

    @property
    def certificate(self) -> Certificate | None:
        """The certificate; None where the records do not come from a single file."""
        return self.summary.certificate

    def _page(self, summary: CheckSummary) -> str:
        return render(summary)

    def _table(self) -> pa.Table:
        rows = limit_rows(self.summary)
        return pa.Table.from_pylist([dict(zip(HEAD, row, strict=True)) for row in rows])

    def _others(self, folder: Path) -> Mapping[str, Callable[[Path], None]]:
        if self._policy is None:
            assert self.folder is not None
            return copied_files(CHECK, self.folder)
        certificate, policy = CHECK.others[:2]
        content, made = self._policy, self.certificate
        others = {policy: lambda path: write_bytes(path, content), **self._for_committee()}
        if made is not None:
            others[certificate] = lambda path: write_text(path, made.text())
        return others

    def __repr__(self) -> str:
        said = self.summary.sentences
        return "\n".join(said[place] for place in ("verdict", "answer") if place in said)


@dataclass(frozen=True, kw_only=True)
class Certified:
    """A certificate that belongs to a file; from :func:`unikat.check` with `certificate`.

    >>> import pandas as pd, pathlib, tempfile, unikat
    >>> policy = {"scenario": [{"name": "neighbour", "keys": ["sex", "age"], "target": "k >= 3"}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "public.csv")
    ...     pd.DataFrame({"sex": ["f", "m"] * 9, "age": 44}).to_csv(file, index=False)
    ...     checked = unikat.check(file, policy=policy, out=f"{folder}/checked")
    ...     found = unikat.check(file, certificate=f"{folder}/checked/certificate.json")
    >>> found.verdict, found.compared
    ('met', ('file', 'policy'))
    """

    summary: Certificate
    compared: tuple[str, ...]
    """What was compared, byte by byte: `file`, `policy`, `original`."""
    folder: None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict that it certifies."""
        return self.summary.verdict

    @property
    def converged(self) -> bool:
        """Whether the fit converged by which it was judged."""
        return self.summary.converged

    def __repr__(self) -> str:
        return "\n".join(certified_lines(self.summary, self.compared))

    def _repr_html_(self) -> str:
        return card(repr(self).splitlines())


@documented(CHECK)
def check(data: Any, *given: Any, **options: Any) -> Check | Certified:
    """Check whether a file meets a policy, before it is released; or verify a certificate.

    A limit that the file itself tells, as of `k`, needs no model and no population size.

    Parameters
    ----------
    data
        The file that is to be released, as for :func:`unikat.assess`; or the path of a
        ``check.toml``.

    Returns
    -------
    Check or Certified
        The verdict on each limit, and the certificate. With `certificate` what was compared.

    Raises
    ------
    SpecError, DataError
        If an option, the policy, the file or the certificate is wrong. Nothing was written.
    OutputError
        If `out` holds a check and `overwrite` is not set, or it cannot be written.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> frame = pd.DataFrame({"sex": ["f", "m"] * 20, "age": ["20-39", "40-59"] * 20})
    >>> policy = {"never": ["name"], "scenario": [
    ...     {"name": "neighbour", "keys": ["sex", "age"], "target": "k >= 3"}]}
    >>> unikat.check(frame, policy=policy).verdict
    'met'
    """
    return run_from_python(CHECK, run, (data, *given), options)


def run(spec: CheckSpec, inputs: Inputs, folder: Path | None, **how: Any) -> Check | Certified:
    """Check what a specification names, in a folder of its own; or verify a certificate."""
    if spec.certificate is not None:
        return certified(spec)
    found: Check = _run(spec, inputs, folder, **how)
    return found


CHECKED = "check"
"""Folder of the check of a protected file, in that of the protection."""


def check_protected(
    job: Job[ProtectionSpec], file: Path, codebook: Path | None, columns: Sequence[str]
) -> Check:
    """Check the file that a protection has written, by the policy that its scenarios are of.

    Parameters
    ----------
    job
        The protection.
    file, codebook
        What it has written.
    columns
        Of the file; keys that are none of them were left out.
    """
    assert job.folder is not None
    asked, original = job.spec, _single(job.spec)
    keys = tuple(map(column_of, asked.keys))
    gone = tuple(name for name in keys if name not in columns)
    # How the original was read says nothing of the file that was written, but for its characters.
    data = DataSpec(
        path=file,
        codebook=codebook,
        delimiter=asked.data.delimiter,
        encoding=asked.data.encoding,
        # By wildcards the risk is a lower bound, by which nothing is certified.
        missing="integrate" if asked.data.missing == "wildcard" else asked.data.missing,
        missing_values=asked.data.of_columns(columns).missing_values,
        memory_limit=asked.data.memory_limit,
    )
    try:
        spec = CheckSpec(
            data=data,
            keys=keys,
            left_out=gone,
            policy=asked.policy,
            original=original,
            population_size=asked.population_size,
            design=asked.design,
            model=asked.model,
            sampling=asked.sampling,
            report=ReportSpec(language=asked.report.language),
        )
        found = run(spec, Inputs(), job.folder / CHECKED, overwrite=True, watcher=job.watcher)
    except (SpecError, DataError, ValueError) as error:
        raise DataError(
            f"The protected file is complete ({file}), and its check by the policy failed, so that "
            f"there is no certificate: {error} Check it with unikat check."
        ) from None
    assert isinstance(found, Check)
    return found


def forget_check(folder: Path) -> None:
    """Delete the certificate of an earlier protection in the same folder, whose file goes."""
    path = folder / CHECKED / CHECK.others[0]
    if CHECKED in claimed(folder) and path.name in claimed(path.parent):
        path.unlink(missing_ok=True)


def certified(spec: CheckSpec) -> Certified:
    """Compare a file, and its policy and original where they are at hand, with a certificate."""
    assert spec.certificate is not None
    found = read_certificate(spec.certificate)
    if (path := _single(spec)) is None:
        raise SpecError("A certificate is of a single file; name that file.")
    files = {"file": digest_of(path)}
    beside = spec.certificate.with_name(CHECK.others[1])
    policy = beside if spec.policy is None and beside.is_file() else spec.policy
    if isinstance(policy, Path):
        files["policy"] = digest_of(policy)
    if spec.original is not None:
        if spec.salt is None:
            raise SpecError(
                f"The digest of the original needs its salt: {option('salt')}, which the "
                "check.toml of that check holds."
            )
        files["original"] = digest_of(spec.original, spec.salt)
    for what, digest in files.items():
        compare(found, what, digest)
    return Certified(summary=found, compared=tuple(files))


@in_folder(CHECK)
def _run(job: Job[CheckSpec]) -> Check:
    spec, watcher = job.spec, job.watcher
    if spec.original is not None and spec.salt is None:
        spec = spec.model_copy(update={"salt": secrets.token_hex(32)})
    path = _single(spec)
    files = {} if path is None else {"file": digest_of(path)}
    if spec.original is not None:
        files["original"] = digest_of(spec.original, spec.salt)
    asked = load_and_check(spec, job.inputs, watcher)
    policy, level = asked.policy.spec, asked.policy.spec.confidence
    fitted = estimate = None
    if asked.table is not None and asked.needs_model:
        # What is judged by its states takes no time beside it.
        told = Schedule(watcher=watcher, parts=[Part(name="fit", tau1_of="")]).job(job, "fit")
        fitted = told.fit("file", asked.model, asked.table, level)
        estimate = fitted.estimate(level)
    converged = estimate is None or estimate.converged
    unknown: Sequence[Reason] = ()
    if estimate is not None:
        unknown = unknown_of(spec.model, estimate, converged=converged)
    limits: tuple[LimitFacts, ...] = ()
    if asked.table is not None:
        measured = _Measures(
            table=asked.table,
            sensitive=asked.sensitive,
            level=level,
            whole=None if estimate is None else Measured.of(estimate),
            fitted=fitted,
        )
        limits = tuple(_judged(one, measured, unknown) for one in asked.scenarios)
    if path is not None and digest_of(path) != files["file"]:
        raise DataError(f"{path} was changed while it was checked; check it again.")
    if path is not None:
        files["policy"] = Digest.of(asked.policy.name, asked.policy.content)
    table, known = asked.table, job.record()
    summary = CheckSummary(
        schema=SCHEMA,
        data=spec.data.name,
        policy=policy.title or asked.policy.name,
        sources=policy.sources,
        n_records=None if table is None else table.n_records,
        n_incomplete=0 if table is None else int(table.counts[table.incomplete].sum()),
        population_size=None if fitted is None or table is None else table.n_units,
        keys=asked.keys,
        left_out=spec.left_out,
        limits=limits,
        n_never=len(policy.never),
        forbidden=asked.forbidden,
        columns=asked.others,
        verdict=judged(limits, asked.forbidden),
        risk=None if estimate is None else RiskFacts.of(estimate),
        model=None if estimate is None else spec.model.name,
        converged=converged,
        level=level,
        files=files,
        provenance=known,
    )
    return job.finished(
        Check(
            summary=explained(summary),
            spec=spec,
            folder=job.folder,
            _policy=asked.policy.content,
            _frames=job.frames,
        )
    )


class Loaded(NamedTuple):
    """Everything that is known before the first fit."""

    policy: Policy
    model: Any
    table: CellTable | None
    """None where the policy names no key: then columns alone are looked at."""
    handled: Handled | None
    keys: tuple[str, ...]
    scenarios: list[Scenario]
    sensitive: dict[str, Int32]
    """Codes of each sensitive column, (n_records,)."""
    forbidden: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def needs_model(self) -> bool:
        """Whether a limit is not told by the file itself."""
        table = self.table
        return table is not None and not all(one.is_counted(table) for one in self.scenarios)


def load_and_check(spec: CheckSpec, inputs: Inputs, watcher: Watcher) -> Loaded:
    """Read the policy and the file, and check all that can be checked before a fit."""
    if spec.policy is None:
        raise SpecError(f"Only a check has a dry run; name its policy: {option('policy')}.")
    policy = Policy.of(spec.policy)
    asked = policy.spec
    model = build_model(spec.model.name, spec.model.options)
    source = _source(spec, inputs)
    named = tuple(dict.fromkeys((*asked.known_keys, *spec.keys)))
    only_keys("left_out", spec.left_out, named)
    if still := [name for name in spec.left_out if alike(name) in map(alike, source.columns)]:
        raise SpecError(
            f"{option('left_out')} names {brief(still[0])!r}, which is a column of {source.name}. "
            "Only keys that are not in the file can be left out; remove the column, or let it be "
            "judged."
        )
    keys = tuple(name for name in named if name not in spec.left_out)
    _check_columns(keys, asked, source, spec)
    never = set(map(alike, asked.never))
    forbidden = tuple(name for name in source.columns if alike(name) in never)
    others = tuple(name for name in source.columns if name not in keys)
    if not keys:
        if asked.scenarios or asked.minimum_cell is not None:
            raise SpecError(
                "The policy has limits and names no keys of an intruder; name those of the file: "
                f"{option('keys')}."
            )
        return Loaded(policy, model, None, None, (), [], {}, forbidden, others)
    design = design_of(spec) if asked.needs_population or _tells_population(spec) else UNKNOWN
    spec = spec.model_copy(update={"keys": keys})
    inputs = inputs._replace(data=source)
    # In a protected file all keys of a record may be suppressed.
    few: Any = {"fewest_keys": 1, "constant_keys": True, "empty_rows": True}
    microdata, table, handled = read_table(spec, design, inputs, watcher, **few)
    sensitive = {
        name: find_column(microdata, name, handled, spec.data.missing_values).codes
        for name in asked.sensitive
    }
    scenarios = _scenarios(asked, table)
    found = Loaded(policy, model, table, handled, keys, scenarios, sensitive, forbidden, others)
    if found.needs_model and table.population_size is None:
        raise SpecError(
            "Records lack keys, so that a model has to say what they may be; give the population "
            f"size: {option('population_size', 'N')}."
        )
    return found


def _source(spec: CheckSpec, inputs: Inputs) -> Source:
    return open_file(spec.data, data_named(spec.data, inputs.data))


def _single(spec: AssessmentSpec) -> Path | None:
    """The file that is checked; None of a frame, a folder or a database on a server."""
    path = spec.data.path
    return path if path is not None and path.is_file() else None


def _check_columns(keys: Sequence[str], asked: PolicySpec, source: Source, spec: CheckSpec) -> None:
    """Refuse a policy with keys or sensitive columns that the file does not have (DataError)."""
    columns = list(source.columns)
    for name in (*keys, *asked.sensitive):
        if name not in columns:
            of_policy = name not in spec.keys
            remedy = (
                f" If the column was removed from the file, say so: {option('left_out', name)}."
                if of_policy and name in keys
                else ""
            )
            raise DataError(
                f"{source.name} has no column {brief(name)!r}, which "
                f"{'the policy names' if of_policy else 'is named as a key'}."
                f"{suggest(name, columns)}{remedy}"
            )


def _tells_population(spec: CheckSpec) -> bool:
    design = spec.design
    told = spec.population_size, design.weights, design.inclusion, design.strata
    return any(one is not None for one in told) or bool(spec.margins)


def _scenarios(asked: PolicySpec, table: CellTable) -> list[Scenario]:
    """Make a scenario of each limit; the minimum cell is one of each key alone."""
    names = [key.name for key in table.keys]
    found = [
        Scenario(
            name=one.name,
            # Keys that are left out are not known to him: he does not see all others instead.
            keys=tuple(name for name in names if name in one.keys or not one.keys),
            in_sample=one.in_sample,
            target=limit,
            errors=one.errors,
        )
        for one in asked.scenarios
        for limit in one.limits
    ]
    if asked.minimum_cell is not None:
        least = Limit("k", float(asked.minimum_cell))
        found += [Scenario(name="", keys=(name,), in_sample=False, target=least) for name in names]
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class _Measures:
    """What a file has of the limits of a policy."""

    table: CellTable
    sensitive: Mapping[str, Int32]
    level: float
    whole: Measured | None
    """Of the file, by a fit; None if there is none."""
    fitted: Fit | None

    @cached_property
    def _as_it_is(self) -> Recoding:
        return Recoding(keys=tuple(map(unchanged, self.table.keys)))

    @cached_property
    def _by_model(self) -> Scenarios:
        assert self.fitted is not None
        return self._by(Posterior.of(self.fitted))

    @cached_property
    def _counted(self) -> Scenarios:
        """For what the file itself tells."""
        return self._by(Posterior.without_model(self.table))

    def _by(self, posterior: Posterior) -> Scenarios:
        return Scenarios(posterior=posterior, scenarios=(), level=self.level)

    def of(self, one: Scenario) -> float:
        """The number that a scenario's limit is judged by."""
        if one.target.column is not None:
            return self._diversity(one, self.sensitive[one.target.column])
        if not one.name:
            return self._least(one)
        if one.target.plain == "k":
            return self._alike(one)
        if one.is_counted(self.table):
            return self._counted.measure(one, self._as_it_is)
        assert self.whole is not None
        return seen_by(one, self._as_it_is, self.whole, lambda: self._by_model)

    def _least(self, one: Scenario) -> float:
        """Fewest records of a level of his key; a record without a value has none of them."""
        margin = one.margin(self._as_it_is)
        assert margin is not None
        table = margin.table(self.table)
        return float(table.counts[~table.incomplete].min(initial=table.n_records))

    def _alike(self, one: Scenario) -> float:
        """Fewest records that one cannot be told from by his keys; see `_blank`."""
        margin = one.margin(self._as_it_is)
        if margin is None:
            return one.of_nothing(self.table)
        table = margin.table(self.table)
        blank = _blank(table)
        matches = table.released_matches - table.counts[blank].sum()
        return float(matches[~blank].min(initial=table.n_records))

    def _diversity(self, one: Scenario, codes: Int32) -> float:
        """Fewest different values in a combination of his keys; see `_blank`."""
        n_values = float(len(set(codes[codes >= 0].tolist())))
        margin = one.margin(self._as_it_is)
        if margin is None:
            return n_values
        table = margin.table(self.table)
        blank = _blank(table)
        shown = np.where(blank[table.record_cell], MISSING, codes)
        return float(l_diversity(table, shown).distinct[~blank].min(initial=n_values))


def _blank(table: CellTable) -> Bool:
    """Patterns without any known key, (n_cells,).

    By the letter they match every record, so that k - 1 blank records would certify any file. They
    hide nobody, so they count for no record that shows a key.
    """
    found: Bool = (table.cells == MISSING).all(axis=1)
    return found


def _judged(one: Scenario, measured: _Measures, unknown: Sequence[Reason]) -> LimitFacts:
    known: Sequence[Reason] = () if one.is_counted(measured.table) else unknown
    target: Judged = judge(one.target, [measured.of(one)], known)
    return LimitFacts(
        scenario=one.name,
        keys=one.keys,
        in_sample=one.in_sample,
        errors=one.errors,
        target=target,
    )
