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

TYPE_CHECKING = False
"""As `typing` has it, whose import takes long enough for a Ctrl-C before the program hears it."""

if TYPE_CHECKING:
    from unikat.data import CellTable, Design, Key, Microdata, read
    from unikat.errors import DataError, OutputError, SpecError, UnikatError
    from unikat.jobs.assess import assess
    from unikat.jobs.assessment import Assessment
    from unikat.jobs.attack import Attacks, attack
    from unikat.jobs.compare import Comparison, compare
    from unikat.jobs.evaluate import Evaluation, evaluate
    from unikat.jobs.load import load
    from unikat.jobs.protect import Protection, protect
    from unikat.jobs.synthesize import Synthesis, synthesize
    from unikat.jobs.verify import Verification, verify
    from unikat.models.auto import Auto
    from unikat.models.cells.individual_risk import IndividualRisk
    from unikat.models.cells.population_count import PopulationCount
    from unikat.models.cells.superpopulation import Superpopulation1, Superpopulation2
    from unikat.models.loglinear.conditional import LogLinear
    from unikat.models.loglinear.empirical_bayes import ElamirSkinner, SkinnerHolmes
    from unikat.models.loglinear.mixed_effects import MixedEffects
    from unikat.models.mixtures.gom import GoM
    from unikat.models.mixtures.hdp import HDP
    from unikat.models.mixtures.latent_class import LatentClass
    from unikat.report.pages.plots import Figure
    from unikat.risk.estimate import RiskEstimate
    from unikat.studies.fit import Fit, fit
    from unikat.synthesis.combine import (
        combine_fully_synthetic,
        combine_imputed,
        combine_partially_synthetic,
    )
    from unikat.zeros import Zeros
    from unikat.zeros.conflicts import apply_zeros


_MODULES = {
    "Assessment": "unikat.jobs.assessment",
    "Attacks": "unikat.jobs.attack",
    "Auto": "unikat.models.auto",
    "CellTable": "unikat.data",
    "Comparison": "unikat.jobs.compare",
    "DataError": "unikat.errors",
    "DryRun": "unikat.jobs.dry_run",
    "Design": "unikat.data",
    "ElamirSkinner": "unikat.models.loglinear.empirical_bayes",
    "Evaluation": "unikat.jobs.evaluate",
    "Figure": "unikat.report.pages.plots",
    "Fit": "unikat.studies.fit",
    "GoM": "unikat.models.mixtures.gom",
    "HDP": "unikat.models.mixtures.hdp",
    "IndividualRisk": "unikat.models.cells.individual_risk",
    "Key": "unikat.data",
    "LatentClass": "unikat.models.mixtures.latent_class",
    "LogLinear": "unikat.models.loglinear.conditional",
    "Microdata": "unikat.data",
    "MixedEffects": "unikat.models.loglinear.mixed_effects",
    "OutputError": "unikat.errors",
    "PopulationCount": "unikat.models.cells.population_count",
    "Protection": "unikat.jobs.protect",
    "RiskEstimate": "unikat.risk.estimate",
    "SkinnerHolmes": "unikat.models.loglinear.empirical_bayes",
    "SpecError": "unikat.errors",
    "Superpopulation1": "unikat.models.cells.superpopulation",
    "Superpopulation2": "unikat.models.cells.superpopulation",
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

__all__ = [
    "HDP",
    "Assessment",
    "Attacks",
    "Auto",
    "CellTable",
    "Comparison",
    "DataError",
    "Design",
    "DryRun",
    "ElamirSkinner",
    "Evaluation",
    "Figure",
    "Fit",
    "GoM",
    "IndividualRisk",
    "Key",
    "LatentClass",
    "LogLinear",
    "Microdata",
    "MixedEffects",
    "OutputError",
    "PopulationCount",
    "Protection",
    "RiskEstimate",
    "SkinnerHolmes",
    "SpecError",
    "Superpopulation1",
    "Superpopulation2",
    "Synthesis",
    "UnikatError",
    "Verification",
    "Zeros",
    "__version__",
    "apply_zeros",
    "assess",
    "attack",
    "combine_fully_synthetic",
    "combine_imputed",
    "combine_partially_synthetic",
    "compare",
    "dry_run",
    "evaluate",
    "fit",
    "load",
    "protect",
    "read",
    "synthesize",
    "verify",
]


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
