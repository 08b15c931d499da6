"""Disclosure risk of categorical microdata.

The whole of an assessment is one call::

    import unikat

    result = unikat.assess(data, keys=["age", "sex", "occupation"], population_size=712_174)
    result.tau1.mean, result.tau1.interval
    result.save("assessment")

Its steps are public too, on matrices of codes and on frames::

    table = unikat.tabulate(codes, population_size=712_174)
    fit = unikat.fit("hdp", table)
    unikat.estimate_risk(fit).tau1.mean
    unikat.recode(fit, {"key2": "width(10)"}).tau1.mean

The names below are loaded when first used, so that ``import unikat`` costs nothing.
"""

from unikat._version import __version__ as __version__

_NO_MODELS = {
    "Assessment": "unikat.jobs.assessment",
    "Attacks": "unikat.jobs.attack",
    "Certified": "unikat.jobs.check",
    "Check": "unikat.jobs.check",
    "CellLaw": "unikat.models.base",
    "CellTable": "unikat.data",
    "Checkpoint": "unikat.inference.checkpoint",
    "Combined": "unikat.synthesis.combine",
    "Comparison": "unikat.jobs.compare",
    "DataError": "unikat.errors",
    "Declared": "unikat.data.sources",
    "Design": "unikat.data",
    "Diagram": "unikat.kernels.zeros",
    "Draws": "unikat.inference.draws",
    "DryRun": "unikat.jobs.dry_run",
    "Evaluation": "unikat.jobs.evaluate",
    "Execution": "unikat.studies.auto",
    "Figure": "unikat.report.pages.plots",
    "Fit": "unikat.studies.fit",
    "Handled": "unikat.zeros.conflicts",
    "HouseholdLayout": "unikat.data.households",
    "Judged": "unikat.risk.limits",
    "Key": "unikat.data",
    "Microdata": "unikat.data",
    "Model": "unikat.models.base",
    "OutputError": "unikat.errors",
    "Plan": "unikat.inference.plan",
    "PopulationCount": "unikat.models.cells.population_count",
    "ProfilePrior": "unikat.models.mixtures.profiles",
    "Protection": "unikat.jobs.protect",
    "Registry": "unikat.risk.registry",
    "RegistryRisk": "unikat.risk.registry",
    "RiskEstimate": "unikat.risk.estimate",
    "Rule": "unikat.zeros",
    "Sampler": "unikat.models.base",
    "Simulator": "unikat.models.base",
    "SpecError": "unikat.errors",
    "StopRule": "unikat.inference.plan",
    "Synthesis": "unikat.jobs.synthesis",
    "UnikatError": "unikat.errors",
    "Verification": "unikat.jobs.verify",
    "Workers": "unikat.inference.backends",
    "Zeros": "unikat.zeros",
    "apply_zeros": "unikat.zeros.conflicts",
    "assess": "unikat.jobs.assess",
    "attack": "unikat.jobs.attack",
    "check": "unikat.jobs.check",
    "combine_fully_synthetic": "unikat.synthesis.combine",
    "combine_imputed": "unikat.synthesis.combine",
    "combine_partially_synthetic": "unikat.synthesis.combine",
    "compare": "unikat.jobs.compare",
    "datasets": "unikat.datasets",
    "dry_run": "unikat.jobs.dry_run",
    "estimate_risk": "unikat.jobs.steps",
    "evaluate": "unikat.jobs.evaluate",
    "fit": "unikat.studies.fit",
    "load": "unikat.jobs.outcome",
    "protect": "unikat.jobs.protect",
    "read": "unikat.data",
    "recode": "unikat.jobs.steps",
    "synthesize": "unikat.jobs.synthesize",
    "tabulate": "unikat.jobs.steps",
    "verify": "unikat.jobs.verify",
}


def __getattr__(name: str) -> object:
    """Load a public name from the module that defines it.

    `__all__` and the models too: `python -m unikat` imports this file before it leaves the current
    folder, whose modules must not be imported. Types, and the options of each run, stand in
    `__init__.pyi`.
    """
    value: object
    if name == "_MODULES":
        from unikat.spec.models import CATALOGUE

        models = {entry.class_name: entry.module for entry in CATALOGUE.values()}
        value = models | _NO_MODELS
    elif name == "__all__":
        value = [*__getattr__("_MODULES"), "__version__"]
    elif name.startswith("_") or name not in __getattr__("_MODULES"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        from importlib import import_module

        path = __getattr__("_MODULES")[name]
        value = import_module(path)
        if path != f"{__name__}.{name}":
            value = getattr(value, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))
