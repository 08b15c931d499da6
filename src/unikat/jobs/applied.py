"""A plan carried out on another file: the next wave, or the whole population."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from unikat._typing import Int32
from unikat.data.keys import Key
from unikat.data.microdata import Microdata
from unikat.data.named_levels import Levels, codes_called, level_names
from unikat.data.roles import encoded, proposed
from unikat.data.structure import order_of, views_of
from unikat.data.writers import ending, write_records
from unikat.errors import DataError, OutputError, SpecError, brief, listed, option
from unikat.files.folder import keep_inputs
from unikat.files.json import json_text
from unikat.files.writing import all_or_nothing, write_text
from unikat.inference.progress import Watcher
from unikat.jobs.inputs import UNKNOWN, open_data
from unikat.protection.groups import joined_name, labels_of, other_name
from unikat.protection.recoding import KeyRecoding, Recoding, Rule, recode_key, unchanged
from unikat.protection.released import Released, released
from unikat.report.folders.protection import codebook_beside
from unikat.report.text.declared import declared_words, made_valid_words
from unikat.report.text.numbers import counted
from unikat.risk.limits import Judged, judge, smallest
from unikat.spec.columns import alike
from unikat.spec.limits import Limit
from unikat.spec.plan import PlanKey, PlanSpec

Unseen = Literal["refuse", "group"]
"""What becomes of a level that a plan does not know."""
_ROWS_SHOWN = 5


def plan_keys(
    recoding: Recoding, texts: Sequence[str], keys: Sequence[Key], made: Released
) -> tuple[PlanKey, ...]:
    """Write recodings down as they are done to other files.

    Parameters
    ----------
    recoding
        Of the keys.
    texts
        The keys as they were named, with their rules of binning.
    keys
        The keys as they were.
    made
        The recoded file.
    """
    return tuple(
        PlanKey(
            name=one.name,
            key=text,
            rule=one.rule if one.changes else None,
            levels=one.named if one.changes else None,
            whole_numbers=one.whole if one.changes else None,
            rest=one.rest if one.changes else None,
            labels=labels_of(before) if one.changes and one.named else {},
            groups={group: one.labels[group] for group in _groups_of(one) if group in one.labels},
            codes=made.codes.get(one.name, {}),
            answers=before.answers,
            made_valid=dict(change.made_valid),
        )
        for one, text, before, change in zip(recoding.keys, texts, keys, made.changes, strict=True)
    )


def _groups_of(one: KeyRecoding) -> list[str]:
    return list(dict.fromkeys(one.rule.values())) if isinstance(one.rule, Mapping) else []


class Applied(NamedTuple):
    """A file that was recoded as a plan says."""

    n_records: int
    path: Path
    notes: tuple[str, ...]
    """What is to be looked at."""
    n_uniques: int
    """Sample uniques of the recoded file."""
    smallest: int
    """Records of its smallest combination of keys."""
    judged: Judged | None = None
    """The target, by what is counted; None without one."""

    @property
    def said(self) -> str:
        """What is counted, in words."""
        return (
            f"The recoded file has {counted(self.n_uniques, 'sample unique')}; its smallest "
            f"combination of keys has {counted(self.smallest, 'record')}. Nothing was estimated: "
            "assess the file for τ1 and τ2."
        )


def apply(
    plan: PlanSpec,
    data: Any,
    out: Path,
    *,
    overwrite: bool = False,
    unseen: Unseen = "refuse",
    target: str | None = None,
    watcher: Watcher,
) -> Applied:
    """Recode another file as a plan says.

    Parameters
    ----------
    plan
        From `plan.toml`: what is done to the columns, and how they are read.
    data
        Path of the file; its columns are those of the file that the plan was made for.
    out
        The recoded file, in the format of the input.
    overwrite
        Whether a file that is there is replaced.
    unseen
        What becomes of levels that the plan does not know, of keys whose levels it names: the file
        is refused, or they go into the group of rare levels, or of an ordered key to the nearest.
    target
        What has to be reached. `k` is counted; what a model would have to tell is not known.
    watcher
        Is told what is done.

    Raises
    ------
    SpecError
        If the target is none.
    DataError
        If a column is missing, or a key that is recoded by naming levels has a level that the plan
        does not know and no group for it.
    OutputError
        If the file is there, or cannot be written.
    """
    limit = None if target is None else _limit(target)
    if out.exists() and not overwrite:
        raise OutputError(
            f"{out} exists. Replace it with {option('overwrite', True)}, or name another file."
        )
    if Path(data).is_file():
        _check_ending(out, Path(data).suffix, Path(data).name)
    steps = [*plan.keys, *plan.linked]
    recodes = any(one.rule is not None for one in steps)
    if plan.also and not recodes:
        raise SpecError(
            "The plan recodes nothing, so the file would be copied as it is. What was perturbed, "
            "suppressed or changed in numbers belongs to the sample that it was made for; protect "
            "this file by itself."
        )
    if not (recodes or plan.removed or plan.renumbered):
        watcher.note("The plan recodes nothing: the file is copied as it is.")
    if plan.also:
        watcher.note(
            f"Besides, the protected file of this plan was {listed(list(plan.also))}; "
            "only what is done to columns is repeated."
        )
    watcher.stage("Reading")
    spec = plan.data.model_copy(update={"path": Path(data)})
    keys = [one.key for one in steps]
    answers = {one.name: one.answers for one in steps}
    microdata = open_data(
        spec,
        keys,
        UNKNOWN,
        watcher=watcher,
        fewest_keys=1,
        constant_keys=True,
        empty_rows=True,
        answers=answers,
    )
    if not Path(data).is_file():
        # The files of a folder become one.
        _check_ending(out, Path(f"x{ending(microdata.source)}").suffix, microdata.name)
    table = microdata.tabulate()
    for said in declared_words(table.variables):
        watcher.note(said)
    for one, key in zip(steps, table.keys, strict=True):
        if one.name != key.name:
            raise SpecError(
                f"The plan is not valid: it calls a key {brief(one.name)!r}, and the column of "
                f"that key is {brief(key.name)!r}. Write the column under name."
            )
    codes = table.cells[table.record_cell]
    found = [
        _Found.of(microdata, one, key, codes[:, j], unseen)
        for j, (one, key) in enumerate(zip(steps, table.keys, strict=True))
    ]
    recoding = Recoding(
        keys=tuple(
            unchanged(key)
            if one.rule is None
            else replace(
                recode_key(
                    key, np.zeros(key.n_levels, np.int64), rule.rule, whole=one.whole_numbers
                ),
                labels=one.groups,
            )
            for one, rule, key in zip(steps, found, table.keys, strict=True)
        )
    )
    recoding.check_kept()
    known = {one.name: rule.codes for one, rule in zip(steps, found, strict=True)}
    removed, renumbered = (
        _there(names, microdata, watcher) for names in (plan.removed, plan.renumbered)
    )
    _tell_identifiers(microdata, {one.name for one in steps} | {*removed, *renumbered}, watcher)
    made = released(
        microdata, codes, recoding, known=known, codebook=spec.codebook,
        removed=removed, renumbered=renumbered,
    )  # fmt: skip
    watcher.stage("Writing")
    beside = out.with_name(codebook_beside(out.name))
    files = [out] if made.codebook is None else [out, beside]
    if not overwrite and beside in files and beside.exists():
        raise OutputError(
            f"{beside} exists, and the codebook of {out.name} is to be written there. Replace it "
            f"with {option('overwrite', True)}, or name another file."
        )
    inputs = [Path(data), *([spec.codebook] if isinstance(spec.codebook, Path) else [])]
    keep_inputs(files, inputs)
    out.parent.mkdir(parents=True, exist_ok=True)
    with all_or_nothing(out.parent, tuple(file.name for file in files), out.name) as scratch:
        write_records(
            scratch / out.name, made.table, microdata.source, made.labels, letters=made.letters
        )
        if made.codebook is not None:
            write_text(scratch / beside.name, json_text(made.codebook))
    notes = tuple(note for one in found for note in one.notes)
    notes += _other_codes(known, made.codes)
    notes += _misleading(table.keys, recoding)
    notes += made_valid_words(made.changes)
    coarse = _of_keys(recoding, len(plan.keys)).table(table)
    least = int(smallest(coarse))
    return Applied(
        n_records=table.n_records,
        path=out,
        notes=notes,
        n_uniques=coarse.n_uniques,
        smallest=least,
        judged=None if limit is None else judge(limit, [least if limit.measure == "k" else None]),
    )


def _there(names: Sequence[str], microdata: Microdata, watcher: Watcher) -> list[str]:
    """Columns of the file that a plan names, or that are named alike; the others are told."""
    asked = {alike(name): name for name in names}
    there = [name for name in microdata.source.columns if alike(name) in asked]
    found = {alike(name) for name in there}
    lacking = [name for plain, name in asked.items() if plain not in found]
    if lacking:
        watcher.note(
            f"{microdata.name} lacks {listed(lacking)}, which the plan removes or renumbers."
        )
    return there


def _tell_identifiers(microdata: Microdata, known: Set[str], watcher: Watcher) -> None:
    """Name columns that look like identifiers, which the plan does not know and copies."""
    others = [name for name in microdata.source.columns if name not in known]
    if not others:
        return
    values = microdata.values(others)
    roles = proposed(
        {name: encoded(values[name]) for name in others}, decimal=microdata.source.decimal or "."
    )
    if names := [one.name for one in roles if one.removed]:
        watcher.note(
            f"Identifiers, by their names or values, that the plan does not name and that are "
            f"copied: {listed(names)}. Add them to removed in the plan."
        )


def _of_keys(recoding: Recoding, n_keys: int) -> Recoding:
    """The same without the linked columns, which stand last: the risk is that of the keys."""
    keys = recoding.keys
    return Recoding(keys=(*keys[:n_keys], *(one.left_out() for one in keys[n_keys:])))


def _limit(text: str) -> Limit:
    try:
        return Limit.of(text)
    except ValueError as error:
        raise SpecError(f"{option('target', brief(text))}: {error}.") from None


def _check_ending(out: Path, wanted: str, name: str) -> None:
    if out.suffix.lower() != wanted.lower():
        raise OutputError(
            f"{out.name} has another ending than {name} ({wanted}), and a plan keeps the format of "
            "the file; name the recoded file with the same ending."
        )


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What a plan does to a key of another file."""

    rule: Rule
    codes: Mapping[str, Any]
    """Code of each group, by its name."""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, microdata: Microdata, one: PlanKey, key: Key, codes: Int32, unseen: Unseen
    ) -> _Found:
        """Find the levels that the file has; those that the plan does not know, too."""
        if one.rule is None or isinstance(one.rule, str):
            return cls(rule=one.rule, codes=one.codes)
        names, called = level_names(key), codes_called(key)
        group_of = {code: group for text, group in one.rule.items() for code in called(text)}
        known = {code for text in one.levels or () for code in called(text)} | set(group_of)
        notes = _other_labels(one, key, known)
        strange = [code for code in range(len(names)) if code not in known]
        if not strange:
            return cls(
                rule={names[code]: group for code, group in group_of.items()},
                codes=one.codes,
                notes=notes,
            )
        said = _said(key, codes, strange)
        if unseen == "refuse":
            raise DataError(
                f"{microdata.name}, key {one.name!r}: the plan does not know {said}. Put "
                f"{'it' if len(strange) == 1 else 'them'} into the group of rare levels, or the "
                f"nearest band, with {option('unseen', 'group')}; or make a plan for this file."
            )
        # What is declared missing is neither a rare level nor near to any.
        apart = [code for code in strange if code in key.declared_missing]
        strange = [code for code in strange if code not in key.declared_missing]
        if apart:
            said_apart = _said(key, codes, apart)
            notes += (f"{one.name}: {said_apart}, not in the plan, declared missing: left as is.",)
            said = _said(key, codes, strange) if strange else ""
        to = _groups_for(key, group_of, known - key.declared_missing, strange, one)
        if to is None:
            raise DataError(
                f"{microdata.name}, key {one.name!r}: the plan does not know {said}, and has no "
                "group of rare levels to put "
                f"{'it' if len(strange) == 1 else 'them'} into. Add "
                f"{'it' if len(strange) == 1 else 'them'} to a group in the plan, or make a plan "
                "for this file."
            )
        joined, group_codes = {**group_of, **to}, dict(one.codes)
        for group in dict.fromkeys(to.values()):
            if group not in one.codes:
                continue
            # A label tells what a code means in this file.
            named = _with_new(
                key, one, group, [code for code, name in joined.items() if name == group]
            )
            group_codes[named] = group_codes.pop(group)
            joined = {code: named if name == group else name for code, name in joined.items()}
        if strange:
            where = listed([repr(brief(group)) for group in dict.fromkeys(to.values())], 3)
            notes += (f"{one.name}: {said}, not in the plan, put into {where}.",)
        return cls(
            rule={names[code]: group for code, group in joined.items()},
            codes=group_codes,
            notes=notes,
        )


def _with_new(key: Key, one: PlanKey, group: str, codes: list[int]) -> str:
    """Name of a group that has further levels in another file."""
    assert isinstance(one.rule, Mapping)
    is_band = order_of(key) is not None
    before = [one.labels.get(level, level) for level, name in one.rule.items() if name == group]
    here = [key.labels[code] for code in sorted(codes)]
    if group == other_name(before):
        return other_name([*before, *here])
    if group == joined_name(before, is_band=is_band):
        return joined_name([*here, *before] if is_band else [*before, *here], is_band=is_band)
    # The user gave it a name.
    return joined_name([group, *(label for label in here if label not in before)])


def _said(key: Key, codes: Int32, strange: list[int]) -> str:
    """Name levels with their numbers of records; one that only records tell by its rows."""
    levels, parts, private = Levels(key=key), [], []
    for code in strange:
        if levels.may_show(code):
            n = int(np.count_nonzero(codes == code))
            parts.append(f"{brief(key.labels[code])!r} ({n:,} record{'' if n == 1 else 's'})")
        else:
            private.append(code)
    said = ""
    if parts:
        said = f"the level{'' if len(parts) == 1 else 's'} {listed(parts, 10)}"
    if private:
        rows = np.flatnonzero(np.isin(codes, private)) + 1
        more = ", ..." if len(rows) > _ROWS_SHOWN else ""
        said += f"{' and ' if said else ''}{len(private):,} {'other ' if said else ''}"
        said += (
            f"level{'' if len(private) == 1 else 's'} that no codebook names ({len(rows):,} "
            f"record{'' if len(rows) == 1 else 's'}, data row{'' if len(rows) == 1 else 's'} "
            f"{', '.join(f'{row:,}' for row in rows[:_ROWS_SHOWN])}{more})"
        )
    return said


def _groups_for(
    key: Key, group_of: Mapping[int, str], known: set[int], strange: list[int], one: PlanKey
) -> dict[int, str] | None:
    """The group that each level goes into that a plan does not know; None if there is none."""
    if not strange:
        return {}
    order, views = order_of(key), views_of(key)
    groups = list(dict.fromkeys(group for code, group in group_of.items() if code in known))
    if one.rest is not None or (len(groups) == 1 and order is None):
        return dict.fromkeys(strange, one.rest or groups[0])
    if order is None or not known:
        return None
    place = {code: float(position) for position, code in enumerate(order)}
    if views:
        lows = [view.low if np.isfinite(view.low) else view.high for view in views[0]]
        place = {code: lows[code] for code in order}
    found: dict[int, str] = {}
    for code in strange:
        nearest = min(
            known,
            key=lambda other: (
                abs(place[other] - place[code]),
                other not in group_of,
                place[other],
            ),
        )
        if nearest in group_of:
            found[code] = group_of[nearest]
            continue
        # The nearest level stays in the plan; here it becomes a band.
        together = sorted({nearest, code}, key=place.__getitem__)
        name = joined_name([key.labels[c] for c in together], taken={*groups, *found.values()})
        found[code] = found[nearest] = name
    return found


def _other_codes(
    known: Mapping[str, Mapping[str, Any]], made: Mapping[str, Mapping[str, Any]]
) -> tuple[str, ...]:
    """Say which groups have another code here than in the plan."""
    notes = []
    for name, codes in made.items():
        other = [
            f"the plan's code {brief(str(told))} of {brief(group)!r} is {codes[group]} here"
            for group, told in known[name].items()
            if group in codes and str(codes[group]) != str(told)
        ]
        if other:
            notes.append(
                f"{name}: {listed(other, 3)}, since such a code is taken, means missing or does "
                "not fit."
            )
    return tuple(notes)


def _misleading(keys: Sequence[Key], recoding: Recoding) -> tuple[str, ...]:
    """Say which groups are called as a level that another group has."""
    notes = []
    for key, one in zip(keys, recoding.keys, strict=True):
        if one.key is None or not isinstance(one.rule, Mapping):
            continue
        meant = codes_called(key)
        found = [
            repr(brief(one.key.labels[group]))
            for group in np.unique(one.groups[~one.stays]).tolist()
            if any(one.groups[code] != group for code in meant(one.key.labels[group]))
        ]
        if found:
            notes.append(
                f"{key.name}: {listed(found, 3)} is the name of a group, and of a level that is "
                "not in it: readers take its records for others. Give the group another name in "
                "the plan."
            )
    return tuple(notes)


def _other_labels(one: PlanKey, key: Key, known: set[int]) -> tuple[str, ...]:
    """Say if codes mean something else in this file than in that of the plan."""
    if not one.labels:
        return ()
    names = level_names(key)
    other = [
        f"{names[code]} is {brief(one.labels[names[code]])!r} in the plan and "
        f"{brief(key.labels[code])!r} here"
        for code in sorted(known)
        if names[code] in one.labels and one.labels[names[code]] != key.labels[code]
    ]
    if not other:
        return ()
    return (
        f"{one.name}: labels differ from those of the plan: {listed(other, 3)}. Check "
        "that the codes mean the same.",
    )
