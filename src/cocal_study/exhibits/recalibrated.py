"""Baselines on equal footing: scores that learn from the same responses as the companions (beyond the paper)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import pandas as pd

from cocal.metrics.scores import WITHIN
from cocal.metrics.shown import UNDEFINED
from cocal.settings.base import Count, Name
from cocal_study.config.evaluation import QualitySettings
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.cubes.better import CONFIDENCE_QUALITY
from cocal_study.cubes.cells import read_cells
from cocal_study.exhibits.base.exhibit import Labelled, StepLayout, TableExhibit, of_main
from cocal_study.exhibits.base.inputs import Cube, mean_cell, seeds_of
from cocal_study.exhibits.typesetting.grid import Block, Grid, doubts, metric_block, ranked_cells, short_rates
from cocal_study.exhibits.typesetting.wording import (
    BOLD_AND_UNDERLINED,
    DOMAINS,
    SUBJECTS,
    averaged,
    counted,
    listed,
    said,
)
from cocal_study.methods.recalibration.calibrators import Fits, Platt
from cocal_study.planning.baselines import (
    BASELINES,
    CALIBRATIONS,
    Basis,
    Kind,
    calibrated,
    named,
    recalibrated_algorithms,
    without_states,
)
from cocal_study.planning.plan import macro_averages
from cocal_study.planning.results import calibrators_file, metrics_file

_KINDS: dict[Kind, str] = {"platt": "Platt scaling", "isotonic": "Isotonic regression"}
_BASES: dict[Basis, str] = {
    "all": "all rollouts",
    "last": "rollouts of the last stage",
    "resampled": "PostCal's responses",
}
_TURNED = "*"
"""Mark of rows in which a calibrator turns the ranking over."""
_TITLES = {"raw": "As they are"}
_TITLES |= {name: f"{_KINDS[kind]}, {_BASES[basis]}" for name, (kind, basis) in CALIBRATIONS.items()}


class Layout(StepLayout):
    last_stage: Count
    """First step of the last stage, which ends with the step of the policy."""
    baselines: dict[Name, tuple[Name, ...]]
    """Names of the baselines, in the order of the rows, by their calibrations."""
    labels: dict[Name, str]
    notes: tuple[str, ...] = ()
    domains: dict[Name, tuple[Name, ...]]
    quality: QualitySettings = QualitySettings()


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table of the main backbone at the end of training, where the study has a baseline."""
    baselines = {how: tuple(names) for how, names in calibrated(study).items()}
    chosen = [BASELINES[name] for name in baselines["raw"]]
    notes = [baseline.note for baseline in chosen if baseline.note]
    notes += [
        f"{baseline.label} is left out: it reads a block that features.layers lacks."
        for baseline in without_states(study)
    ]
    if chosen:
        yield TableExhibit(
            title="Baselines that learn from the same rollouts",
            chapter="Main results",
            position=13.5,
            caption="Scores without a companion, stated confidences and probes of the same hidden states, each as it "
            "is and after recalibration on the rollouts of training, beside CoCal treated alike; the CSV has every "
            "set and 95 % intervals of a bootstrap over questions.",
            layout=Layout(
                **of_main(study),
                last_stage=(0, *study.policy.stages)[-2] + 1,
                baselines=baselines,
                labels={baseline.name: baseline.label for baseline in chosen},
                notes=tuple(dict.fromkeys(notes)),
                domains={name: tuple(sets) for name, sets in macro_averages(study, study.main_backbone).items()},
                quality=study.quality,
            ),
            inputs={
                "metrics": [metrics_file(study.main_backbone, "-recalibrated")],
                "calibrators": [
                    calibrators_file(study.main_backbone, algorithm, study.policy.steps)
                    for algorithm in recalibrated_algorithms(study)
                ],
            },
        )


def prepare(layout: Layout, metrics: Cube, calibrators: Sequence[Fits]) -> pd.DataFrame:
    """ECE and both AUROCs of every set and of the macro averages as means over seeds: columns dataset, method (name of
    the baseline and of what was done to it), baseline, calibration, those of `cocal_study.cubes.cells.read_cell`, and
    wrong_slopes, the number of companion seeds (at most 1 without a companion) whose Platt scaling, among the
    calibrators of all policies, has a negative slope. The ECE of a score that only ranks is NaN."""
    cells = {}
    rows = [(baseline, calibration) for calibration, baselines in layout.baselines.items() for baseline in baselines]
    for dataset in (dataset for domain, sets in layout.domains.items() for dataset in (*sets, domain)):
        for baseline, calibration in rows:
            cell = mean_cell(layout.backbone, BASELINES[baseline].method, layout.step, dataset)
            cell["method"] = named(baseline, calibration)
            cells[dataset, cell["method"], baseline, calibration] = cell
    numbers = read_cells(
        metrics, cells, ["dataset", "method", "baseline", "calibration"], (*CONFIDENCE_QUALITY, WITHIN)
    )
    ranks = [name for name in layout.baselines["raw"] if BASELINES[name].ranks_only]
    meaningless = numbers["baseline"].isin(ranks) & (numbers["calibration"] == "raw") & (numbers["metric"] == "ece")
    numbers.loc[meaningless, ["value", "lower", "upper", "seed_sd"]] = float("nan")
    wrong = Counter(
        named(fit.baseline, f"platt-{fit.basis}")
        for of_policy in calibrators
        for fit in of_policy.fits
        if isinstance(platt := fit.calibrators["platt"], Platt) and platt.slope < 0
    )
    return numbers.assign(wrong_slopes=numbers["method"].map(wrong).fillna(0).astype(int))


def grid(numbers: pd.DataFrame, layout: Layout, *, metrics: Cube, **_: object) -> Grid:
    """Set the table, with a group of rows for each calibration, and a part, which ranks its values, for each basis."""
    short = short_rates(numbers, layout.quality, layout.domains)
    domains = [Labelled(name=name, label=DOMAINS[name]) for name in layout.domains]
    turned = {*numbers.loc[numbers["wrong_slopes"] > 0, "method"]}

    def label(baseline: str, calibration: str) -> str:
        return layout.labels[baseline] + f" {_TURNED}" * (named(baseline, calibration) in turned)

    def part(calibrations: Sequence[str]) -> Block:
        shown = numbers[numbers["dataset"].isin(layout.domains) & numbers["calibration"].isin(calibrations)]
        groups = [
            (_TITLES[how], {named(name, how): label(name, how) for name in layout.baselines[how]})
            for how in calibrations
        ]
        cells = ranked_cells(shown, short=short)
        return metric_block("Score", domains, (*CONFIDENCE_QUALITY, WITHIN), groups, cells, optional=[WITHIN])

    parts = groupby(layout.baselines, lambda how: how.partition("-")[2])
    sets = " and ".join(counted(len(sets), "set") + f" of {SUBJECTS[name]}" for name, sets in layout.domains.items())
    chosen = [BASELINES[name] for name in layout.baselines["raw"]]
    of_postcal = (
        "PostCal needs as many responses of the final policy again as training has rollouts. CoCal recalibrated on "
        "PostCal's responses may use the same, at equal sampling cost, and reads those to held-out questions alone. "
        "All other rows need no further responses."
    )
    of_coupled = "RLCR and DCPO have policies, rollouts and responses of their own."
    ranking = [layout.labels[baseline.name].partition(" (")[0] for baseline in chosen if baseline.ranks_only]
    only = (
        "ranks responses and has no ECE as it is" if len(ranking) == 1 else "rank responses and have no ECE as they are"
    )
    return Grid(
        title=f"Baselines that learn from the same rollouts, {layout.backbone_label}, step {layout.step}",
        caption=said(
            f"Macro averages over {sets} using {layout.backbone_label} after {layout.step} training steps.",
            layout.caption,
            "Calibrators learn from responses to the training questions alone, from those that the companion is "
            "trained on, or from its held-out questions where a score reads hidden states.",
            f"The last stage has steps {layout.last_stage} to {layout.step}."
            if "platt-last" in layout.baselines
            else "",
            of_postcal if "platt-resampled" in layout.baselines else "",
            *layout.notes,
            averaged(seeds_of(metrics)) if any(baseline.reader for baseline in chosen) else "",
            "W-AUROC is the AUROC within questions: over all pairs of a right and a wrong response to one question, it "
            "tells what a score knows beyond the difficulty of questions.",
            of_coupled if any(METHODS[baseline.method].policy != "grpo" for baseline in chosen) else "",
            f"{listed(ranking)} only {only} ({UNDEFINED})." if ranking else "",
            f"{_TURNED} marks Platt scaling with a slope of the wrong sign, for one companion seed or more: among the "
            "responses that it learnt from, higher scores were less often right, so that it turns the ranking, and "
            "AUROC with it, the other way round."
            if turned
            else "",
            BOLD_AND_UNDERLINED,
            "Each part of the table has its own.",
            doubts(short, layout.quality),
        ),
        blocks=tuple(part(list(calibrations)) for _, calibrations in parts),
        size="footnotesize",
        apart=True,
    )
