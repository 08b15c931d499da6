"""What the forms of the workbench hold: the options of a run, under their own names."""

from __future__ import annotations

import functools
import hashlib
import posixpath
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from unikat.language.keys import entries_of, key_of, quoted, split_keys
from unikat.report.text.language import DEFAULT, current
from unikat.spec.kinds import ASSESS, KINDS, Kind
from unikat.spec.models import AUTO, models_with
from unikat.web.folder import Folder

if TYPE_CHECKING:
    from unikat.spec.assessment import AssessmentSpec
    from unikat.spec.base import Spec
    from unikat.spec.option import Defined

PAGES = ("file", "keys", "columns", "run", "key")
"""Pages that ask for options."""
KEEPING = models_with(of_households=None, knows_groups=True)
"""Models whose states tell what recoded keys would change."""
RULES = "rules.toml"
"""File of the impossible combinations in the command line that repeats a run."""


@functools.cache
def fields_on(page: str, kind: Kind = ASSESS) -> Mapping[str, Defined]:
    """Return the options that a page asks for, by name.

    Parameters
    ----------
    page
        `file`, `keys`, `columns`, `run`, or `key`: once for each key.
    kind
        Of the run.
    """
    from unikat.spec.option import options_of, rare_options_of

    asks = kind.specification
    known = (*options_of(asks), *rare_options_of(asks))
    return {one.name: one for one in known if one.option.form == page}


@functools.cache
def flag_of(name: str) -> str:
    """Return what the command line calls the field of a form.

    Examples
    --------
    >>> flag_of("population_size"), flag_of("inclusion")
    ('--population-size', '--set design.inclusion')
    """
    forms = [fields_on(page, kind) for kind in KINDS.values() for page in PAGES]
    return next(fields[name].flag for fields in forms if name in fields)


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
    of_keys: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By option, of those that each key has: the text of the field by key."""
    rules: str = ""
    """Impossible combinations, a rule on each line."""
    kind: Kind = ASSESS
    """What is to be done with the file."""
    notes: tuple[str, ...] = ()
    """What was found in the file when keys and design were last checked."""
    unsaved: str = ""
    """Why it is not on disk; empty if it is, or nothing was said yet."""

    @classmethod
    def of_run(
        cls, path: str, spec: Mapping[str, Any], kind: Kind = ASSESS, folder: str = ""
    ) -> Draft:
        """Return what a specification says, as the forms would have it; defaults are left out.

        Parameters
        ----------
        path
            Of the file, from the folder of the workbench.
        spec
            A specification as TOML has it. What has no field of its own is written as for `set`;
            what only the user may decide is passed over, unless a field holds it.
        kind
            Of the run.
        folder
            From which paths in the specification count, from that of the workbench.

        Examples
        --------
        >>> spec = {"keys": ["AGE:width(5)", "SEX"], "sampling": {"seed": 7, "rhat": 1.05}}
        >>> draft = Draft.of_run("survey.csv", spec | {"model": {"name": "gom", "components": 9}})
        >>> draft.keys, draft.groupings, draft.values["seed"], draft.values["set"].splitlines()
        (('AGE', 'SEX'), {'AGE': 'width(5)'}, '7', ['components=9', 'sampling.rhat=1.05'])
        """
        from unikat.spec.paths import with_paths

        def located(name: str) -> str:
            return posixpath.normpath(posixpath.join(folder, name))

        def moved(path: Path) -> Path:
            return Path(located(str(path)))

        values: dict[str, str] = {}
        of_keys: dict[str, dict[str, str]] = {}
        for defined in (one for page in PAGES for one in fields_on(page, kind).values()):
            place = defined.place
            value: Any = spec
            for part in ("model", "name") if defined.name == "model" else place:
                value = value.get(part) if isinstance(value, Mapping) else None
            if defined.option.form == "key":
                of_keys[defined.name] = _by_key(with_paths(value, moved, texts=True))
                continue
            if defined.is_flag:
                # A table of what a flag asks for stands for it.
                values |= {} if value in (None, False) else {defined.name: "yes"}
                continue
            if defined.is_file:
                value = value.get("path") if defined.table and value else value
                # What a file held may stand there in its place.
                value = located(value) if isinstance(value, str) else None
            if defined.is_files:
                value = [located(one["path"]) for one in value or () if "path" in one]
                values |= {defined.name: "\n".join(value)} if value else {}
                continue
            if value not in (None, (), [], {}, defined.default):
                values[defined.name] = _field_text(value)
        given = _options_given(spec.get("model", {}))
        # A mapping is none of the texts of a field.
        values.pop("set", None)
        given |= _without_field(spec, kind)
        if given:
            values["set"] = "\n".join(
                f"{name}={_field_text(value)}" for name, value in given.items()
            )
        if "tables" in values:
            values["tables"] = "; ".join(_field_text(one) for one in spec["tables"])
        if "path" in values:
            varied = spec["path"]
            values["path"] = f"{varied['option']}={_field_text(varied['values'])}"
        if "n" in values:
            # Without the space it might be one size with a comma between thousands.
            values["n"] = ", ".join(map(str, spec["n"]))
        # Who repeats a perturbation with other keys is not to draw the same numbers.
        values.pop("perturbation_seed", None)
        matched = list(map(key_of, spec.get("keys", ())))
        rules = spec.get("zeros", {}).get("rules", ())
        return cls(
            path=path,
            kind=kind,
            values=values,
            of_keys={name: texts for name, texts in of_keys.items() if texts},
            keys=tuple(name for name, _ in matched),
            groupings={name: str(call) for name, call in matched if call is not None},
            rules="\n".join(rule if isinstance(rule, str) else rule["rule"] for rule in rules),
        )

    def updated(self, fields: Mapping[str, str], names: Collection[str]) -> Draft:
        """Return the draft with these options as a form has them, and the others as they were."""
        given = {name: fields.get(name, "").strip("\r\n ") for name in names}
        kept = {name: value for name, value in self.values.items() if name not in names}
        return replace(self, values=kept | {name: value for name, value in given.items() if value})

    def with_keys(self, keys: Sequence[str], groupings: Mapping[str, str], rules: str) -> Draft:
        """Return the draft with other keys, groupings and rules; what was found is forgotten."""
        grouped = {name: rule.strip() for name, rule in groupings.items() if rule.strip()}
        return replace(self, keys=tuple(keys), groupings=grouped, rules=rules, notes=())

    def with_dates(self, fields: Mapping[str, str]) -> Draft:
        """Return the draft with the forms of dates, by column; empty: as they are found."""
        told = {name: form.strip() for name, form in fields.items() if form.strip()}
        others = {name: texts for name, texts in self.of_keys.items() if name != "dates"}
        return replace(self, of_keys=others | ({"dates": told} if told else {}))

    def with_key_options(self, fields: Mapping[str, str]) -> Draft:
        """Return the draft with the fields of each key, which are named `option:key`.

        What another page asks for each key, the kind of its levels, stays.
        """
        texts = dict(self.of_keys) | {
            option: {
                key: text
                for key in self.keys
                if (text := fields.get(f"{option}:{key}", "").strip("\r\n "))
            }
            for option in fields_on("key", self.kind)
            if option in ON_RUN
        }
        return replace(self, of_keys={name: found for name, found in texts.items() if found})

    @property
    def said(self) -> Draft:
        """What somebody has written, without what was found and whether it is on disk."""
        return replace(self, notes=(), unsaved="")

    @property
    def asked_before(self) -> str:
        """What changes when the pages before that of the run are filled in otherwise."""
        pages = ("file", "keys", "columns")
        names = {name for page in pages for name in fields_on(page, self.kind)}
        values = sorted((name, text) for name, text in self.values.items() if name in names)
        kinds = [
            sorted(self.of_keys.get(name, {}).items()) for name in ("levels", "groups", "dates")
        ]
        told = repr((self.keys, sorted(self.groupings.items()), self.rules, values, kinds))
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def key_texts(self) -> list[str]:
        """The keys with their rules, as the option has them."""
        return self._texts_of_keys(str)

    def _texts_of_keys(self, written: Callable[[str], str]) -> list[str]:
        rules = self.groupings if self.kind.groups_keys else {}
        return [
            f"{written(name)}:{rules[name]}" if name in rules else written(name)
            for name in self.keys
        ]

    @property
    def rule_texts(self) -> list[str]:
        """The rules of impossible combinations; none of a kind of run that takes none."""
        if not _takes_rules(self.kind):
            return []
        return [line.strip() for line in self.rules.splitlines() if line.strip()]

    @property
    def reading(self) -> dict[str, str]:
        """How the file is read, as the functions that read it want it."""
        given = {name: self.values[name] for name in fields_on("file") if name in self.values}
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
        """Return the options of the run; paths count from a folder.

        Raises
        ------
        NotInFolderError
            If a path leads to nothing in there.
        """
        found: dict[str, Any] = {"keys": self.key_texts, **self._given}
        for name, one in self._fields.items():
            if name not in found:
                continue
            if one.is_flag:
                found[name] = True
            elif one.is_file:
                found[name] = str(Folder(root).resolve(found[name]))
            elif one.is_files:
                listed = found[name].splitlines()
                found[name] = [str(Folder(root).resolve(path)) for path in listed]
        if self.rule_texts:
            found["zeros"] = self.rule_texts
        rare = [f"{self._rare[name]}={found.pop(name)}" for name in self._rare if name in found]
        if rare or "set" in found:
            lines = found.get("set", "").splitlines()
            found["set"] = [*rare, *(part for part in lines if part.strip())]
        found |= self._options_of_keys(Folder(root))
        if self.keeps_states:
            found["keep_states"] = True
        return found

    @property
    def keeps_states(self) -> bool:
        """Whether the run keeps states of the model, so that recodings can be looked at."""
        return self.kind.name == "assess" and self.values.get("model", AUTO) in KEEPING

    def _options_of_keys(self, folder: Folder) -> dict[str, Any]:
        from unikat.spec.paths import with_paths
        from unikat.spec.perturbation import are_probabilities
        from unikat.spec.recodings import recodings_of

        found: dict[str, Any] = dict(self._of_keys)
        if "keep" in found:
            found["keep"] = list(found["keep"])
        for name in {"recodings", "recode", "levels", "groups"} & set(found):
            texts = recodings_of(found[name]) if name == "recodings" else found[name]
            found[name] = with_paths(texts, lambda path: folder.place(str(path)), texts=True)
        if "pram" in found:
            found["pram"] = {
                key: text if are_probabilities(text) else str(folder.place(text))
                for key, text in found["pram"].items()
            }
        return found

    @property
    def _of_keys(self) -> dict[str, Mapping[str, str]]:
        """What the kind of run is told of each key."""
        known = fields_on("key", self.kind)
        found = {
            name: {key: text for key, text in texts.items() if key in self.keys}
            for name, texts in self.of_keys.items()
            if name in known
        }
        return {name: texts for name, texts in found.items() if texts}

    @property
    def unused(self) -> list[str]:
        """Options of the page of keys and design that have no use for this kind of run."""
        found = [
            flag_of(name)
            for name in self.values
            if name in fields_on("keys") and name not in self._given
        ]
        if self.rules.strip() and not self.rule_texts:
            found.append("--zeros")
        grouped = self.groupings if not self.kind.groups_keys else {}
        return found + [f"{key}:{rule}" for key, rule in grouped.items() if key in self.keys]

    @property
    def _fields(self) -> dict[str, Defined]:
        """The options that forms of this kind of run ask for once."""
        pages = [page for page in PAGES if page != "key"]
        return {name: one for page in pages for name, one in fields_on(page, self.kind).items()}

    @property
    def _given(self) -> dict[str, str]:
        """The values that the kind of run uses, in the order in which they were given."""
        names = set(self._fields)
        if self.kind.name == "evaluate":
            # The columns that the page of the design has, where samples are drawn by them.
            for column, design in (("strata", "stratified"), ("household", "households")):
                if self.values.get("design") != design:
                    names.discard(column)
        if not self.rule_texts:
            names.discard("zeros_conflict")
        spoken = {"language": current()} if "language" in names and current() != DEFAULT else {}
        return spoken | {name: value for name, value in self.values.items() if name in names}

    @property
    def _rare(self) -> dict[str, str]:
        """Fields that `set` alone reaches, with their places."""
        found = (one for one in self._fields.values() if one.option.rare)
        return {one.name: ".".join(one.place) for one in found}

    def spec(self, file: Path | str, root: Path) -> AssessmentSpec:
        """Return the specification of an assessment, checked: how the file is read, and design.

        Raises
        ------
        SpecError
            If a field is wrong; the message names all that are.
        """
        found = replace(self, kind=ASSESS).asked(file, root)
        return cast("AssessmentSpec", found)

    def asked(self, file: Path | str, root: Path) -> Spec:
        """Return the specification of the run, of its kind, checked.

        Raises
        ------
        SpecError
            If a field is wrong; the message names all that are.
        NotInFolderError
            If a file that is named is not in the folder.
        """
        from unikat.spec.from_options import specify

        return specify(
            self.kind.specification,
            file,
            self.options(root),
            shell=True,
            caller="The form",
        )[0]

    def command(self, out: str) -> str:
        """Return the command line that does the same, in the folder of the workbench.

        Examples
        --------
        >>> draft = Draft(path="a.csv", keys=("AGE", "SEX"), groupings={"AGE": "width(5)"})
        >>> draft.updated({"model": "loglinear"}, fields_on("run")).command("new")
        "unikat assess a.csv --keys 'AGE:width(5),SEX' --model loglinear --out new"
        """
        # A name with a dash before it would be an option.
        file = f"./{self.path}" if self.path.startswith("-") else self.path
        words = ["unikat", self.kind.name, file]
        if self.keys:
            words += ["--keys", ",".join(self._texts_of_keys(quoted))]
        for name, value in self._given.items():
            one = self._fields[name]
            if one.option.positional:
                words.insert(3, value)
            elif name in self._rare:
                words += ["--set", f"{self._rare[name]}={'true' if one.is_flag else value}"]
            elif one.is_flag:
                words.append(one.flag)
            elif one.is_files:
                words += [one.flag, ",".join(map(quoted, value.splitlines()))]
            else:
                for part in value.splitlines() if name == "set" else [value]:
                    words += [one.flag, part]
        for name, texts in self._of_keys.items():
            words += [f"--{name.replace('_', '-')}", _KEY_TEXTS[name](texts)]
        if self.rule_texts:
            words += ["--zeros", RULES]
        if self.keeps_states:
            words.append("--keep-states")
        return shlex.join([*words, "--out", out])


def _entries(texts: Mapping[str, str]) -> str:
    return "; ".join(f"{quoted(key)}: {text}" for key, text in texts.items())


_KEY_TEXTS: dict[str, Callable[[Mapping[str, str]], str]] = {
    "keep": lambda texts: ",".join(map(quoted, texts)),
    "levels": _entries,
    "groups": _entries,
    "dates": _entries,
    "apart": _entries,
    "weights_of_keys": lambda texts: ",".join(
        f"{quoted(key)}={text}" for key, text in texts.items()
    ),
    "recodings": _entries,
    "recode": _entries,
    "pram": _entries,
}
"""How the command line has the options that each key has."""
ON_RUN = {"keep", "weights_of_keys", "recodings", "recode", "pram"}
"""Those that the page of the run asks for."""


@functools.cache
def _takes_rules(kind: Kind) -> bool:
    from unikat.spec.option import options_of

    return any(one.name == "zeros" for one in options_of(kind.specification))


def may_be_restored(line: str, kind: Kind) -> bool:
    """Whether a line of the field `set` may come from a file, and not only from its user.

    Examples
    --------
    >>> may_be_restored("components=9", ASSESS), may_be_restored("data.query=SELECT 1", ASSESS)
    (True, False)
    """
    from unikat.spec.option import field_at
    from unikat.spec.paths import OfUser

    place = tuple(line.partition("=")[0].strip().split("."))
    field = field_at(kind.specification, place)
    if field is None:
        # An option of the model, or nothing that a specification has.
        return len(place) == 1
    return OfUser not in field.metadata and Path not in (
        field.annotation,
        *get_args(field.annotation),
    )


def _options_given(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a model that are not its own anyway: other kinds may not know them."""
    options = {name: value for name, value in model.items() if name != "name"}
    if not options:
        return {}
    from unikat.models.named import ALL

    known = ALL.get(str(model.get("name")))
    usual = {} if known is None else {one.name: one.default for one in fields(known)}
    return {name: value for name, value in options.items() if value != usual.get(name, MISSING)}


def _without_field(spec: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """Return the values of tables, by place, that no field has: `{"sampling.rhat": 1.05}`."""
    from unikat.spec.option import field_at
    from unikat.spec.paths import OfUser

    fields = (one for page in PAGES for one in fields_on(page, kind).values())
    # A run of the workbench decides by itself whether it keeps states.
    shown = {one.place for one in fields} | {("report", "keep_states")}
    found = {}
    for table, values in spec.items():
        # The options of a model, and what takes a page to say, are read where they are written.
        if table in ("model", "zeros", "path") or not isinstance(values, Mapping):
            continue
        for name, value in values.items():
            field = field_at(kind.specification, (table, name))
            if (
                field is not None
                and (table, name) not in shown
                and isinstance(value, (bool, int, float, str))
                and value != field.default
                and OfUser not in field.metadata
                and Path not in (field.annotation, *get_args(field.annotation))
            ):
                found[f"{table}.{name}"] = value
    return found


def _by_key(value: Any) -> dict[str, str]:
    """Write what a specification says of keys as the fields of the keys have it."""
    if isinstance(value, Mapping):
        # A matrix and a mapping of levels are none of the texts of a field.
        return {
            str(key): ", ".join(map(str, one))
            if isinstance(one, (list, tuple))
            else f"{one:.15g}"
            if isinstance(one, float)
            else str(one)
            for key, one in value.items()
            if not isinstance(one, Mapping)
            and not (isinstance(one, (list, tuple)) and any(isinstance(p, Mapping) for p in one))
        }
    return dict.fromkeys(map(str, value or ()), "yes")


def _field_text(value: Any) -> str:
    """Write a value of a specification as a field has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        # What a list of names would be split at is quoted.
        return ",".join(
            quoted(text) if split_keys(text) != [text] else text for text in map(str, value)
        )
    if isinstance(value, Mapping):
        # Missing codes by key, and rules of roles.
        return "; ".join(
            f"{_before_value(str(name))}: {_field_text(part)}" for name, part in value.items()
        )
    return str(value)


def _before_value(name: str) -> str:
    """Write a name, or several with a plus between, as it stands before a value."""
    plain = [(name, "x")]
    texts = (entries_of(f"{name}: x"), entries_of(f"{name}: x", last=True))
    return name if all(found == plain for found in texts) else quoted(name)
