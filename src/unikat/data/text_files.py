"""Readers of delimited text: one file, or several as one.

The text is parsed once: the key columns are put aside as Parquet, file by file. Other encodings
than UTF-8 are brought to it in a copy, since DuckDB would download an extension for most.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import shutil
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from unikat.data.engine import literals, pattern, quoted, translated
from unikat.data.folders import Parts, check_alike
from unikat.data.formats import check_packed, head_of
from unikat.data.sources import Source, check_columns
from unikat.errors import DataError, SpecError, brief, option
from unikat.files.scratch import Scratch, private

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_DELIMITERS = ",;\t|"
_NOT_OF_FILES = ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape")
"""Encodings of single names or of program texts."""


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """A delimited text file."""

    name: str
    """What messages call it."""
    text: Path
    """The UTF-8 file to parse: the file itself or a transcoded copy."""
    columns: tuple[str, ...]
    delimiter: str
    encoding: str
    """Of the file itself."""
    transcode: Callable[[], None] | None
    """Makes the transcoded copy, again if it was deleted."""
    line_end: str
    """What ends a line, where a name in the header holds line breaks; empty: DuckDB finds it."""

    @property
    def relation(self) -> str:
        """What DuckDB selects from: columns f0, f1, ... of text."""
        # Everything is declared, because a guess made from the first rows can be wrong below.
        columns = ", ".join(f"'f{j}': 'VARCHAR'" for j in range(len(self.columns)))
        packed = "gzip" if self.text.suffix == ".gz" else "none"
        # DuckDB takes the first line break for the end of a line, also one within a name.
        line_end = f"new_line = '{self.line_end}', " if self.line_end else ""
        return (
            f"read_csv({quoted(pattern(self.text))}, auto_detect = false, header = true, "
            f"delim = {quoted(self.delimiter)}, quote = '\"', escape = '\"', {line_end}"
            f"compression = '{packed}', columns = {{{columns}}})"
        )

    def need_text(self) -> None:
        """Make the transcoded copy again if it was deleted."""
        if self.transcode is not None and not self.text.exists():
            self.transcode()

    def delete_copy(self) -> None:
        """Delete the transcoded copy."""
        if self.transcode is not None:
            self.text.unlink(missing_ok=True)


class TextSource(Source):
    """Delimited text files as one.

    Parameters
    ----------
    name, columns, paths, format
        As of `Source`.
    texts
        The files.
    made
        Of each file: values of the columns that the names of its folders make.
    folder
        Temporary folder for copies of the keys; it has to outlive this source.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        *,
        paths: Sequence[Path],
        format: str,
        texts: Sequence[TextFile],
        made: Sequence[dict[str, str | None]],
        folder: Path,
    ) -> None:
        super().__init__(name, columns, paths=paths, format=format)
        self.delimiter, self.encoding = texts[0].delimiter, texts[0].encoding
        self._texts, self._made = texts, made
        self._aside = [folder / f"keys-{number}.parquet" for number in range(len(texts))]
        self._kept: tuple[str, ...] | None = None

    @property
    def files(self) -> list[Path]:
        """Files that DuckDB must be allowed to read."""
        return [*(text.text for text in self._texts), *self._aside]

    def _selected(self, number: int, names: Sequence[str]) -> str:
        """Query of columns of one file; those of the folders' names are the same in every row."""
        text, known = self._texts[number], self._made[number]
        selected = []
        for j, name in enumerate(names):
            value = known.get(name)
            if name not in known:
                selected.append(f"f{text.columns.index(name)} AS c{j}")
            elif value is None:
                selected.append(f"CAST(NULL AS VARCHAR) AS c{j}")
            else:
                selected.append(f"{quoted(value)} AS c{j}")
        return f"SELECT {', '.join(selected)} FROM {text.relation}"

    def attach(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
        """Make the view ``source`` of the named columns."""
        if self._kept != tuple(names):
            self._kept = None
            for number, (text, aside) in enumerate(zip(self._texts, self._aside, strict=True)):
                # Errors name the file.
                with translated(text.name):
                    text.need_text()
                    # Where the file is there already, DuckDB would write beside it, which is not
                    # allowed.
                    connection.execute(
                        f"COPY ({self._selected(number, names)}) TO {quoted(str(private(aside)))} "
                        "(FORMAT parquet, USE_TMP_FILE false)"
                    )
                self._done(text)
            self._kept = tuple(names)
        parts = literals([pattern(path) for path in self._aside])
        connection.execute(f"CREATE TEMP VIEW source AS SELECT * FROM read_parquet({parts})")

    def first(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], n_rows: int
    ) -> pa.Table:
        """Give the first rows of the named columns, which are not put aside."""
        return self._rows(connection, names, n_rows)

    def native(self) -> Any:
        """Give the rows with all columns."""
        self.check_unchanged()
        with self.session() as connection:
            return self._rows(connection, self.columns, None)

    def _rows(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], n_rows: int | None
    ) -> pa.Table:
        import pyarrow as pa

        found: list[pa.Table] = []
        for number, text in enumerate(self._texts):
            query = self._selected(number, names)
            if n_rows is not None:
                left = n_rows - sum(map(len, found))
                if left <= 0:
                    break
                query += f" LIMIT {left}"
            with translated(text.name):
                text.need_text()
                found.append(connection.sql(query).to_arrow_table())
            self._done(text)
        return pa.concat_tables(found).rename_columns(list(names))

    def _done(self, text: TextFile) -> None:
        """Delete the copy of one file of several: they are made one at a time."""
        if len(self._texts) > 1:
            text.delete_copy()

    def delete_copies(self) -> None:
        """Delete the columns put aside and the transcoded copies."""
        self._kept = None
        for aside in self._aside:
            aside.unlink(missing_ok=True)
        for text in self._texts:
            text.delete_copy()


def open_text(
    path: Path, parts: Parts | None, format: str, *, delimiter: str | None, encoding: str | None
) -> TextSource:
    """Open a text file, or those of a folder.

    Raises
    ------
    DataError
        If a file is damaged or in another encoding, or the files have different columns.
    SpecError
        If the delimiter or the encoding is none.
    """
    if delimiter is None and format == "tsv":
        delimiter = "\t"
    scratch = Scratch()
    folder = scratch.path.resolve()
    made: list[dict[str, str | None]]
    try:
        if parts is None:
            name, paths = brief(path.name), [path]
            texts = [_open_csv(path, name, folder, delimiter=delimiter, encoding=encoding)]
            columns, made = texts[0].columns, [{}]
        else:
            name, paths, texts = brief(parts.name), parts.paths, []
            for number, (one, label) in enumerate(zip(paths, parts.labels(), strict=True)):
                below = folder / str(number)
                below.mkdir(mode=0o700)
                texts.append(_open_csv(one, label, below, delimiter=delimiter, encoding=encoding))
                # One after the other is made again when it is read.
                texts[-1].delete_copy()
            columns = check_alike(parts, [text.columns for text in texts])
            made = [dict(zip(parts.columns, part.values, strict=True)) for part in parts.parts]
        source = TextSource(
            name, columns, paths=paths, format=format, texts=texts, made=made, folder=folder
        )
    except BaseException:
        scratch.close()
        raise
    weakref.finalize(source, scratch.close)
    return source


def _open_csv(
    path: Path, name: str, folder: Path, *, delimiter: str | None, encoding: str | None
) -> TextFile:
    """Open a text file, called `name` in messages, with a folder for copies."""
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise SpecError(
            f"{option('delimiter', brief(delimiter))} must be one character, such as a comma, a "
            f"semicolon, or a tab: {option('delimiter', chr(9))}."
        )
    text, chosen = path, encoding or _mark(head_of(path, name))
    plain = _text_encoding(chosen) in ("utf-8", "utf-8-sig", "ascii")
    if plain and b"\0" in head_of(path, name):
        raise DataError(
            f"{name} is to be read as CSV but holds binary data; it is another format, or in "
            f"an encoding such as UTF-16: {option('encoding', 'utf-16')}."
        )
    if path.suffix.lower() == ".gz":
        check_packed(path, name)
    transcode = None
    if not plain:
        text = folder / "utf8.csv"
        transcode = partial(_transcode, path, text, chosen, name)
        transcode()
    columns, found, line_end = _header(text, name, delimiter)
    return TextFile(
        name=name,
        text=text.resolve(),
        columns=check_columns(columns, name),
        delimiter=found,
        encoding=chosen,
        transcode=transcode,
        line_end=line_end,
    )


def _text_encoding(name: str) -> str:
    """Return what Python calls an encoding of text files; refuse all others."""
    try:
        # Others, such as rot13 and zlib, turn bytes or texts into each other.
        is_text = codecs.lookup(name)._is_text_encoding
        canonical = codecs.lookup(name).name
    except (LookupError, ValueError):
        is_text, canonical = False, ""
    if not is_text or canonical in _NOT_OF_FILES:
        raise SpecError(
            f"{option('encoding', brief(name))} is not known as an encoding of text files; use for "
            "example utf-8, latin-1 or cp1252."
        )
    return canonical


def _mark(head: bytes) -> str:
    """Encoding told by a byte order mark, else UTF-8."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return "utf-8"


def _text_of(path: Path, encoding: str) -> IO[str]:
    """Open a text file, gzipped or not, with its line ends as they are."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding=encoding, newline="")
    return path.open(encoding=encoding, newline="")


def _transcode(path: Path, target: Path, encoding: str, name: str) -> None:
    try:
        with (
            _text_of(path, encoding) as lines,
            private(target).open("w", encoding="utf-8", newline="") as out,
        ):
            shutil.copyfileobj(lines, out, 1 << 20)
    except UnicodeError:
        raise DataError(
            f"{name} is not in the encoding {encoding}; give the one it was saved in, for "
            f"example {option('encoding', 'latin-1')}, or save it as UTF-8."
        ) from None
    except OSError as error:
        raise DataError(
            f"{name} cannot be brought to UTF-8 in the folder for temporary files "
            f"({error.strerror or error}); free some room or set TMPDIR to another disk."
        ) from None


def _header(text: Path, name: str, delimiter: str | None) -> tuple[list[str], str, str]:
    """Names of the columns, the delimiter (the one that splits the header most), and line end."""
    rows: dict[str, list[str]] = {}
    try:
        with _text_of(text, "utf-8-sig") as lines:
            for char in delimiter or _DELIMITERS:
                lines.seek(0)
                rows[char] = next(csv.reader(lines, delimiter=char), [])
    except UnicodeDecodeError:
        raise DataError(
            f"{name}, first lines: the text is not UTF-8. Say how it is encoded, for example "
            f"{option('encoding', 'latin-1')}, or cp1252, or save it as UTF-8."
        ) from None
    except csv.Error:
        raise DataError(
            f"{name}: the header line is not that of a CSV file; is a quotation mark left open?"
        ) from None
    found = max(rows, key=lambda char: len(rows[char]))
    line_end = _end_of_header(text, name, found)
    names = [column.strip() for column in rows[found]]
    if not any(names):
        raise DataError(f"{name} begins with an empty line; the first line must name the columns.")
    return names, found, line_end


def _end_of_header(text: Path, name: str, delimiter: str) -> str:
    """What ends the header, as DuckDB writes it, if that has several lines; else nothing.

    A header whose quotation mark is left open is refused: the whole file would be a name.
    """
    read: list[str] = []

    def kept(lines: IO[str]) -> Iterator[str]:
        for line in lines:
            read.append(line)
            yield line

    with _text_of(text, "utf-8-sig") as lines:
        try:
            next(csv.reader(kept(lines), delimiter=delimiter, strict=True), None)
        except csv.Error as error:
            # Other slips, such as a quotation mark within a name, are read as they stand.
            if "unexpected end of data" in str(error):
                raise DataError(
                    f"{name}, header line: a quotation mark opens and does not close. Double the "
                    "quotation marks inside quoted fields, or remove the stray one."
                ) from None
    if len(read) < 2:
        return ""
    last = read[-1]
    end = last[len(last.rstrip("\r\n")) :]
    return end.replace("\r", "\\r").replace("\n", "\\n")
