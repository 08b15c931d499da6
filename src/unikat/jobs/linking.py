"""Link a file with an external one: from options to what the engine finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from unikat._typing import Int32, Int64
from unikat.data.engine import DEFAULT_MEMORY
from unikat.data.keys import MISSING
from unikat.data.sampling import one_way
from unikat.inference.processes import available_cores
from unikat.jobs.attack_files import file_facts, opened
from unikat.jobs.job import Job
from unikat.language.keys import column_of
from unikat.report.facts.attack import SCHEMA, AttackSummary
from unikat.spec.attack import AttackSpec
from unikat.spec.key_errors import OTHERS, rates_of
from unikat.synthesis.attacks.control import Opened
from unikat.synthesis.attacks.files import aligned
from unikat.synthesis.attacks.linkage import USUAL, check_engine, link


def linked(job: Job[AttackSpec]) -> tuple[AttackSummary, pa.Table]:
    """Link the file of an attack with its external one: facts, and the best link of a record."""
    spec, watcher = job.spec, job.watcher
    check_engine()
    watcher.stage("Reading")
    names = [column_of(one) for one in spec.keys]
    rates = rates_of(spec.key_errors or {OTHERS: str(USUAL)}, names)
    ours = opened(spec, spec.data, spec.keys, job.inputs.data, watcher=watcher)
    assert spec.external is not None
    other = opened(spec, spec.external, spec.keys, job.inputs.external, "The external file")
    files = aligned(ours.named, (), other.named, n_keys=len(names))
    watcher.stage("Linking")
    found = link(
        _without_missing(files.original, ours),
        _without_missing(files.control, other),
        names,
        rates,
        None if spec.id is None else _persons(spec.id, ours, other),
        household=ours.named.of_record,
        level=spec.report.level,
        n_threads=spec.sampling.threads or available_cores(),
        memory_limit=spec.data.memory_limit or DEFAULT_MEMORY,
    )
    facts = file_facts(other)
    summary = AttackSummary(
        schema=SCHEMA,
        original=file_facts(ours),
        synthetic=(),
        control=None,
        keys=tuple(names),
        targets=(),
        link=((), ()),
        n_attacked=ours.named.table.n_records,
        seed=spec.sampling.seed,
        level=spec.report.level,
        attacks=(),
        claims=None,
        posterior=None,
        household_posterior=None,
        membership_bound=None,
        converged=True,
        sentences={},
        provenance=job.record(ours.named.table.fingerprint),
        external=facts if other.path is not None else replace(facts, name="the external file"),
        linkage=found.facts,
    )
    return summary, pa.table(found.columns)


def _without_missing(codes: Int32, file: Opened) -> Int32:
    """Codes of a file with -1 where its key is missing."""
    table = file.named.table
    own = table.cells[table.record_cell]
    missing = [MISSING if key.missing_level is None else key.missing_level for key in table.keys]
    return np.where((own == missing) | (own == MISSING), MISSING, codes).astype(np.int32)


def _persons(column: str, *files: Opened) -> tuple[Int64, Int64]:
    """Number the persons of both files by a column, -1 where it is missing."""
    found = [file.rows.codes(column) for file in files]
    texts = [[one_way(value) for value in values] for _, values in found]
    number = {text: place for place, text in enumerate(dict.fromkeys(texts[0] + texts[1]))}
    one, other = (
        np.array([*(number[text] for text in own), -1], np.int64)[codes]
        for (codes, _), own in zip(found, texts, strict=True)
    )
    return one, other
