"""`certificate.json`: which file was judged by which policy, and what came out; no record.

It is verified without the program that made it, by SHA-256. Its own digest is of all that it says:
it tells of damage and of careless changes. Who changes a certificate on purpose can compute the
digest again, so it does not show who made it. A signature of the file does (as by gpg or minisign).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from unikat.errors import DataError, SpecError, brief, option, shown, why
from unikat.files.json import json_text, parse_json
from unikat.files.toml import read_bytes
from unikat.risk.limits import Judged, Verdict, together

SCHEMA = "unikat.certificate/1"
_LONGEST = 10_000_000
"""Bytes of a certificate."""
_STEP = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Digest:
    """Name, size and digest of a file."""

    name: str
    size: int
    """Bytes."""
    sha256: str
    """In hexadecimal digits; of the original HMAC-SHA-256 with a salt, as its own digest would let
    anybody try values that were hidden."""

    @classmethod
    def of(cls, name: str, content: bytes) -> Self:
        """Digest what was read."""
        return cls(name=name, size=len(content), sha256=hashlib.sha256(content).hexdigest())


@dataclass(frozen=True, kw_only=True)
class LimitFacts:
    """A limit of a policy, and what the file has of it."""

    scenario: str
    """Name of the scenario; empty of the minimum cell."""
    keys: tuple[str, ...]
    """Keys that the intruder knows; of the minimum cell the one key."""
    in_sample: bool
    errors: float
    """Probability that his value of a key is wrong."""
    target: Judged


def judged(limits: Sequence[LimitFacts], forbidden: Sequence[str]) -> Verdict:
    """Return the verdict on what a policy asks for: limits, and columns that never leave."""
    if forbidden:
        return "not met"
    return together(one.target for one in limits) or "met"


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What a certificate says."""

    schema: str
    unikat: str
    """Version of the program."""
    made: str
    """When, in UTC."""
    files: dict[str, Digest]
    """`file`, `policy` and, if it was named, `original`."""
    policy: str
    """Its title."""
    verdict: Verdict
    limits: tuple[LimitFacts, ...]
    forbidden: tuple[str, ...]
    """Columns of the file that never leave by the policy."""
    keys: tuple[str, ...]
    left_out: tuple[str, ...]
    n_records: int | None
    population_size: int | None
    model: str | None
    converged: bool
    level: float
    seed: int
    digest: str = ""
    """SHA-256 of all the others."""

    @property
    def content(self) -> dict[str, Any]:
        """All but the digest."""
        values = json.loads(json_text(asdict(self)))
        del values["digest"]
        return dict(values)

    def text(self) -> str:
        """Write it, as the only text that is read again."""
        plain = json.dumps(self.content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return json_text(self.content | {"digest": hashlib.sha256(_bytes(plain)).hexdigest()})


def _bytes(text: str) -> bytes:
    # Half of a pair of surrogates stands in no text that was written here.
    return text.encode(errors="surrogatepass")


def read_certificate(path: Path) -> Certificate:
    """Read a certificate that is exactly as it was written."""
    content = read_bytes(path, _LONGEST)
    name = brief(str(path))
    try:
        values = parse_json(content)
        schema = values.get("schema") if isinstance(values, Mapping) else None
        if isinstance(schema, str) and schema != SCHEMA and schema.startswith("unikat.certificate"):
            raise SpecError(
                f"{name} is of another version: its schema is {shown(schema)}, and this version "
                f"of unikat reads {SCHEMA!r}. Verify it with the version that made it."
            )
        if schema != SCHEMA:
            raise ValueError("it has no schema of a certificate")
        found = TypeAdapter(Certificate).validate_python(values)
    except ValidationError as error:
        raise SpecError(
            f"{name} is no certificate of unikat: {error.error_count()} of its entries are not "
            "what a check writes. Take the certificate.json that a check has written."
        ) from None
    except ValueError as error:
        raise SpecError(f"{name} is no certificate of unikat: {error}.") from None
    if absent := [what for what in ("file", "policy") if what not in found.files]:
        raise SpecError(
            f"{name} has no digest of the {absent[0]} under files, which every certificate has. Do "
            "not rely on it; check the file again."
        )
    if found.verdict != judged(found.limits, found.forbidden):
        raise SpecError(
            f"{name} contradicts itself: its verdict is not that of its limits. Do not rely on it; "
            "check the file again."
        )
    if _bytes(found.text()) != content:
        raise DataError(
            f"{name} was changed after it was made: its content and its digest do not belong "
            "together. Do not rely on it; ask for the certificate again, or check the file again."
        )
    return found


def digest_of(path: Path, salt: str | None = None) -> Digest:
    """Digest a file, in pieces; with a salt (hexadecimal) by HMAC."""
    made: Any = hashlib.sha256() if salt is None else hmac.new(
        bytes.fromhex(salt), digestmod=hashlib.sha256
    )  # fmt: skip
    size = 0
    try:
        with path.open("rb") as file:
            while piece := file.read(_STEP):
                made.update(piece)
                size += len(piece)
    except (OSError, ValueError) as error:
        reason = why(error) if isinstance(error, OSError) else "its name is no name of a file"
        raise DataError(
            f"Cannot compute the SHA-256 of {brief(str(path))}: {reason}. Name a file that can be "
            "read."
        ) from None
    return Digest(name=path.name, size=size, sha256=made.hexdigest())


def compare(found: Certificate, what: str, digest: Digest) -> None:
    """Refuse a file that is not the certified one (DataError); its name does not matter."""
    certified = found.files.get(what)
    if certified is None:
        raise DataError(
            f"The certificate says nothing of the {what}; leave {option(what)} out, or check the "
            f"file again with {option(what)}."
        )
    if (certified.size, certified.sha256) != (digest.size, digest.sha256):
        how = (
            f"{digest.size:,} bytes instead of {certified.size:,}"
            if digest.size != certified.size
            else "as many bytes, and another SHA-256"
        )
        raise DataError(
            f"{brief(digest.name)} is not the {what} of the certificate: {how}. It is another "
            "file, or was changed afterwards; check it again."
        )
