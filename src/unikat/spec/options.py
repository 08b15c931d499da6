"""The options of the commands that assess: each defined once, for command line and Python alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

from unikat.spec.data_options import (
    DesignOptions,
    GroupingOptions,
    HouseholdOptions,
    KeyOptions,
    MarginOptions,
    PopulationOptions,
    ReadingOptions,
    RelativeOptions,
    RuleOptions,
    ZerosOptions,
)
from unikat.spec.option import File, Option


class ModelOptions(TypedDict, total=False):
    """The model, and its options that have a name of their own."""

    model: Annotated[
        Any,
        Option(
            "MODEL",
            "Statistical model, with its options after colons: gom:components=30. auto selects "
            "among several, and its interval covers the model's own error.",
            default="auto",
        ),
    ]
    terms: Annotated[
        str,
        Option(
            "TEXT",
            "Terms of a log-linear model: independence, two-way, three-way, select, or terms such "
            "as 'A + B:C'.",
            "model.terms",
        ),
    ]
    random: Annotated[
        str, Option("KIND", "Random effects of mixed-effects: none, normal or dp.", "model.random")
    ]
    mean: Annotated[
        str, Option("KIND", "Mean of the random effects: zero or unknown.", "model.mean")
    ]
    fixed: Annotated[
        str, Option("KIND", "Fixed effects: none, independence or two-way.", "model.fixed")
    ]
    empirical: Annotated[
        bool,
        Option("", "Fixed effects at their maximum likelihood estimate.", "model.empirical"),
    ]
    set: Annotated[
        Mapping[str, Any] | Sequence[str],
        Option("NAME=VALUE", "Any other option of the model; in Python a mapping.", "model"),
    ]


class ClassicsOptions(TypedDict, total=False):
    """The classic measures, and a registry."""

    classics: Annotated[
        bool,
        Option("", "Also k-anonymity, individual risk, SUDA2 and estimates of population uniques."),
    ]
    sensitive: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Sensitive variables, for l-diversity and t-closeness (with --classics).",
            "classics.sensitive",
            default="none",
        ),
    ]
    registry: Annotated[
        Any,
        Option(
            "FILE",
            "Registered units that share the keys: how many of them are unique in the population, "
            "estimated from the survey. In Python also a frame.",
            "registry.path",
        ),
    ]


class SamplingOptions(TypedDict, total=False):
    """Chains, seed, and when to stop."""

    chains: Annotated[int, Option("N", "Chains of each fit.", "sampling.chains")]
    seed: Annotated[int, Option("N", "The same seed gives the same numbers.", "sampling.seed")]
    thin: Annotated[
        int,
        Option("N", "Sweeps per kept draw.", "sampling.thin", default="chosen by the sampler"),
    ]
    rhat: Annotated[
        float, Option("R", "A fit continues until R-hat is at most this.", "sampling.rhat")
    ]
    ess: Annotated[
        float,
        Option(
            "N", "A fit continues until effective sample sizes are at least this.", "sampling.ess"
        ),
    ]
    max_sweeps: Annotated[
        int,
        Option(
            "N",
            "Stop a fit after so many sweeps of a chain.",
            "sampling.max_sweeps",
            default="200000",
        ),
    ]
    max_seconds: Annotated[
        float,
        Option(
            "S",
            "Stop a fit after so many seconds; with auto, the last one. Its numbers then depend on "
            "the machine.",
            "sampling.max_seconds",
        ),
    ]
    workers: Annotated[
        int,
        Option("N", "Processes.", "sampling.workers", default="one per chain or core"),
    ]
    threads: Annotated[
        int,
        Option("N", "Threads of each process.", "sampling.threads", default="cores per process"),
    ]
    executor: Annotated[
        str,
        Option(
            "NAME",
            "What runs the chains, and the samples of evaluate: processes, dask or mpi; "
            "dask:ADDRESS or ray:ADDRESS is a cluster that runs already.",
            "sampling.executor",
        ),
    ]
    device: Annotated[
        Literal["cpu", "cuda"],
        Option(
            "NAME",
            "What computes latent-class, hdp and gom: cpu, or cuda for a GPU of NVIDIA. Other "
            "models take the CPU.",
            "sampling.device",
        ),
    ]


class LevelOptions(TypedDict, total=False):
    """Intervals."""

    level: Annotated[float | str, Option("P", "Probability of the intervals.")]


class AssessOptions(
    KeyOptions,
    PopulationOptions,
    ModelOptions,
    ReadingOptions,
    DesignOptions,
    RelativeOptions,
    HouseholdOptions,
    MarginOptions,
    ZerosOptions,
    ClassicsOptions,
    SamplingOptions,
    total=False,
):
    """Options of `unikat assess` and `unikat.assess`."""

    level: Annotated[float | str, Option("P", "Probability of the intervals.", "report.level")]
    show_small_cells: Annotated[
        bool,
        Option(
            "",
            "Print the values of the records at greatest risk in the report.",
            "report.show_small_cells",
        ),
    ]
    threshold: Annotated[
        str,
        Option(
            "TEXT",
            "Limit of the risk, as 'tau1 <= 5' or 'tau2 <= 10' (upper end of the interval), "
            "'tau1_estimate <= 5', 'r1 <= 0.2' or 'k >= 3'. The report says whether it is met; "
            "exit code 3 if it is not, or not known.",
            "report.threshold",
        ),
    ]
    by: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Columns by which the report breaks the risk down, such as a region; the keys are "
            "always broken down.",
            "report.by",
            default="none",
        ),
    ]
    keep_states: Annotated[
        bool,
        Option(
            "",
            "Keep the last states of the chains beside the results, so that recodings can be "
            "looked at later without another fit. They are as confidential as the data.",
            "report.keep_states",
        ),
    ]


class _ComparedOptions(TypedDict, total=False):
    models: Annotated[
        str | Sequence[Any],
        Option(
            "A,B,C",
            "Models with their options: hdp,hdp:alpha=per-record,'loglinear:terms=A + B:C'.",
            default="required",
        ),
    ]
    path: Annotated[
        str | Mapping[str, Any],
        Option(
            "OPTION=1,2,3",
            "Fit each model that has this option with each of these values, to see from which "
            "value on τ1 is stable.",
        ),
    ]
    held_out: Annotated[
        float | str,
        Option(
            "SHARE",
            "Share of the records to leave out and predict, as 0.2 or 20%; 0 for none.",
        ),
    ]


class CompareOptions(
    KeyOptions,
    PopulationOptions,
    _ComparedOptions,
    ReadingOptions,
    DesignOptions,
    MarginOptions,
    ZerosOptions,
    SamplingOptions,
    LevelOptions,
    total=False,
):
    """Options of `unikat compare` and `unikat.compare`."""


class _StudyOptions(TypedDict, total=False):
    n: Annotated[
        int | str | Sequence[int | str],
        Option(
            "N,N,...",
            "Sizes of the samples, in units or as shares of the population, with commas between "
            "sizes, not in them: 1000,5%.",
            default="required",
        ),
    ]
    repeats: Annotated[int | str, Option("N", "Samples of each size.")]
    models: Annotated[
        str | Sequence[Any],
        Option(
            "A,B,...",
            "Models, with options after colons: hdp,gom:components=30,'loglinear:terms=A + B:C'.",
            default="hdp",
        ),
    ]
    design: Annotated[
        Literal["simple", "bernoulli", "stratified", "pps", "households"],
        Option(
            "HOW",
            "simple (without replacement), bernoulli, stratified, pps (with probabilities in "
            "proportion to a size), or households (whole households).",
        ),
    ]
    strata: Annotated[str, Option("COLUMN", "Column of the strata.")]
    allocation: Annotated[
        Literal["proportional", "equal", "power"],
        Option("HOW", "How strata share a sample: proportional, equal, or power (of their sizes)."),
    ]
    power: Annotated[
        float,
        Option(
            "Q",
            "Power of the strata's sizes, from 0 to 1, for --allocation power.",
            default="0.5",
        ),
    ]
    size: Annotated[str, Option("COLUMN", "Column of the units' sizes, for --design pps.")]
    household: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Columns that together identify the household, for --design households.",
            default="none",
        ),
    ]
    levels: Annotated[
        Literal["population", "sample"],
        Option(
            "WHOSE",
            "Levels of the keys that models know: all of the population, as from a codebook, or "
            "those of the sample.",
        ),
    ]


class EvaluateOptions(
    KeyOptions,
    _StudyOptions,
    ReadingOptions,
    ZerosOptions,
    SamplingOptions,
    LevelOptions,
    total=False,
):
    """Options of `unikat evaluate` and `unikat.evaluate`."""


class ZerosCommandOptions(KeyOptions, RuleOptions, ReadingOptions, total=False):
    """Options of `unikat zeros`."""


class ZerosCheckOptions(ZerosCommandOptions, GroupingOptions, total=False):
    """Options of `unikat zeros check`, which knows rules about households too."""

    household: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Columns that together identify the household: the rules are about whole households.",
            "design.household",
            default="none",
        ),
    ]
    household_file: Annotated[
        File,
        Option(
            "FILE",
            "File with a row for each household, which has the keys of --household-keys.",
            "households.path",
        ),
    ]


class CheckedOptions(ZerosCheckOptions, ModelOptions, total=False):
    """The same with the model, which tells whether rules are about persons or households."""
