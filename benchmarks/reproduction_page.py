"""docs/reproduction.md, made of the published figures and of what `reproduce.py` computed.

    python benchmarks/reproduction_page.py

Nothing on the page is typed by hand but the published figures and the remarks, which stand in
`published.toml`. Tests hold the page equal to both files.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reproduction_figures import paths

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "reproduction.md"
RESULTS = HERE / "results" / "reproduction.jsonl"
PUBLISHED: dict[str, Any] = tomllib.loads((HERE / "published.toml").read_text(encoding="utf-8"))
HEAD = """\
# The five papers, table by table

Every table and figure of the papers that unikat's models come from, beside what unikat computes.
`make reproduce` computes what is not there yet from the files in `../shared/data`, and writes this
page. `python benchmarks/reproduce.py --only paper1-table3 --again` repeats one entry.

- **Published**: the paper's figure, with the truth in its data where ours are others.
- **As the paper states it**: our sampler with the paper's model and priors.
- **Our default**: the same file with unikat's default priors; the column says which model.
- **Truth**: known because the whole population is known.

τ1 is a posterior mean with a 95% interval, or mean ± standard deviation where the paper has that.
*Not converged* marks a fit that reached its time limit (R-hat above 1.05). "Not run: 3 min" is a
fit that nobody has made yet, with the minutes that it takes on two quiet cores.
"""


def results() -> dict[str, dict[str, Any]]:
    """Lines of the result file by fit; the last one of each counts."""
    if not RESULTS.exists():
        return {}
    lines = RESULTS.read_text(encoding="utf-8").splitlines()
    return {line["fit"]: line for line in map(json.loads, lines)}


def usual_seconds(identity: str) -> float:
    """Seconds that a fit takes on two quiet cores, roughly; those of `published.toml` by source."""
    source, _, model = identity.partition("|")
    found = next(value for name, value in PUBLISHED["seconds"].items() if source.startswith(name))
    size = source.partition("+")[0].rpartition("_")[2]
    share = int(size) / 10_000 if size.isdigit() and not source.startswith("table") else 1.0
    quick = model in ("sample", "independence", "two-way")
    return 0.0 if quick else float(found * share * (4 if model == "auto" else 1))


FIELDS = ("ref", "default", "truth")
REFERENCE = re.compile(r"\{([^{}]+\|[^{}]+)\}")
"""In a remark."""


def cells(entry: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Lines of an entry's table: one for each of its rows and columns."""
    for row in entry.get("rows", []):
        published = row["published"]
        many = published if isinstance(published, list) else [published]
        truths = row.get("published_truth", "")
        columns = entry.get("columns", [{}])
        for place, (column, figure) in enumerate(zip(columns, many, strict=True)):
            truth = truths[place] if isinstance(truths, list) else truths
            line = {
                "label": row["label"], "column": column.get("name", ""), "published": figure,
                "published_truth": truth or column.get("published_truth", ""),
                "known": row.get("truth_value", ""),
            }  # fmt: skip
            for field in FIELDS:
                text = row.get(field, column.get(field, entry.get(field, "")))
                line[field] = text.format_map(row) if text else ""
            yield line


def references(entry: dict[str, Any]) -> set[str]:
    """Fits and measures that an entry names, `source|model|measure`."""
    in_rows = {line[field] for line in cells(entry) for field in FIELDS if "|" in line[field]}
    return in_rows | set(REFERENCE.findall(entry.get("why", "")))


def number(value: float, digits: int) -> str:
    """Write a number with a minus sign."""
    return f"{value:,.{digits}f}".replace("-", "−")


def written(value: Any, style: str) -> str:
    """Write a measure in the style of the column: `sd`, `interval`, `share`, `count`, `list`."""
    if value is None:
        return "–"
    if isinstance(value, list):
        digits = 0 if all(isinstance(v, int) for v in value) else 1
        return " / ".join(number(v, digits) for v in value)
    if isinstance(value, dict):
        if style == "share":
            return f"({value['lower']:.3f}, {value['upper']:.3f})".replace("0.", ".")
        if style == "sd":
            return f"{number(value['mean'], 2)} ± {number(value['sd'], 2)}"
        if style == "se":
            return f"{number(value['mean'], 1)} ({number(value['sd'], 1)})"
        if style == "median":
            middle = number(value["median"], 0)
            return f"{middle} [{number(value['lower'], 0)}, {number(value['upper'], 0)}]"
        ends = f"[{number(value['lower'], 0)}, {number(value['upper'], 0)}]"
        return f"{number(value['mean'], 1)} {ends}"
    if isinstance(value, int):
        return f"{value:,}"
    if style == "share":
        return f"{value:.3f}".replace("0.", ".", 1)
    return number(value, 3 if style == "probability" else 1)


def ours(reference: str, style: str, found: dict[str, Any]) -> str:
    """Write what a reference names; '–' if it names nothing."""
    if not reference:
        return "–"
    if "|" not in reference:
        return reference
    identity, _, measure = reference.rpartition("|")
    measure, _, own_style = measure.partition("@")
    if identity not in found:
        minutes = usual_seconds(identity) / 60
        return f"not run: {max(1, round(minutes))} min"
    measures = found[identity]["measures"]
    text = written(measures.get(measure), own_style or style)
    rhat = measures.get("fit", {}).get("rhat") or 1.0
    return f"{text} *not converged*" if rhat > 1.05 else text


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Write a table; columns that are empty throughout are left out."""
    kept = [j for j in range(len(head)) if any(row[j] not in ("", "–") for row in rows)]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line[j] for j in kept) + " |" for line in lines)


def table(entry: dict[str, Any], found: dict[str, Any]) -> str:
    """The table of an entry: a line for each row and column, or for each row if it is `wide`."""
    style, lines = entry.get("style", "interval"), []
    for line in cells(entry):
        stated, default = (ours(line[field], style, found) for field in ("ref", "default"))
        published = line["published"]
        if entry["data"] != "the paper's" and line["published_truth"]:
            published += f" (truth {line['published_truth']})"
        truth = line["known"] or ours(line["truth"], style, found)
        if truth == "–" and entry["data"] == "the paper's":
            truth = line["published_truth"] or "–"
        lines.append([line["label"], line["column"], published, stated, default, truth])
    named = ["published", entry.get("ours", "as the paper states it"),
             entry.get("default_name", "our default"), "truth"]  # fmt: skip
    if not entry.get("wide"):
        return markdown([entry.get("of", ""), "", *named], lines)
    columns = [column["name"] for column in entry["columns"]]
    head = [entry["of"], *(f"{column}: {name}" for column in columns for name in named)]
    starts = range(0, len(lines), len(columns))
    rows = [
        [lines[at][0], *(cell for line in lines[at : at + len(columns)] for cell in line[2:])]
        for at in starts
    ]
    return markdown(head, rows)


def state(entry: dict[str, Any], found: dict[str, Any]) -> str:
    """What there is of an entry, for the first table."""
    if "not_run" in entry:
        return entry["not_run"]
    fits = {reference.rpartition("|")[0] for reference in references(entry)}
    there = len(fits & found.keys())
    data = "the paper's data" if entry["data"] == "the paper's" else "other data"
    if there == len(fits):
        return f"{data}, {there} fits"
    return f"{data}, {there} of {len(fits)} fits; the others are not run"


def remark(text: str, found: dict[str, Any]) -> str:
    """A remark, with the measures that it names in braces, as `{source|model|measure@style}`."""
    return REFERENCE.sub(lambda match: ours(match[1], "interval", found), text)


def section(entry: dict[str, Any], found: dict[str, Any]) -> str:
    """One entry: what it shows, on which data, its table, and why the numbers differ."""
    parts = [f"({entry['id']})=\n### Paper {entry['paper']}, {entry['where']}"]
    parts.append(entry["shows"])
    if entry["data"] != "the paper's":
        parts.append(f"**Data**: {entry['data']}")
    if "not_run" in entry:
        parts.append(f"**Not run**: {entry['not_run']}")
    if entry.get("rows"):
        parts.append(table(entry, found))
    if "figure" in entry:
        parts.append(f"![{entry['figure']}](images/{entry['id']}.svg)")
    if "why" in entry:
        parts.append(f"**Why they differ**: {remark(entry['why'], found)}")
    return "\n\n".join(parts)


def machines(found: dict[str, Any]) -> str:
    """Where and when the fits were made."""
    kinds = sorted({line["machine"].partition(", Python")[0] for line in found.values()})
    dates = sorted({line["date"] for line in found.values()})
    loads = [float(line["machine"].rpartition(" ")[2]) for line in found.values()]
    if not found:
        return "No fit has been made yet."
    seconds = sum(line["seconds"] for line in found.values())
    return (
        f"{len(found)} fits, {seconds / 60:,.0f} minutes, on {'; '.join(kinds)}; {dates[0]} to "
        f"{dates[-1]}, load {min(loads):.0f} to {max(loads):.0f} (under load, so that the minutes "
        "are upper bounds)."
    )


def page() -> str:
    """The whole page."""
    found = results()
    entries = PUBLISHED["entry"]
    rows = [
        [str(e["paper"]), f"[{e['where']}](#{e['id']})", e["shows"].split(".")[0],
         state(e, found)] for e in entries
    ]  # fmt: skip
    parts = [HEAD, machines(found)]
    parts.append("\n".join(f"- Paper {p['number']}: {p['title']}" for p in PUBLISHED["paper"]))
    parts.append("## What there is")
    parts.append(markdown(["paper", "where", "what it shows", "here"], rows))
    for paper in PUBLISHED["paper"]:
        parts.append(f"## Paper {paper['number']}: {paper['short']}")
        if "note" in paper:
            parts.append(remark(paper["note"], found))
        parts += [section(e, found) for e in entries if e["paper"] == paper["number"]]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def figures() -> dict[Path, str]:
    """Figures of the page by their file."""
    folder, found = PAGE.parent / "images", results()
    entries = [entry for entry in PUBLISHED["entry"] if "figure" in entry]
    return {folder / f"{e['id']}.svg": paths(cells(e), found) for e in entries}


def main() -> None:
    """Write the page and its figures."""
    PAGE.write_text(page(), encoding="utf-8")
    for place, figure in figures().items():
        place.write_text(figure, encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
