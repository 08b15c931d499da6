"""The answer of an assessment, fresh from a run or read from its folder."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unikat._typing import Float64
from unikat.data.frames import FILE
from unikat.errors import Leading, SpecError
from unikat.jobs.outcome import Outcome
from unikat.jobs.saved_states import posterior_of
from unikat.protection.recoding import Rule, parse_recoding
from unikat.protection.what_if import Posterior
from unikat.report.facts.registry import FILE as REGISTRY_FILE
from unikat.report.facts.registry import registry_table
from unikat.report.facts.result import Result
from unikat.report.folders import assessment as results
from unikat.report.folders.assessment import Results
from unikat.report.folders.findings import Findings
from unikat.report.folders.outputs import DRAWS
from unikat.report.folders.records import record_tables, records_schema
from unikat.report.pages.assessment import render
from unikat.report.pages.cards import card
from unikat.report.pages.plots import Figure, figure
from unikat.report.text import sentences, track_record
from unikat.report.text.language import speaking
from unikat.risk.estimate import RiskEstimate, Summary
from unikat.risk.limits import Judged, Measured, Verdict, judge
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.kinds import ASSESS, RECORDS, Kind
from unikat.spec.limits import Limit
from unikat.spec.trust import FOREIGN, Trust

if TYPE_CHECKING:
    from xarray import DataTree


@dataclass(frozen=True, kw_only=True)
class Plots(Leading):
    """Figures of an assessment; each is shown by a notebook, and saved by its `save`.

    Called, `plot()`, it draws τ1.
    """

    _result: Result = field(repr=False)
    _traces: dict[str, Float64] = field(repr=False)

    def __repr__(self) -> str:
        return "Figures: .plot.tau1() .plot.tau2() .plot.keys() .plot.records() .plot.chains()"

    def __call__(self) -> Figure:
        """Draw the posterior distribution of τ1."""
        return self.tau1()

    def tau1(self) -> Figure:
        """Draw the posterior distribution of τ1."""
        return figure("tau1", self._result, self._traces)

    def tau2(self) -> Figure:
        """Draw the posterior distribution of τ2."""
        return figure("tau2", self._result, self._traces)

    def keys(self) -> Figure:
        """Draw by how much τ1 falls when a key is left out."""
        return figure("keys", self._result, self._traces)

    def records(self) -> Figure:
        """Draw how many records have which risk r1."""
        return figure("records", self._result, self._traces)

    def chains(self) -> Figure:
        """Draw the draws of τ1, chain by chain."""
        return figure("trace", self._result, self._traces)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Assessment(Outcome):
    """The disclosure risk of a file; from :func:`unikat.assess` or :func:`unikat.load`.

    Shown in a notebook it gives headline, interval and figure; `print` gives about five lines.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> frame = pd.DataFrame({"SEX": [1, 2, 2, 1], "AGE": [30, 41, 41, 30]})
    >>> result = unikat.assess(frame, keys=["SEX", "AGE"], population_size=4)
    >>> result.tau1.mean, result.tau1.interval
    (0.0, (0.0, 0.0))
    >>> result.records["r2"].tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    summary: Result
    spec: AssessmentSpec
    _traces: dict[str, Float64] = field(default_factory=dict)
    _findings: Findings | None = None
    """Fresh from a run; None if read from a folder."""
    _loaded: Results | None = None
    """Read from a folder; None if fresh from a run."""
    _trust: Trust = FOREIGN
    """What counts of the specification in the folder."""
    kind: ClassVar[Kind] = ASSESS

    @classmethod
    def loaded(cls, folder: Path, trust_spec: bool) -> Self:
        """Read an assessment from its folder, which is as it was written; see `unikat.load`."""
        found = results.load(folder)
        return cls(
            summary=found.result,
            spec=found.spec,
            folder=found.root,
            _traces=found.traces,
            _loaded=found,
            _trust=Trust(allowed=trust_spec),
        )

    @property
    def result(self) -> Result:
        """Every number of the report, as `result.json` holds them; the `summary` of other runs."""
        return self.summary

    @property
    def tau1(self) -> Summary:
        """τ1, sample uniques that are population uniques: posterior mean, median and interval."""
        return self.result.tau1

    @property
    def tau2(self) -> Summary:
        """τ2, expected number of correct matches of an intruder."""
        return self.result.tau2

    @property
    def tau1_expected(self) -> Summary:
        """Expected τ1 given the model's parameters, the papers' τ1*."""
        return self.result.tau1_expected

    @property
    def tau2_expected(self) -> Summary:
        """Expected τ2 given the model's parameters, the papers' τ2*."""
        return self.result.tau2_expected

    @property
    def tau1_shown(self) -> Summary | None:
        """τ1 of the published file, which shows the known keys of incomplete records alone.

        None, as `tau2_shown`, unless missing keys are integrated over, and of a bootstrap.
        """
        return self.result.tau1_shown

    @property
    def tau2_shown(self) -> Summary | None:
        """τ2 of the published file."""
        return self.result.tau2_shown

    @property
    def verdict(self) -> Verdict | None:
        """Whether the limit (`threshold`) is met: met, not met, or not known; None without one."""
        return self.result.verdict

    @property
    def warnings(self) -> tuple[str, ...]:
        """What has to be known before the numbers are used."""
        return self.result.warnings

    @property
    def estimate(self) -> RiskEstimate | None:
        """The estimate with its table of cells; None for an assessment that was loaded."""
        return None if self._findings is None else self._findings.estimate

    @cached_property
    def records(self) -> Any:
        """Risk of every record, one row per record in the order of the input.

        A frame of the kind that was assessed, with its index if it has one; a pandas frame for
        files, and for an assessment that was loaded. The columns are those of `records.parquet`.
        """
        if self._findings is not None:
            parts = list(record_tables(self._findings))
            schema = records_schema(self._findings)
            return self._frames.frame(pa.concat_tables(parts) if parts else schema.empty_table())
        assert self._loaded is not None
        return FILE.frame(pq.read_table(pa.BufferReader(self._loaded.read(RECORDS))))

    @cached_property
    def registry_records(self) -> Any:
        """Risk of every record of the registry, with the columns of `registry.parquet`.

        A pandas frame, in the order of the registry; None if there is no registry.
        """
        if self._findings is not None:
            found = self._findings.supplements.registry
            return None if found is None else FILE.frame(registry_table(found))
        assert self._loaded is not None
        if REGISTRY_FILE not in self._loaded.digests:
            return None
        return FILE.frame(pq.read_table(pa.BufferReader(self._loaded.read(REGISTRY_FILE))))

    @cached_property
    def draws(self) -> DataTree | None:
        """Posterior draws for ArviZ: groups `posterior` and `warmup_posterior`.

        None where the file itself tells the risk.
        """
        if self._findings is not None:
            draws = self._findings.estimate.draws
            return None if draws is None else draws.to_datatree()
        assert self._loaded is not None
        if DRAWS not in self._loaded.digests:
            return None
        from xarray import open_datatree

        content = io.BytesIO(self._loaded.read(DRAWS))
        with open_datatree(content, engine="h5netcdf") as tree:
            return tree.load()

    def _as_frame(self) -> Any:
        return self.records

    def to_arviz(self) -> Any:
        """Return the posterior draws for the ArviZ that is installed.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            With ArviZ before 1.0 its InferenceData; with ArviZ 1, and without any, a data tree,
            which is `draws`. Groups are `posterior` and `warmup_posterior`, variables τ1, τ2 and
            the model's own scalars by chain and draw. Convergence is judged by τ1 and τ2: numbers
            of components and the like may mix slowly where τ1 and τ2 do not.

        Raises
        ------
        SpecError
            If the assessment has no draws, since the file itself tells the risk.

        Examples
        --------
        >>> import unikat
        >>> from unikat.datasets import draw_sample, simulate_town
        >>> sample = draw_sample(simulate_town(1_000), 0.1)
        >>> result = unikat.assess(sample, ["age", "sex", "education"], population_size=1_000,
        ...                        model="latent-class", chains=2, max_sweeps=60, workers=1)
        >>> sorted(result.to_arviz().posterior.dims)
        ['chain', 'draw']
        """
        tree = self.draws
        if tree is None:
            raise SpecError(
                "The file itself tells the risk, so there are no draws: see .summary()."
            )
        try:
            old = metadata.version("arviz").startswith("0.")
        except metadata.PackageNotFoundError:
            old = False
        if not old:
            return tree
        arviz = import_module("arviz")
        groups = {name: child.to_dataset() for name, child in tree.children.items()}
        return arviz.InferenceData(attrs=dict(tree.attrs), warn_on_custom_groups=False, **groups)

    @property
    def plot(self) -> Plots:
        """Figures."""
        return Plots(_result=self.result, _traces=self._traces)

    def what_if(
        self, recoding: Mapping[str, Rule] | None = None, level: float | None = None, **keys: Rule
    ) -> RiskEstimate:
        """Estimate the risk of the file with recoded keys, without another fit.

        States of the fit give the probabilities of coarser keys. The first call keeps some of them,
        which takes about half as long as the fit; all later ones use these. Of an assessment that
        was loaded the first call reads the file again.

        Parameters
        ----------
        recoding
            For each key that is recoded, a rule: ``"width(10)"``, ``"cut(18,65)"``,
            ``"quantile(4)"``, ``"top(80)"``, ``"bottom(20)"``, ``"rare(0.05)"``; a mapping of
            levels to groups; a list of lists of levels; or None: the key is left out.
        level
            Probability of the intervals, between 0 and 1; None: that of the assessment.
        **keys
            None: a key may have the name of an argument, so the recoding is a mapping.

        Returns
        -------
        RiskEstimate
            τ1, τ2, and in `records` the risk of every combination of the recoded keys, with
            intervals that hold the error of the model if the assessment's do.

        Raises
        ------
        SpecError
            If a rule cannot be used; for models other than auto, hdp, gom, latent-class and
            households; and for an assessment that was loaded whose states were not kept
            (``keep_states=True``).
        DataError
            If the file of an assessment that was loaded is missing, or has changed.

        Examples
        --------
        >>> import pandas as pd, unikat
        >>> frame = pd.DataFrame({"SEX": [1, 2, 2, 1], "AGE": [30, 41, 43, 30]})
        >>> result = unikat.assess(frame, keys=["SEX", "AGE"], population_size=4)
        >>> result.tau1.mean, result.what_if({"AGE": "width(10)"}).tau1.mean
        (2.0, 0.0)
        """
        if recoding is None or keys:
            example = keys or {"AGE": "width(10)"}
            raise SpecError(f"A recoding is a mapping of keys to rules: .what_if({example!r}).")
        return self._posterior.what_if(recoding, self.result.tau1.level if level is None else level)

    def judge(self, limit: str, recoding: Mapping[str, Rule] | None = None) -> Judged:
        """Judge a limit, of the file or of the file with recoded keys.

        Parameters
        ----------
        limit
            As ``threshold``: ``"tau1 <= 5"``.
        recoding
            As for :meth:`what_if`; None: the file as it was assessed.

        Returns
        -------
        Judged
            `verdict` is met, not met or not known, and `value` the number that is judged.

        Raises
        ------
        SpecError
            If the limit has no known form, or as :meth:`what_if`.
        DataError
            As :meth:`what_if`.

        Examples
        --------
        >>> import pandas as pd, unikat
        >>> frame = pd.DataFrame({"SEX": [1, 2, 2, 1], "AGE": [30, 41, 43, 30]})
        >>> found = unikat.assess(frame, keys=["SEX", "AGE"], population_size=4)
        >>> [found.judge("k >= 2", rules).verdict for rules in (None, {"AGE": "width(10)"})]
        ['not met', 'met']
        """
        try:
            asked = Limit.of(limit)
        except ValueError as error:
            raise SpecError(f"{error}.") from None
        if recoding is not None:
            rules = parse_recoding(self._posterior.table, recoding)
            value: float | None = self._posterior.measured(rules, asked, self.tau1.level)
        else:
            value = self._measured.value(asked)
        return judge(asked, [value], track_record.unknown_of_result(self.result))

    @property
    def _measured(self) -> Measured:
        if self.estimate is not None:
            return Measured.of(self.estimate)
        households = self.result.households is not None
        # Of households the rows are their persons.
        r1 = None if households else self.records.get("r1_shown", self.records["r1"])
        smallest = self.result.sample.smallest
        return Measured(
            tau1=self.tau1_shown or self.tau1,
            tau2=self.tau2_shown or self.tau2,
            smallest=float("nan") if smallest is None else float(smallest),
            r1=None if r1 is None else np.nan_to_num(r1.to_numpy(np.float64)),
            households=households,
        )

    @cached_property
    def _posterior(self) -> Posterior:
        if self._findings is None:
            assert self._loaded is not None
            return posterior_of(self._loaded, trust=self._trust)
        return Posterior.of(self._findings.fit)

    def _page(self, summary: Result) -> str:
        return render(summary, self._traces)

    def write(self, folder: Path) -> None:
        """Write report, numbers, records, draws and specification into a folder; see `save`."""
        with speaking(self.spec.report.language, self.spec.report.terms):
            if self._findings is not None:
                results.write(self._findings, folder)
            elif self._loaded is not None:
                self._loaded.copy(folder)

    def __repr__(self) -> str:
        result, sample = self.result, self.result.sample
        state = "converged" if result.converged else f"NOT CONVERGED ({result.stop_reason})"
        if result.stage == "preliminary":
            state = "PRELIMINARY, other models were not compared yet"
        return "\n".join(
            [
                f"Assessment of {result.data or 'a data frame'}: "
                f"{result.unit.counted(sample.n_records)}, "
                f"{sample.n_keys} keys, {sentences.at_risk(sample, result.unit)}; population "
                f"{sample.population_size:,}",
                f"τ1 {sentences.in_line(result, result.tau1)}  population uniques in the file",
                f"τ2 {sentences.in_line(result, result.tau2)}  expected correct matches",
                f"Model {result.fitted_model}: {state}",
                *filter(None, [result.sentences.get("threshold")]),
                ".tau1 .tau2 .records .draws .plot .warnings .save(folder)",
            ]
        )

    def _repr_html_(self) -> str:
        with speaking(self.spec.report.language, self.spec.report.terms):
            said = [sentences.headline(self.result), sentences.share(self.result)]
            # The figure and the table have an interval, which is no headline for every model.
            without = self.result.known_exactly or track_record.of_result(self.result).unreliable
            drawn = "" if without else self.plot.tau1()._repr_html_()
            return card([*said, *self.warnings[:3]], () if without else self._shown(), drawn)
