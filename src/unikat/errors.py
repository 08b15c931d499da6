"""Errors meant for the user: one clear message, exit code 1, never a record's values."""

from __future__ import annotations

import errno
import json
import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from math import log10
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass

_SYNONYMS: dict[str, list[str]] = {}
for _ours, _others in {
    "seed": "random_state random_seed rng rng_seed",
    "chains": "n_chains num_chains nchains",
    "repeats": "n_samples num_samples n_repeats replicates",
    "datasets": "n_datasets n_synthetic m n_files",
    "n": "sample_size sample_sizes n_sample",
    "max_sweeps": "n_samples num_samples draws n_draws iterations n_iter n_iterations max_iter "
    "burn_in burnin warmup tune iter iter_sampling iter_warmup epochs n_epochs",
    "workers": "n_jobs n_workers num_workers n_cores cores processes parallel_chains",
    "threads": "n_threads num_threads nthreads threads_per_chain",
    "progress": "verbose progressbar progress_bar show_progress disable_progress",
    "resume": "warm_start",
    "population_size": "population n_population pop_size n",
    "weights": "weight sample_weight sample_weights sampling_weights weight_column weightvar",
    "strata": "stratum stratavar stratify",
    "household": "household_id hhid cluster clusters",
    "sensitive": "sensiblevar sensitive_attributes sensitive_columns confidential",
    "keys": "columns variables key_variables keyvars quasi_identifiers qid qids usecols",
    "missing_values": "na_values missing_codes null_values",
    "codebook": "metadata dtype dtypes categories",
    "zeros": "rules constraints structural_zeros",
    "control": "holdout test_data",
    "synthetic": "synth syn synthetic_data",
    "delimiter": "sep separator delim",
    "out": "output output_dir out_dir",
    "level": "confidence confidence_level hdi_prob ci_prob prob",
    "max_seconds": "timeout time_limit max_time",
}.items():
    for _other in _others.split():
        _SYNONYMS.setdefault(_other, []).append(_ours)
"""What options are called here, by what other programs call them."""
_LONGEST_SHOWN = 40
_LONGEST_QUOTED = 80
_MOST_LISTED = 5
_LONGEST_MESSAGE, _LEAST_END = 1200, 400
_MOST_LINES, _LAST_LINES = 15, 4
_MOST_OPTIONS = 12
_MOST_CANDIDATES = 2_000
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What steers a terminal or turns the direction of its text; line ends and tabs stay."""
_COLON, _AT = "[:\ufe13\ufe55\uff1a\u2236\ua789]", "[@\ufe6b\uff20]"
_SLASH = r"[/\\\u2044\u2215\uff0f]"
_URL_SLASH = r"[/\u2044\u2215\uff0f]"
"""No backslash: a password may begin with one. A path of Windows with an @ is hidden, too."""
_SERVER = (
    "jdbc|odbc|postgres|pgsql|psql|mysql|mariadb|mssql|sqlserver|oracle|redshift|snowflake|mongo"
    "|cockroach|clickhouse|db2|hana|teradata|vertica|redis"
)
_ADDRESS = re.compile(
    rf"(?<!\w)(?:[a-z][\w+.-]{{1,40}}(?={_COLON}{{1,9}}{_SLASH})"
    rf"|(?:{_SERVER})[\w+.-]{{0,40}}\s?(?={_COLON}\S)){_COLON}{{1,9}}",
    re.IGNORECASE,
)
"""Beginnings of addresses, and of what is nearly one."""
_UNDERSTOOD = re.compile(
    r"(?:postgres|postgresql|https?|tcp|tls|ucx|wss?|ray)://"
    r"(?:(?:(?!%3a)[^\s:@/?#'\"])+@)?(?:\[[\da-f:.]+\]|[\w.-]*)(?::(?:\d{1,5}|PORT))?"
    r"(?:[/?#][^\s@'\"]*)?(?=[\s,;.'\")]|$)",
    re.IGNORECASE,
)
"""Addresses that can be understood and have no password."""
_REST = re.compile(rf"[^\n]*{_AT}\S*|\S*")
_USER = re.compile(rf"[^\s'\"@:/\\]{{1,200}}{_COLON}(?!{_URL_SLASH})[^\s@]{{0,400}}{_AT}[^\s'\"]*")
_GIVEN = re.compile(
    r"(?<!\w)((?:[\w-]{0,40}(?:passw(?:or)?d|passwort|passphrase|pwd|secret|token|api_?key)"
    r"|(?:[\w-]{0,40}[_-])?pass)['\"]?\s?[=:]\s?"
    # A line of a file .pgpass.
    r"|[\w.*-]{1,200}:(?:\d{2,5}|\*):[\w.*-]{1,80}:[\w.*-]{1,80}:)"
    r"(?:'[^']*'|\"[^\"]*\"|\{[^}]*\}|\S[^\s;&,)]*)",
    re.IGNORECASE,
)
_LONGEST_SEARCHED = 4_000


class UnikatError(Exception):
    """Base of every error with a message for the user (what, where, rule, remedy).

    `str(error)` is :func:`hidden`, :func:`visible` and :func:`bounded`.

    >>> issubclass(DataError, UnikatError)  # one `except` for all
    True
    """

    def __str__(self) -> str:
        """Return the message, which no terminal obeys and no screen is too small for."""
        return bounded(visible(hidden(super().__str__())))


class DataError(UnikatError):
    """The file or frame cannot be read as asked, or its keys cannot be used.

    >>> import unikat
    >>> unikat.assess("none.csv", ["SEX", "AGE"], population_size=9)
    Traceback (most recent call last):
    unikat.errors.DataError: ...
    """


class SpecError(UnikatError):
    """An option or a specification is wrong.

    >>> import unikat
    >>> unikat.StopRule(rhat=1)
    Traceback (most recent call last):
    unikat.errors.SpecError: rhat is 1; it must be above 1, such as 1.01.
    """


class OutputError(UnikatError):
    """Results or checkpoints cannot be written or read.

    >>> import unikat
    >>> unikat.load("no-such-folder")
    Traceback (most recent call last):
    unikat.errors.OutputError: ...
    """


def why(error: OSError) -> str:
    """Say in words why the system refused."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
        return "the disk is full"
    return error.strerror or str(error)


def hidden(text: str, *, whole: bool = False) -> str:
    """Return a text without what may be a password.

    Of an address only what stands before its colon is left, unless it can be understood and has no
    password. The same is done to what nearly is an address. Of ``user:password@host`` nothing is
    left, of ``password=...``, ``pwd: ...`` and lines of ``.pgpass`` what stands before it.

    Parameters
    ----------
    text
        A message, or one value.
    whole
        Whether it is one value, so that what may be an address goes to its end.

    Examples
    --------
    >>> hidden("There is no file mysql:/me:geheim@db/people. Check the path.")
    'There is no file mysql:… Check the path.'
    >>> hidden("postgresql://officer@db.example:5433/survey")
    'postgresql://officer@db.example:5433/survey'
    >>> hidden("host=db user=me password=geheim dbname=people")
    'host=db user=me password=… dbname=people'
    >>> hidden("user: me, pwd: geheim")
    'user: me, pwd: …'
    """
    parts, done = [], 0
    while found := _ADDRESS.search(text, done):
        understood = _UNDERSTOOD.match(text, found.start())
        if understood and not (whole and re.search(_AT, text[understood.end() :])):
            end = understood.end()
            parts.append(text[done:end])
        else:
            rest = None if whole else _REST.match(text, found.end())
            end = len(text) if rest is None else rest.end()
            parts += [text[done : found.end()], "…"]
        done = end
    text = _USER.sub("…", "".join(parts) + text[done:])
    if whole and (given := _GIVEN.search(text)):
        return f"{text[: given.end(1)]}…"
    return _GIVEN.sub(r"\1…", text)


def may_be_address(value: object) -> bool:
    """Whether a value looks like the address of a server, or nearly so.

    Examples
    --------
    >>> may_be_address("jdbc:postgresql://db/people"), may_be_address("C:/people.csv")
    (True, False)
    """
    return bool(_ADDRESS.search(text := str(value))) or hidden(text, whole=True) != text


def visible(text: str) -> str:
    r"""Return a text with every control character as an escape that JSON reads too.

    Examples
    --------
    >>> print(visible("\x1b[31mred"))
    \u001b[31mred
    """
    return _CONTROL.sub(lambda found: json.dumps(found[0])[1:-1], text)


def on_page(value: Any) -> Any:
    """Return a value as a page can hold it: control characters of a text as escapes.

    A file of somebody else may have any, and half a character that is no UTF-8 ended the page.
    """
    if not isinstance(value, str):
        return value
    from markupsafe import Markup

    text = visible(value.replace("\r\n", "\n"))
    return Markup(text) if isinstance(value, Markup) else text


def has_surrogates(text: str) -> bool:
    """Whether a text, as read from a name or escaped in JSON, cannot be written as UTF-8."""
    return any("\ud800" <= char <= "\udfff" for char in text)


def brief(text: str, longest: int = _LONGEST_QUOTED) -> str:
    """Return a text on one line; of a long one the beginning and the end.

    Examples
    --------
    >>> brief("abcdefghij", 4)
    'ab … ij'
    """
    # Of a text of many thousand characters only the ends are looked at.
    if len(text) > 2 * _LONGEST_SEARCHED:
        text = f"{text[:_LONGEST_SEARCHED]}{text[-_LONGEST_SEARCHED:]}"
    text = hidden(text, whole=True)
    ends = text if len(text) <= 4 * longest else f"{text[: 2 * longest]} {text[-2 * longest :]}"
    line = " ".join(ends.split())
    if len(line) <= longest and ends is text:
        return line
    half = longest // 2
    return f"{line[:half].rstrip()} … {line[-half:].lstrip()}"


def listed(items: Sequence[str], most: int = _MOST_LISTED) -> str:
    """Return the first few items, each brief, and how many more there are.

    Examples
    --------
    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    shown_items = ", ".join(brief(item) for item in items[:most])
    more = len(items) - most
    return f"{shown_items} and {more:,} more" if more > 0 else shown_items


def bounded(message: str) -> str:
    """Return a message of at most 15 lines and about 1,200 characters; its end, the remedy, stays.

    The last resort: messages are to bound what they quote and list (:func:`brief`,
    :func:`listed`).
    """
    lines = message.split("\n")
    if len(lines) > _MOST_LINES:
        first = _MOST_LINES - _LAST_LINES - 1
        left_out = f"  ... ({len(lines) - first - _LAST_LINES:,} lines left out)"
        message = "\n".join([*lines[:first], left_out, *lines[-_LAST_LINES:]])
    if len(message) > _LONGEST_MESSAGE:
        return f"{message[: _LONGEST_MESSAGE - _LEAST_END]} … {message[-_LEAST_END:]}"
    return message


def synonym(name: str, candidates: Collection[str]) -> str | None:
    """Return the option that other programs call by a name, if it is one of the candidates.

    Examples
    --------
    >>> synonym("n_jobs", ["threads", "workers"]), synonym("--n-jobs", ["--workers"])
    ('workers', '--workers')
    """
    meant = _SYNONYMS.get(name.casefold().strip("-").replace("-", "_"), [])
    spelled = (one for ours in meant for one in (ours, f"--{ours.replace('_', '-')}"))
    return next((one for one in spelled if one in candidates), None)


def suggest(name: str, candidates: Iterable[str]) -> str:
    """Return `` Did you mean 'X'?`` for the nearest candidate, or an empty string.

    Examples
    --------
    >>> suggest("random_state", ["random", "seed"]), suggest("chain", ["chains", "seed"])
    (" Did you mean 'seed'?", " Did you mean 'chains'?")
    """
    # What is longer than a name is none, and would be compared for minutes.
    short = (one for one in candidates if len(one) <= _LONGEST_QUOTED)
    by_folded = {one.casefold(): one for one in islice(short, _MOST_CANDIDATES)}
    if len(name) > _LONGEST_QUOTED:
        return ""
    if (known := synonym(name, by_folded)) is not None:
        return f" Did you mean {known!r}?"
    near = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return f" Did you mean {by_folded[near[0]]!r}?" if near else ""


def only_keys(asked: str, given: Iterable[str], keys: Sequence[str]) -> None:
    """Refuse names in an option that are none of the keys (SpecError)."""
    for name in given:
        if name not in keys:
            raise SpecError(
                f"{option(asked)} names {brief(name)!r}, which is none of the keys: "
                f"{listed(keys)}.{suggest(name, keys)}"
            )


def unknown_option(name: str, known: Sequence[str]) -> str:
    """Say that there is no such option, and which one is meant.

    Examples
    --------
    >>> unknown_option("random_state", ["seed", "workers"])
    "There is no option 'random_state': write seed=..."
    >>> unknown_option("chain", ["chains"])
    "There is no option 'chain'. Did you mean 'chains'?"
    >>> unknown_option("q", ["chains", "seed"])
    "There is no option 'q'. There are: chains, seed."
    """
    if (ours := synonym(name, known)) is not None:
        return f"There is no option {brief(name)!r}: write {ours}=..."
    lead = suggest(name, known) or f" There are: {listed(known, _MOST_OPTIONS)}."
    return f"There is no option {brief(name)!r}.{lead}"


_ATTRIBUTES: dict[str, list[str]] = {}
for _lead, _others in {
    ".interval": "ci hdi eti",
    ".interval; the draws are in .to_arviz() of the answer": "sd std var quantile",
    ".tau1.rhat": "rhat r_hat ess",
    ".converged and .plot.chains()": "diagnostics",
    ".result.fitted_model": "model model_name",
    ".to_arviz()": "idata posterior trace inference_data",
    ".to_frame()": "to_dataframe to_pandas df",
    ".to_html() or .save(folder)": "report html plot figures show",
    ".frames": "datasets synthetic",
    ".summary()": "rhat r_hat ess diagnostics tau1 tau2 r1 r2 estimates coef results",
}.items():
    for _other in _others.split():
        _ATTRIBUTES.setdefault(_other, []).append(_lead)
"""What parts of an answer are called here, by what they are called elsewhere."""


class Leading:
    """A class whose objects, asked for what they have not, say what they have."""

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            kind = type(self)
            if name.startswith("_") or hasattr(kind, name):
                # Of a property that fails its own error.
                return object.__getattribute__(self, name)
            have = sorted(one for one in {*dir(kind), *self.__dict__} if not one.startswith("_"))
            ways = _ATTRIBUTES.get(name.casefold(), [])
            ways = [one for one in ways if re.match(r"\.(\w+)", one)[1] in have]
            lead = f" Write {ways[0]}." if ways else suggest(name, have)
            named = f"{kind.__name__} has no {brief(name)!r}."
            raise AttributeError(f"{named}{lead} It has {', '.join(have)}.")

        def __getitem__(self, name):
            ways = ["frames", "records", "table", "to_frame", "interval"]
            if isinstance(name, str) and not name.startswith("_"):
                getattr(self, name)  # says what to write where there is none
                ways = [name]
            leads = " or ".join(f".{one}" for one in ways if hasattr(self, one))
            raise TypeError(f"{type(self).__name__} has no parts by number or name: write {leads}.")

        def __float__(self):
            have = [
                one
                for one in ("mean", "median", "interval", "tau1.mean")
                if hasattr(type(self), one.partition(".")[0]) or one in self.__dict__
            ]
            raise TypeError(
                f"{type(self).__name__} is no single number: write .{' or .'.join(have)}."
            )


def setting(place: str, value: str | bool = "VALUE") -> str:
    """Spell a value that `set` alone reaches, as `option` does.

    Examples
    --------
    >>> print(setting("households.scattered", True))
    --set households.scattered=true (in Python: set={'households.scattered': True})
    """
    text = str(value).lower() if isinstance(value, bool) else value
    return f"--set {place}={text} (in Python: set={{{place!r}: {value}}})"


def option(name: str, value: object = None) -> str:
    """Spell an option as on the command line and as in Python, since either may have been used.

    Parameters
    ----------
    name
        Its name in Python.
    value
        An example of its value; True for an option that takes none on the command line.

    Examples
    --------
    >>> print(option("encoding", "latin-1"))
    --encoding latin-1 (in Python: encoding='latin-1')
    >>> print(option("delimiter", ";"))
    --delimiter ';' (in Python: delimiter=';')
    >>> print(option("missing_values", ["NA", "null"]))
    --missing-values NA,null (in Python: missing_values=['NA', 'null'])
    """
    flag = f"--{name.replace('_', '-')}"
    if value is None:
        return f"{flag} (in Python: {name}=)"
    if value is True:
        return f"{flag} (in Python: {name}=True)"
    text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    if hidden(text, whole=True) != text:
        # An example of it is none for a message.
        return option(name)
    text = text.replace("\t", "tab")
    return f"{flag} {shlex.quote(text)} (in Python: {name}={value!r})"


def check_column_name(name: str, value: object) -> None:
    """Refuse what is no name of a column, such as the column itself (SpecError)."""
    if value is None or isinstance(value, str):
        return
    raise SpecError(
        f"{name} must be the name of a column of the data, and is a {type(value).__name__}. Add "
        f"the values to the data as a column, such as frame['{name}'] = values, and name it: "
        f"{name}='{name}'."
    )


def shown(value: object) -> str:
    """Return the value of an option for a message, cut where it is long; a number in a text plain.

    Examples
    --------
    >>> shown("two"), shown(" 2.5"), shown(True), shown([1]), shown(10**5000)
    ("'two'", '2.5', 'true', 'a list', 'a whole number of about 5,001 digits')
    """
    if isinstance(value, str):
        value = hidden(value[:_LONGEST_SEARCHED], whole=True)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9.]+(e-?[0-9]+)?", value.strip()):
        text = value.strip()
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, int) and abs(value) >= 10**_LONGEST_SHOWN:
        # Python refuses to write out thousands of digits.
        return f"a whole number of about {int(value.bit_length() * log10(2)) + 1:,} digits"
    elif isinstance(value, (str, int, float)):
        text = repr(value)
    else:
        kind = type(value).__name__
        return {"dict": "a table", "list": "a list", "tuple": "a list"}.get(kind, "something else")
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"
