"""What the forms of the workbench hold: the options of `unikat assess`, under their own names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unikat.spec.assessment import AssessmentSpec

READING = ("format", "delimiter", "encoding", "decimal", "sheet", "table")
"""How a file is read; fields of the page of the file."""
DESIGN = (
    "population_size", "missing", "missing_values", "codebook", "weights", "relative_weights",
    "inclusion", "strata", "household", "zeros_conflict",
)  # fmt: skip
"""Fields of the page of keys and design, besides the keys themselves and the rules."""
RUN = ("model", "set", "threshold", "by", "chains", "seed", "max_sweeps", "max_seconds", "workers")
"""Fields of the page of the run."""
FLAGS = ("relative_weights",)
PATHS = ("codebook",)
_GROUPED = re.compile(r"(?P<name>.+):\s*(?P<rule>\w+\([^()]*\))\s*", re.DOTALL)
"""A key with its rule."""
RULES = "rules.toml"
"""File of the impossible combinations in the command line that repeats a run."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What was said about a file so far; every value is the text of a field."""

    path: str
    """Of the file, from the folder of the workbench."""
    values: Mapping[str, str] = field(default_factory=dict)
    """By name of the option; without those that are empty."""
    keys: tuple[str, ...] = ()
    """Columns that are keys, in the order of the file."""
    groupings: Mapping[str, str] = field(default_factory=dict)
    """Rule by column, of those that have one: `width(5)`."""
    rules: str = ""
    """Impossible combinations, a rule on each line."""
    notes: tuple[str, ...] = ()
    """What was found in the file when keys and design were last checked."""

    @classmethod
    def of_run(cls, path: str, spec: Mapping[str, Any]) -> Draft:
        """Return what a specification says, as the forms would have it; defaults are left out.

        Parameters
        ----------
        path
            Of the file, from the folder of the workbench.
        spec
            A specification as TOML has it. What no form holds is passed over.

        Examples
        --------
        >>> spec = {"keys": ["AGE:width(5)", "SEX"], "sampling": {"chains": 4, "seed": 7}}
        >>> draft = Draft.of_run("survey.csv", spec | {"model": {"name": "gom", "components": 9}})
        >>> draft.keys, draft.groupings, draft.values
        (('AGE', 'SEX'), {'AGE': 'width(5)'}, {'model': 'gom', 'seed': '7', 'set': 'components=9'})
        """
        from unikat.spec.assessment import AssessmentSpec
        from unikat.spec.options import AssessOptions, default_of, options_of

        values: dict[str, str] = {}
        for defined in options_of(AssessOptions):
            place = defined.option.path(defined.name)
            if defined.name not in (*READING, *DESIGN, *RUN) or defined.name in PATHS:
                continue
            value: Any = spec
            for part in ("model", "name") if defined.name == "model" else place:
                value = value.get(part) if isinstance(value, Mapping) else None
            if isinstance(value, Mapping):
                # No field holds it, such as missing codes by key.
                continue
            if value not in (None, (), [], default_of(defined, AssessmentSpec)):
                values[defined.name] = _field_text(value)
        options = spec.get("model", {})
        given = {name: value for name, value in options.items() if name != "name"}
        # A mapping is none of the texts of a field.
        values.pop("set", None)
        if given:
            values["set"] = "\n".join(
                f"{name}={_field_text(value)}" for name, value in given.items()
            )
        matched = [(text, _GROUPED.fullmatch(text)) for text in spec.get("keys", ())]
        rules = spec.get("zeros", {}).get("rules", ())
        return cls(
            path=path,
            values=values,
            keys=tuple(text if found is None else found["name"] for text, found in matched),
            groupings={found["name"]: found["rule"] for _, found in matched if found is not None},
            rules="\n".join(rule if isinstance(rule, str) else rule["rule"] for rule in rules),
        )

    def updated(self, fields: Mapping[str, str], names: Sequence[str]) -> Draft:
        """Return the draft with these options as a form has them, and the others as they were."""
        given = {name: fields.get(name, "").strip("\r\n ") for name in names}
        kept = {name: value for name, value in self.values.items() if name not in names}
        return replace(self, values=kept | {name: value for name, value in given.items() if value})

    def with_keys(self, keys: Sequence[str], groupings: Mapping[str, str], rules: str) -> Draft:
        """Return the draft with other keys, groupings and rules; what was found is forgotten."""
        grouped = {name: rule.strip() for name, rule in groupings.items() if rule.strip()}
        return replace(self, keys=tuple(keys), groupings=grouped, rules=rules, notes=())

    @property
    def key_texts(self) -> list[str]:
        """The keys with their rules, as the option has them."""
        return [
            f"{name}:{self.groupings[name]}" if name in self.groupings else name
            for name in self.keys
        ]

    @property
    def rule_texts(self) -> list[str]:
        """The rules of impossible combinations."""
        return [line.strip() for line in self.rules.splitlines() if line.strip()]

    @property
    def reading(self) -> dict[str, str]:
        """How the file is read, as the functions that read it want it."""
        given = {name: self.values[name] for name in READING if name in self.values}
        if given.get("delimiter") == "tab":
            given["delimiter"] = "\t"
        return {name: value for name, value in given.items() if name != "decimal"}

    @property
    def rules_file(self) -> str:
        """The content of the file of rules that the command line names; empty without rules."""
        from unikat.files.toml import toml_literal

        listed = "".join(f"    {toml_literal(rule)},\n" for rule in self.rule_texts)
        return f"rules = [\n{listed}]" if listed else ""

    def options(self, root: Path) -> dict[str, Any]:
        """Return the options of `unikat.assess`; paths count from a folder."""
        found: dict[str, Any] = {"keys": self.key_texts, **self.values}
        for name in FLAGS:
            if name in found:
                found[name] = True
        for name in PATHS:
            if name in found:
                found[name] = str(root / found[name])
        if self.rule_texts:
            found["zeros"] = self.rule_texts
        else:
            found.pop("zeros_conflict", None)
        if "set" in found:
            found["set"] = [part for part in found["set"].splitlines() if part.strip()]
        return found

    def spec(self, file: Path, root: Path) -> AssessmentSpec:
        """Return the specification of the run, checked.

        Raises
        ------
        SpecError
            If a field is wrong; the message names all that are.
        """
        from unikat.spec.assessment import AssessmentSpec
        from unikat.spec.from_options import specify
        from unikat.spec.options import AssessOptions

        return specify(
            AssessmentSpec, AssessOptions, file, self.options(root), shell=True, caller="The form"
        )[0]

    def command(self, out: str) -> str:
        """Return the command line that does the same, in the folder of the workbench.

        Examples
        --------
        >>> draft = Draft(path="survey.csv", keys=("AGE", "SEX"), groupings={"AGE": "width(5)"})
        >>> draft.updated({"population_size": "1000"}, DESIGN).command("new")
        "unikat assess survey.csv --keys 'AGE:width(5),SEX' --population-size 1000 --out new"
        """
        words = ["unikat", "assess", self.path, "--keys", ",".join(self.key_texts)]
        for name, value in self.values.items():
            flag = f"--{name.replace('_', '-')}"
            if name == "zeros_conflict" and not self.rule_texts:
                continue
            if name in FLAGS:
                words.append(flag)
            else:
                for part in value.splitlines() if name == "set" else [value]:
                    words += [flag, part]
        if self.rule_texts:
            words += ["--zeros", RULES]
        return shlex.join([*words, "--out", out])


def _field_text(value: Any) -> str:
    """Write a value of a specification as a field has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)
