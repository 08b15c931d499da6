"""The page of an attack: its words and figures, at every width."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import unikat
from report.browser import assert_sound, layout
from synthesis.attacks.test_model_free import simulated
from unikat.report.facts.attack import AttackSummary
from unikat.report.pages.attack import render
from unikat.report.text.attack import explained, row, terminal_lines
from unikat.risk.estimate import Summary
from unikat.synthesis.attacks.posterior import PosteriorFacts, PriorFacts
from unikat.synthesis.attacks.rates import Rate

KEYS = ["age group", "second key", "C", "D", "E"]


@pytest.fixture(scope="module")
def found() -> AttackSummary:
    """Attacks with a control file, and made-up fits."""
    original, made, control = (pd.DataFrame(codes, columns=KEYS) for codes in simulated())
    summary = unikat.attack(original, synthetic=[made, made], control=control, keys=KEYS).summary
    tau1 = Summary(
        mean=61.0, median=61.0, lower=41.0, upper=83.0, level=0.95,
        rhat=1.0, ess_bulk=900.0, ess_tail=800.0,
    )  # fmt: skip
    claims = tuple(
        replace(
            one, tau1=tau1, true=Rate(value=12.0, lower=7.0, upper=18.0),
            n_true=11, n_elsewhere=5, n_nobody=40,
        )
        for one in summary.claims.by_file
    )  # fmt: skip
    prior = PriorFacts(
        prior="uniform", top_three=0.2, top_three_before=0.1, twice=0.05, largest=0.4,
        largest_before=0.1, probabilities=(150, 30, 9, 4, 3, 1, 1, 1, *[0] * 12),
        ranks=(*range(1, 20), 9),
    )  # fmt: skip
    posterior = PosteriorFacts(
        model="latent-class", unit="combination", n_persons=200, n_candidates=16, n_unknown=1,
        standard_error=0.07, most_error=0.2, converged=False, priors=(prior,),
    )  # fmt: skip
    return explained(
        replace(
            summary,
            claims=replace(summary.claims, tau1=tau1, model="latent-class", by_file=claims),
            posterior=posterior,
            household_posterior=None,
            converged=False,
        )
    )


def test_the_page_says_every_sentence_and_loads_nothing(found: AttackSummary) -> None:
    page = render(found)
    plain = re.sub(r"\s+", " ", page.replace("&#39;", "'"))
    missing = [text for text in found.sentences.values() if text and text not in plain]
    assert missing == []
    assert "Not converged" in page
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", page)


def test_no_text_is_cut_at_any_width(found: AttackSummary, tmp_path: Path) -> None:
    assert_sound(layout({"page": render(found)}, tmp_path), figures=3)


def test_the_answer_and_the_limits_are_in_words(found: AttackSummary) -> None:
    said = found.sentences
    n = sum(one.found for one in found.attacks)
    assert said["answer"].startswith(f"{n} of the {len(found.attacks)} attacks succeed")
    assert "He believes that 61 (41 to 83)" in said["claims"]
    assert "About 12 (7 to 18) of his claims are true" in said["claims"]
    assert "11 of his claims are true, 5 are about a person" in said["claims"]
    assert "1 combination with 0.2 or more has no number" in said["posterior"]
    assert found.posterior is not None
    none = replace(found.posterior, n_unknown=200, priors=())
    assert (
        "too much for any number"
        in explained(replace(found, posterior=none)).sentences["posterior"]
    )
    idle = explained(replace(found, attacks=tuple(replace(one, n=0.0) for one in found.attacks)))
    assert "so nobody is singled out" in idle.sentences["attacks.1"]
    assert "gives nothing to guess by" in idle.sentences["attacks.0"]
    quiet = tuple(replace(one, excess=Rate(value=0.1, lower=-1, upper=1)) for one in found.attacks)
    nothing = explained(replace(found, attacks=quiet)).sentences
    assert nothing["answer"].startswith("None of the")
    assert "within what chance explains" in nothing["attacks.0"]


def test_less_success_than_the_baseline_has_is_no_number(found: AttackSummary) -> None:
    less = Rate(value=-0.73, lower=-0.91, upper=-0.52)
    shown = explained(
        replace(found, attacks=tuple(replace(one, excess=less) for one in found.attacks))
    )
    assert "It succeeds no more often than the baseline." in shown.sentences["attacks.0"]
    assert {row(one)[4:] for one in shown.attacks} == {("none", "–")}
    assert "\N{MINUS SIGN}73%" not in render(shown) + "".join(terminal_lines(shown))
