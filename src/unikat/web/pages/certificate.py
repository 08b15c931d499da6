"""The page on which a file is held against the certificate that belongs to it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import UnikatError
from unikat.report.text.words import say
from unikat.spec.kinds import CHECK
from unikat.web.folder import NotInFolderError
from unikat.web.workbench import Nav, Workbench, status_of, workbench_of

if TYPE_CHECKING:
    from unikat.risk.limits import Verdict

CERTIFICATE = CHECK.others[0]


@dataclass(frozen=True, kw_only=True)
class CertificatePage:
    """The context of `certificate.html.j2`."""

    title: str
    nav: Nav
    path: str
    certificates: Sequence[tuple[str, str]]
    """Those of the folder, by their paths, and what is chosen."""
    originals: Sequence[tuple[str, str]]
    given: dict[str, str]
    verdict: Verdict | None
    """What it certifies; None unless file and certificate belong together."""
    lines: Sequence[str]
    problem: str


def show(request: Request) -> Response:
    """Compare the file with the certificate that is chosen; nothing is written."""
    bench, query = workbench_of(request), request.query_params
    path = query.get("path", "")
    bench.draft(path)
    given = {name: query.get(name, "") for name in ("certificate", "original")}
    known = _certificates(bench)
    verdict: Verdict | None = None
    lines: Sequence[str] = ()
    problem, status = "", 200
    if given["certificate"]:
        try:
            verdict, lines = _compared(bench, path, given["certificate"], given["original"])
        except UnikatError as error:
            problem, status = str(error), status_of(error)
    files = [one for one in bench.folder.files() if one != path]
    page = CertificatePage(
        title=say("web.certificate.title", name=path.rpartition("/")[2]),
        nav=Nav(here="run", path=path),
        path=path,
        certificates=[("", say("web.keys.none")), *((one, one) for one in known)],
        originals=[("", say("web.certificate.not_at_hand")), *((one, one) for one in files)],
        given=given,
        verdict=verdict,
        lines=lines,
        problem=problem,
    )
    return bench.page("certificate.html.j2", page, status)


def _certificates(bench: Workbench) -> list[str]:
    """Certificates of the folder: of checks, of protections that were checked, and others."""
    folder, places = bench.folder, bench.folder.runs()
    of_runs = [one / part / CERTIFICATE for one in places for part in ("", "check")]
    # One that somebody else has sent lies anywhere.
    others = [one for one in folder.files((".json",)) if "certificate" in one.rpartition("/")[2]]
    return [*dict.fromkeys([*map(folder.relative, filter(Path.is_file, of_runs)), *others])]


def _compared(
    bench: Workbench, path: str, certificate: str, original: str
) -> tuple[Verdict, list[str]]:
    """Compare; return the verdict and what is said.

    Raises
    ------
    UnikatError
        If a file is not in the folder, cannot be read, or is not the certified one.
    """
    from unikat.jobs.check import certified
    from unikat.report.text.check import certified_lines
    from unikat.spec.check import CheckSpec
    from unikat.spec.tables import DataSpec

    place = bench.folder.resolve(certificate)
    if not place.is_file():
        raise NotInFolderError("The certificate is no file; choose a certificate.json.")
    spec = CheckSpec(
        data=DataSpec(path=bench.folder.source(path)),
        certificate=place,
        original=bench.folder.resolve(original) if original else None,
        salt=_salt(place) if original else None,
    )
    found = certified(spec)
    return found.verdict, certified_lines(found.summary, found.compared)


def _salt(certificate: Path) -> str | None:
    """Salt of the digest of the original, which lies beside a certificate of one's own alone."""
    from unikat.files.toml import read_toml

    salt = None
    with contextlib.suppress(UnikatError):
        salt = read_toml(certificate.with_name(CHECK.spec)).get("salt")
    return salt if isinstance(salt, str) and re.fullmatch("[0-9a-fA-F]{32,128}", salt) else None
