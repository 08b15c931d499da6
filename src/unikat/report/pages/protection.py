"""The page of a protection: one HTML file that needs no network and has no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from unikat.protection.released import ColumnChange
from unikat.report.facts.protection import ProtectionSummary, kind_of
from unikat.report.pages.canvas import Drawing
from unikat.report.pages.committee import bars
from unikat.report.pages.figures import groups
from unikat.report.pages.release_figures import (
    Point,
    Side,
    frontier,
    posteriors,
    risk_cells,
    table_cells,
    with_columns,
)
from unikat.report.pages.template import fill
from unikat.report.text.columns import column_rows
from unikat.report.text.numeric import linkage_rows, numeric_rows
from unikat.report.text.overview import MOST_GROUPS, riskiest
from unikat.report.text.plan_words import plan_words
from unikat.report.text.protection import (
    LEAD,
    beyond,
    joined_rows,
    plan_rows,
    risk_rows,
    scenario_rows,
    table_rows,
    verdict_of,
)
from unikat.report.text.sentences import first
from unikat.report.text.verdict import VerdictText
from unikat.report.text.words import say
from unikat.spec.protection import ProtectionSpec
from unikat.spec.provenance import Provenance


@dataclass(frozen=True, kw_only=True)
class ProtectionPage:
    """The context of `protection.html.j2`: every name that the template uses, and no other."""

    title: str
    verdict: VerdictText | None
    """On the target; None if there is none."""
    summary: ProtectionSummary
    """The content of `protect.json`."""
    tau1: Drawing
    """τ1 before and as it is released."""
    frontier: Drawing
    plans: Sequence[tuple[str, ...]]
    """Rows of the table of plans."""
    lead: str
    """Sentences below the title."""
    groups: Drawing | None
    """Population uniques among the sample uniques of groups of records; None if that is not
    known."""
    risk_map: Drawing | None
    risk_map_words: str
    table: Drawing | None
    """Records in the cells of two keys, before and after."""
    table_words: str
    with_columns: Drawing | None
    """τ1 with each column that is left; None if none is."""
    bars: Mapping[str, tuple[Markup, Markup]]
    """By key, how records spread over the levels of each key, before and after."""
    stages: Sequence[str]
    """Before, after by the plan, by the new fit, and after perturbation if there is one."""
    sides: Sequence[tuple[str, ...]]
    """A measure at each stage."""
    tables: Sequence[tuple[str, ...]]
    """What becomes of the user's own tables; empty if none was named."""
    scenarios: Sequence[tuple[str, ...]]
    """Rows of the table of scenarios; none if there are no scenarios."""
    numeric: Sequence[Sequence[tuple[str, ...]]]
    """Tables of continuous variables, of what was done and of linkage, each with its head; none if
    nothing was changed."""
    columns: Sequence[ColumnChange]
    joined: Sequence[tuple[str, ...]]
    others: Sequence[tuple[str, ...]]
    """Rows of the table of columns that are no keys."""
    provenance: Provenance
    command: str


def render(summary: ProtectionSummary) -> str:
    """Render the page."""
    said, perturbed = summary.sentences, summary.perturbation is not None
    sides = [("before", summary.before)]
    if summary.keys_stay:
        pass
    elif summary.released is None:
        sides.append(("by_plan", summary.chosen.risk))
    else:
        if summary.chosen.recodings:
            sides.append(("recoded", summary.chosen.risk))
        sides.append(("after", summary.released))
    if not summary.keys_stay and (not perturbed or summary.chosen.recodings):
        # A fit takes values for true.
        sides.append((f"refit_{'recoded' if perturbed else 'protected'}", summary.refit))
    verdict = verdict_of(summary)
    context = ProtectionPage(
        title=say(
            f"pages.{'protection_of' if summary.data else 'protection'}",
            begins=first(summary.converged),
            data=summary.data,
        ),
        verdict=verdict,
        summary=summary,
        tau1=_before_and_after(summary),
        groups=_groups(summary),
        risk_map=None if summary.risk_map is None else risk_cells(summary.risk_map),
        risk_map_words=_risk_map_words(summary),
        table=None if summary.table_counts is None else table_cells(summary.table_counts),
        table_words=_table_words(summary),
        with_columns=(
            with_columns(summary.other_columns, summary.left_over) if summary.left_over else None
        ),
        bars={
            one.name: (bars(one.before), bars([share for _, share in one.after]))
            for one in summary.keys
        },
        frontier=_frontier(summary),
        plans=plan_rows(summary)[1:],
        lead=" ".join(said[place] for place in LEAD if place in said),
        stages=[say(f"pages.side.{stage}", beyond=beyond(summary)) for stage, _ in sides],
        sides=risk_rows([side for _, side in sides], households=summary.households),
        tables=table_rows(summary)[1:],
        scenarios=scenario_rows(summary)[1:],
        numeric=[numeric_rows(found), linkage_rows(found)] if (found := summary.numeric) else [],
        columns=summary.columns,
        joined=joined_rows(summary)[1:],
        others=column_rows(summary.other_columns, summary.left_over)[1:],
        provenance=summary.provenance,
        command=ProtectionSpec.again(),
    )
    return fill("protection.html.j2", context)


def _groups(found: ProtectionSummary) -> Drawing | None:
    shown = riskiest(found.breakdowns, found.after.tau1.mean, found.n_released, MOST_GROUPS)
    return groups(shown) if shown else None


def _risk_map_words(found: ProtectionSummary) -> str:
    drawn = found.risk_map
    if drawn is None:
        return ""
    hidden = "figures.risk_map.hidden"
    return say("figures.risk_map.caption", drawn.n_hidden and hidden, found=drawn)


def _table_words(found: ProtectionSummary) -> str:
    drawn = found.table_counts
    if drawn is None:
        return ""
    more = "figures.table.joined" * drawn.joined, "figures.table.hidden" * bool(drawn.n_hidden)
    return say("figures.table.caption", *more, found=drawn)


def _before_and_after(found: ProtectionSummary) -> Drawing:
    """Draw τ1 of the file as it was and as it is released, with the limit."""
    risks = [("before", found.before), ("after", found.after)]
    sides = [Side(say(f"committee.{one}"), risk.tau1, risk.tau1_bins) for one, risk in risks]
    return posteriors(sides, None if found.target is None else found.target.limit)


def _frontier(found: ProtectionSummary) -> Drawing:
    """Draw the plans, what was released in full colour."""
    chosen = say("figures.plans.chosen")
    points = [
        Point(
            say(
                f"figures.plans.{'chosen_plan' if plan.chosen else 'plan'}",
                lost=plan.lost,
                plan=plan_words(plan),
            ),
            plan.lost,
            plan.risk.tau1,
            chosen if plan.chosen and found.released is None else "",
            beaten=plan.perturb is not None or plan.suppress is not None,
            kind=plan.kind,
        )
        for plan in found.plans
    ]
    if found.released is not None:
        words = say("figures.plans.chosen_plan", lost=found.lost, plan=beyond(found))
        kind = kind_of(["pram"] if found.perturbation is not None else ["suppress"])
        tau1 = found.released.tau1
        points.append(Point(words, found.lost, tau1, chosen, beaten=True, kind=kind))
    limit = None if found.target is None else found.target.limit
    return frontier(points, found.level, limit)
