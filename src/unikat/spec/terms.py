"""An office's own words for terms of the reports.

A term has a word for each form in which our sentences have it: a word is put in the place of a
word, and no sentence of a stranger is a template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from unikat.errors import SpecError, brief, listed, suggest
from unikat.files.toml import packaged_toml, read_toml
from unikat.spec.option import Asked, Option
from unikat.spec.paths import is_path
from unikat.spec.problems import all_problems
from unikat.spec.values import Language, Table

Word = Annotated[str, Field(min_length=1, max_length=80)]
_REFUSED = re.compile(r"[\x00-\x1f{}<>\"']")
"""What would end a text of a template."""


@cache
def forms_of(language: str) -> Mapping[str, tuple[str, ...]]:
    """Return the forms of every term that can be replaced, by the English name of the term.

    Examples
    --------
    >>> forms_of("es")["sample unique"]
    ('único muestral', 'únicos muestrales')
    """
    return {
        term: tuple(forms)
        for term, forms in packaged_toml(__package__, "terms.toml")[language].items()
    }


class TermsSpec(Table):
    """The table `[report.terms]`: words that stand in the place of ours.

    Examples
    --------
    >>> TermsSpec(source="INE", words={"es": {"intruso": "atacante"}}).words["es"]["intruso"]
    'atacante'
    """

    source: Annotated[str, Field(min_length=1, max_length=200)]
    """Where the words are from; reports name it."""
    words: dict[Language, dict[str, Word]]
    """By language: each form of a term as our sentences have it, and the office's word for it."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for language, words in self.words.items():
            forms = forms_of(language)
            known = [form for of_term in forms.values() for form in of_term]
            for ours, theirs in words.items():
                if ours not in known:
                    raise ValueError(
                        f"{brief(ours)!r} is no term of {language}.{suggest(ours, known)} "
                        f"There are: {listed(known, len(known))}"
                    )
                if _REFUSED.search(theirs):
                    raise ValueError(
                        f"the word for {brief(ours)!r} has a sign of markup or a quote"
                    )
            for of_term in forms.values():
                lacking = [form for form in of_term if form not in words]
                if 0 < len(lacking) < len(of_term):
                    raise ValueError(
                        f"a word for {listed(lacking)} is missing in {language}: a term is "
                        "replaced in all its forms"
                    )
        return self


def _read(value: Any, _: Asked) -> Any:
    if not is_path(value):
        return value
    try:
        return TermsSpec.model_validate(read_toml(Path(value)))
    except ValidationError as error:
        problems = error.errors(include_url=False)
        raise SpecError(all_problems(problems, str(value), TermsSpec)) from None


Terms = Annotated[
    TermsSpec | None,
    Option(
        "FILE",
        "Your office's own words for terms of the report (.toml), with their source.",
        accepts="str | PathLike[str] | Mapping[str, Any] | None",
        read=_read,
    ),
]
"""Words in the place of ours; None: ours."""
