"""Disclosure risk of categorical microdata.

The whole of an assessment is one call::

    import unikat

    result = unikat.assess(data, keys=["age", "sex", "occupation"], population_size=712_174)
    result.tau1.mean, result.tau1.interval
    result.save("assessment")

Its steps are public too: `read` gives `Microdata`, `tabulate` a `CellTable`, `fit` a `Fit` of a
model, and `Fit.estimate` a `RiskEstimate`.

The names below are loaded when first used, so that ``import unikat`` costs nothing.
"""

from unikat._version import __version__
from unikat.spec.models import CATALOGUE

_MODULES = {
    **{entry.class_name: entry.module for entry in CATALOGUE.values()},
    "Assessment": "unikat.jobs.assessment",
    "Attacks": "unikat.jobs.attack",
    "CellTable": "unikat.data",
    "Comparison": "unikat.jobs.compare",
    "DataError": "unikat.errors",
    "DryRun": "unikat.jobs.dry_run",
    "Design": "unikat.data",
    "Evaluation": "unikat.jobs.evaluate",
    "Figure": "unikat.report.pages.plots",
    "Fit": "unikat.studies.fit",
    "Key": "unikat.data",
    "Microdata": "unikat.data",
    "OutputError": "unikat.errors",
    "PopulationCount": "unikat.models.cells.population_count",
    "Protection": "unikat.jobs.protect",
    "RiskEstimate": "unikat.risk.estimate",
    "SpecError": "unikat.errors",
    "Synthesis": "unikat.jobs.synthesize",
    "UnikatError": "unikat.errors",
    "Verification": "unikat.jobs.verify",
    "Zeros": "unikat.zeros",
    "apply_zeros": "unikat.zeros.conflicts",
    "assess": "unikat.jobs.assess",
    "attack": "unikat.jobs.attack",
    "combine_fully_synthetic": "unikat.synthesis.combine",
    "combine_imputed": "unikat.synthesis.combine",
    "combine_partially_synthetic": "unikat.synthesis.combine",
    "compare": "unikat.jobs.compare",
    "dry_run": "unikat.jobs.dry_run",
    "evaluate": "unikat.jobs.evaluate",
    "fit": "unikat.studies.fit",
    "load": "unikat.jobs.load",
    "read": "unikat.data",
    "protect": "unikat.jobs.protect",
    "synthesize": "unikat.jobs.synthesize",
    "verify": "unikat.jobs.verify",
}

__all__ = [*_MODULES, "__version__"]
"""Their types, and the options of each run, stand in `__init__.pyi`."""


def __getattr__(name: str) -> object:
    """Load a public name from the module that defines it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
