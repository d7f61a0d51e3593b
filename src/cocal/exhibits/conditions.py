"""The paper's conditions beside those of this study (beyond the paper).

Conditions are what the comparison of the methods starts from: accuracies, stated confidences before training, entropy
of the text, truncation and lengths of training, what the coupled methods cost in accuracy, and how polarised stated
confidences are. Whether a study resembles the paper's shows here; no method's calibration does.
"""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from cocal.companion.spec import CompanionSpec
from cocal.config.base import Count, Name
from cocal.config.methods import METHODS, MethodName
from cocal.config.study import Study
from cocal.errors import ContractError
from cocal.evidence.published import MACRO, METRICS, Published
from cocal.exhibits.base.exhibit import (
    FACTUAL,
    MATHEMATICS,
    PUBLISHED,
    BackboneLayout,
    Labelled,
    Labels,
    TableExhibit,
    labelled,
    of_main,
)
from cocal.exhibits.base.inputs import Cube, mean_cell
from cocal.exhibits.typesetting.grid import Block, Cell, Grid, Group, Head, Row
from cocal.metrics.calibration import bin_index
from cocal.metrics.cells import read_cell
from cocal.metrics.shown import UNDEFINED, metric_text
from cocal.study.plan import Prefix, final_methods, final_predictions, has_methods, macro_averages
from cocal.study.results import companion_folder, metrics_file

_GAPS = "Accuracy less that of GRPO's policy (points)"
"""The condition with which the second half of the table begins; every study has the gap of the pre-RL model."""
_POLARISED = "lowest or highest bin"
"""Words with which the paper says, of AMC24, how many of RLCR's confidences fall into the outermost bins."""
_CONDITIONS = {
    MATHEMATICS: {
        "Accuracy before training (%)": ("main", "base-verbal", "accuracy"),
        "Accuracy after GRPO (%)": ("main", "token-probability", "accuracy"),
        "Stated confidence before training": ("main", "base-verbal", "mean_confidence"),
        "Mean token probability after GRPO": ("main", "token-probability", "mean_confidence"),
    },
    FACTUAL: {
        "Factual accuracy after GRPO (%)": ("ood", "token-probability", "accuracy"),
        "Stated confidence before training, factual": ("ood", "base-verbal", "mean_confidence"),
        "Mean token probability after GRPO, factual": ("ood", "token-probability", "mean_confidence"),
    },
}
"""Conditions of each domain that are metrics of a method: the paper's table, the method and the metric. Accuracies are
shown for each set as well."""


class Layout(BackboneLayout):
    """The contents of the table."""

    step: Count
    """Last step of the training."""
    domains: dict[Name, Labels]
    """Evaluation sets of each macro average, in the order of the study."""
    responses: Count
    """Responses that a whole training samples, before any is left out."""
    stated: tuple[MethodName, ...]
    """Methods whose responses state a confidence, in the order of the study."""
    shown: Labelled
    """Evaluation set on which the paper speaks of the share of confidences in the outermost bins."""
    bins: Count
    """Number of bins of equal width between 0 and 1."""
    mirrors: dict[Name, str]
    """The paper's title of the set that each evaluation set stands for."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table of the main backbone, where the study has the methods whose numbers are conditions."""
    if not has_methods(study, "base-verbal", "token-probability", "cocal-binary"):
        return
    backbone, step = study.main_backbone, study.policy.steps
    experiences = ("rollouts", "resampled") if has_methods(study, "postcal-binary") else ("rollouts",)
    folders = [companion_folder(backbone, experience) for experience in experiences]
    yield TableExhibit(
        title="Conditions of the study",
        chapter="Study",
        position=40.5,
        caption="The conditions of the paper beside those of this study: accuracies, stated confidences before "
        "training, the probability of the sampled tokens, which tells the entropy of the text, what other policies "
        "differ in accuracy, the shares of stated confidences in the outermost bins, and the responses that companions "
        "retain and that reach the length limit. They describe what the methods are compared on, not how well they do.",
        layout=Layout(
            **of_main(study),
            domains={name: labelled(study, sets) for name, sets in macro_averages(study, backbone).items()},
            stated=tuple(
                name
                for name in final_methods(study, backbone)
                if METHODS[name].prompt_format != "answer" and METHODS[name].experience is None
            ),
            shown=labelled(study, [study.reports.reliability_dataset])[0],
            bins=study.metrics.bins,
            responses=step * study.policy.questions_per_step * study.policy.responses_per_question,
            mirrors=study.reports.mirrors,
        ),
        inputs={
            "metrics": metrics_file(backbone),
            "companions": [f"{folder}/{Prefix(step, step).folder}" for folder in folders],
            "predictions": final_predictions(study, backbone),
            PUBLISHED: "config/paper",
        },
        products={"companions": folders},
    )


def prepare(
    layout: Layout,
    metrics: Cube,
    companions: Sequence[CompanionSpec],
    predictions: Sequence[pd.DataFrame],
    published: Published,
) -> pd.DataFrame:
    """The conditions, one per row.

    Args:
        metrics: Metric cube (`cocal.metrics.cube`) of the backbone.
        companions: Specs of the last step's companions of CoCal and, where the study has it, of PostCal.
        predictions: Predictions at the end of training and of the pre-RL model.
        published: The paper's numbers.

    Returns:
        Columns condition, of (what a row is about), metric (a metric of the cube, "share", "gap" or "count"), value
        (the study's), paper (NaN where the paper states none), ratio (value / paper), and place (table, row and column
        of the paper, or its section). Accuracies and shares lie in [0, 1].

    Raises:
        ContractError: if the cube lacks a method on a set, or companions retain more responses than there were.
    """
    rows = [row for domain in layout.domains for row in _measured(layout, domain, metrics, published)]
    rows += _gaps(layout, metrics, published)
    rows += _outermost(layout, predictions, published)
    rows += _retained(layout, companions, published)
    steps, place = published.cell("hyperparameters", "Policy training: Training steps", "Value")
    rows.append(("Training", "Rollout steps", "count", steps, layout.step, place))
    frame = pd.DataFrame(rows, columns=["condition", "of", "metric", "paper", "value", "place"])
    frame["ratio"] = frame["value"] / frame["paper"]
    return frame[["condition", "of", "metric", "value", "paper", "ratio", "place"]]


def _value(layout: Layout, metrics: Cube, method: str, dataset: str, metric: str) -> float:
    cell = mean_cell(layout.backbone, method, layout.step, dataset)
    return read_cell(metrics, cell, [metric])["value"].item()


def _measured(layout: Layout, domain: str, metrics: Cube, published: Published) -> Iterator[tuple]:
    titles = {metric: title for title, metric in METRICS.items()}
    for title, (table, method, metric) in _CONDITIONS[domain].items():
        sets = layout.domains[domain] if metric == "accuracy" else ()
        for one in (*sets, Labelled(name=domain, label="Macro average")):
            mirrored = MACRO if one.name == domain else layout.mirrors.get(one.name)
            paper, place = float("nan"), ""
            if mirrored:
                paper, place = published.cell(table, METHODS[method].label, f"{mirrored}: {titles[metric]}")
                paper /= 100 if metric == "accuracy" else 1
            yield title, one.label, metric, paper, _value(layout, metrics, method, one.name, metric), place


def _retained(layout: Layout, companions: Sequence[CompanionSpec], published: Published) -> Iterator[tuple]:
    """Numbers of responses that companions learnt from, and shares of responses that reached the length limit."""
    stated = published.numbers("PostCal retains")
    cut = 1 - sum(stated) / published.numbers("-response raw budget")[0]
    shares = []
    for spec in companions:
        name, *paper = ("PostCal", *stated, cut) if spec.order == "shuffled" else ("CoCal", *[float("nan")] * 3)
        place = 'appendix B.2, "PostCal retains"' if name == "PostCal" else ""
        counts = spec.training_responses, spec.validation_responses
        for part, count, published_count in zip(("training", "validation"), counts, paper, strict=False):
            yield "Responses retained", f"{name}, {part}", "count", published_count, count, place
        share = 1 - sum(counts) / layout.responses
        if share < 0:
            raise ContractError(
                f"companions: they retain more than the {layout.responses} responses of the training; rerun their fit"
            )
        of = "Responses of the final policy (PostCal)" if name == "PostCal" else "Rollouts of GRPO (CoCal)"
        shares.append(("Cut at the length limit (%)", of, "share", paper[-1], share, place))
    yield from shares


def _gaps(layout: Layout, metrics: Cube, published: Published) -> Iterator[tuple]:
    """Accuracies of other policies less that of GRPO's, as macro averages over mathematics."""

    def accuracy(method: str) -> tuple[float, float]:
        paper, _ = published.cell("main", METHODS[method].label, f"{MACRO}: Acc.")
        return _value(layout, metrics, method, MATHEMATICS, "accuracy"), paper / 100

    ours, paper = accuracy("cocal-binary")
    for method in layout.stated:
        if METHODS[method].policy != "grpo":
            value, stated = accuracy(method)
            of = "Before training" if METHODS[method].policy == "base" else METHODS[method].label
            place = f"{published.tables['main'].label}, {METHODS[method].label} less CoCal (binary)"
            yield _GAPS, of, "gap", stated - paper, value - ours, place


def _outermost(layout: Layout, predictions: Sequence[pd.DataFrame], published: Published) -> Iterator[tuple]:
    """Shares of the stated confidences in the lowest and in the highest bin of the calibration error."""
    table = pd.concat([one[one["method"].isin(layout.stated) & one["valid"]] for one in predictions])
    table = table.assign(bin=bin_index(table["confidence"].to_numpy(dtype="float64"), layout.bins))
    bins = dict(iter(table.groupby(["method", "dataset"])["bin"]))

    def share(method: str, dataset: str, *places: int) -> float:
        found = bins.get((method, dataset))
        return float("nan") if found is None else float(found.isin(places).mean())

    sets = [one.name for one in layout.domains[MATHEMATICS]]
    last = layout.bins - 1
    for name, place in (("lowest", 0), ("highest", last)):
        for method in layout.stated:
            value = sum(share(method, dataset, place) for dataset in sets) / len(sets)
            yield f"Stated confidences in the {name} bin (%)", METHODS[method].label, "share", float("nan"), value, ""
    if "rlcr" in layout.stated:
        mirrored = layout.mirrors.get(layout.shown.name) == "AMC24"
        paper = published.numbers(_POLARISED)[0] / 100 if mirrored else float("nan")
        of = f"{METHODS['rlcr'].label}, {layout.shown.label}"
        where = f'section 6.1, "{_POLARISED}" (more than)' if mirrored else ""
        value = share("rlcr", layout.shown.name, 0, last)
        yield "Stated confidences in either of the two (%)", of, "share", paper, value, where


def grid(numbers: pd.DataFrame, layout: Layout, **_: object) -> Grid:
    """Set the table, in two floats."""

    def text(metric: str, value: float) -> str:
        if pd.isna(value):
            return UNDEFINED
        if metric in ("gap", "count", "ratio"):
            return {"gap": f"{100 * value:+z.1f}", "count": f"{value:,.0f}", "ratio": f"{value:.2f}"}[metric]
        return metric_text("accuracy" if metric == "share" else metric, value)

    def cells(row) -> tuple[Cell, ...]:
        return Cell(text(row.metric, row.paper)), Cell(text(row.metric, row.value)), Cell(text("ratio", row.ratio))

    groups = [
        Group(tuple(Row(str(row.of), cells(row)) for row in part.itertuples()), str(condition))
        for condition, part in numbers.groupby("condition", sort=False)
    ]
    gaps = [group.title for group in groups].index(_GAPS)
    return Grid(
        title=f"Conditions, {layout.backbone_label}",
        caption=f"Conditions of the comparison: the paper's, with Qwen3-8B, beside those of {layout.backbone_label}. "
        f"{layout.caption} Mean token probabilities are those of TokenProb on the evaluated responses. Accuracy gaps "
        "and shares of stated confidences are macro averages over the mathematical sets, and the lowest and the "
        f"highest bin are those of {layout.bins} bins of equal width. Ratios are "
        f"this study's values over the paper's; {UNDEFINED} stands where the paper states no value. The CSV beside "
        "it names the place of each value in the paper.",
        label="conditions",
        blocks=tuple(
            Block(corner="Condition", heads=((Head("Paper"), Head("This study"), Head("Ratio")),), groups=tuple(part))
            for part in (groups[:gaps], groups[gaps:])
        ),
        size="footnotesize",
        apart=True,
    )
