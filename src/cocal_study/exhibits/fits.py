"""What limits a companion: the paper's fit beside other learners of the same responses (beyond the paper)."""

from collections.abc import Iterator, Mapping
from itertools import product

import pandas as pd

from cocal.metrics.shown import UNDEFINED, metric_text
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.cubes.better import HEADS
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.regimes import Layout, layout_of
from cocal_study.exhibits.typesetting.grid import Block, Grid, Line

LEARNERS = {"cocal-binary": "grpo", "postcal-binary": "postcal"}
"""The companions, and the origin of the responses that they and the other learners of their rows learn from."""
MEMBER, TOGETHER, UPDATED, SCALED = "member", "seeds together", "paper's updates", "standardised"
PROBE, TOKENS, BOTH, RECIPE = "probe", "tokens", "states and tokens", "cocal fit"
OWN, LENGTH = "token-probability", "length"
PAPER_UPDATES = 5940
"""Updates in ten passes over the paper's 152,065 responses, in batches of 256."""
SCORES = ("auroc", "auroc_within", "ece", "brier")
_LABELS = {
    MEMBER: "The paper's fit, one seed",
    TOGETHER: "Its seeds as one confidence",
    UPDATED: f"One seed, {PAPER_UPDATES:,} updates",
    SCALED: "One seed, standardised states",
    PROBE: "Linear probe of the states",
    TOKENS: "Four token features",
    BOTH: "Linear probe of both",
    RECIPE: "What cocal fit chooses, of both",
    OWN: "Token probability as it is",
    LENGTH: "Length (shorter is surer)",
}
_SHOWN = SCORES[:3]


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    if study.reports.fits:
        yield TableExhibit(
            title="What limits a companion",
            chapter="Analysis",
            position=66,
            caption="AUROC and ECE of other learners of the responses that companions learn from, which tells what "
            "limits the paper's fit.",
            layout=layout_of(study),
            inputs={"fits": [study.reports.fits]},
        )


def prepare(layout: Layout, fits: pd.DataFrame) -> pd.DataFrame:
    """The scores of every fit over the replicates of each study, one per row: the columns study, backbone, sampling,
    learner, fit, metric, value (mean), sd and replicates."""
    place = ["study", "backbone", "sampling", "learner", "fit"]
    long = fits.melt([*place, "replicate"], list(SCORES), "metric", "value")
    grouped = long.groupby([*place, "metric"], sort=False)["value"]
    return grouped.agg(value="mean", sd="std", replicates="size").reset_index()


def grid(numbers: pd.DataFrame, layout: Layout, **_: object) -> Grid:
    """Set the table, with a group of rows for each study and for the responses that are learnt from."""
    values = numbers.set_index(["study", "learner", "fit", "sampling", "metric"])[["value", "sd"]]
    places = list(product(map(str, numbers["sampling"].unique()), _SHOWN))

    def row(study: str, learner: str, fit: str) -> Line:
        return _LABELS[fit], [_cell(values, (study, learner, fit, *place)) for place in places]

    groups = []
    for study, of_study in numbers.groupby("study", sort=False):
        count, about = of_study["replicates"].max(), f"{str(study).capitalize()} study"
        about += f", {count} replicates" if count > 1 else ""
        for learner in ("", *LEARNERS):
            fits = of_study.loc[of_study["learner"] == learner, "fit"].unique()
            name = METHODS[learner].label.partition(" ")[0] if learner else ""
            title = f"learnt from {name}'s responses" if name else "nothing learnt"
            groups.append((f"{about}: {title}", [row(str(study), learner, fit) for fit in fits]))
    heads = [name.capitalize() for name, _ in places], [HEADS[metric] for _, metric in places]
    return Grid(
        title="Other learners of the same responses",
        caption="AUROC, AUROC within questions (W-AUROC) and ECE of learners of correctness, as means over the "
        "mathematical sets, over seeds and over replicates, with the SD over these. All learn from the responses that "
        "were not cut. Probes are logistic regressions of standardised inputs, whose penalty five folds by question "
        "choose; the token features are mean log-probability, mean probability and lowest log-probability of the "
        "tokens, and the logarithm of their number, which cocal fit does not read.",
        blocks=(Block("Learner", heads, groups),),
        size="footnotesize",
    )


def _cell(values: pd.DataFrame, key: tuple[str, ...]) -> str:
    if key not in values.index:
        return UNDEFINED
    value, sd = values.loc[key]
    text = metric_text(key[-1], value)
    return text if pd.isna(sd) or text == UNDEFINED else f"{text} ± {metric_text(key[-1], sd)}"
