"""The paper's conditions beside those of this study (beyond the paper).

Conditions are what the comparison of the methods starts from: accuracies, stated confidences before training, entropy
of the text, accuracy, truncation and size of the training, and the sampling of the evaluation. Whether a study
resembles the paper's shows here. Calibration, differences in accuracy between policies and the polarisation of stated
confidences are outcomes, and do not.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from cocal.companion.spec import CompanionSpec, Prefix
from cocal.metrics.shown import UNDEFINED, metric_text
from cocal.settings.base import Algorithm, Count, Name
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.cubes.cells import read_cell
from cocal_study.evidence.published import MACRO, Published
from cocal_study.exhibits.base.exhibit import Labelled, StepLayout, TableExhibit, labelled, of_main
from cocal_study.exhibits.base.inputs import Cube, mean_cell
from cocal_study.exhibits.typesetting.grid import Block, Grid, Line
from cocal_study.planning.plan import FACTUAL, MATHEMATICS, has_methods, macro_averages, trainer_of
from cocal_study.planning.replicates import REQUIRED
from cocal_study.planning.results import companion_folder, metrics_file, questions_file, responses_file, rollouts_folder

_REPORTED, _SIZE = "reported", "size"
"""Obligations other than `REQUIRED`: none, or none because the value follows from the size of the study."""
_NONE = float("nan")
"""A value that the paper does not state."""
_FACTOR = 1.5
"""A required value is at most this many times the paper's, and at least the paper's divided by this."""
_BEFORE = "Accuracy before training (%)"
"""A condition that is required unless a study has a second sampling. The paper's sampling raises the accuracy of the
embedded study's policies by 14 to 25 points over that of their rollouts, which before training is beyond the bound in
most replicates. All other conditions stay required, and the same policies are admitted as before."""
_VALID = "Valid stated confidences before training (%)"
_RIGHT = "Right among the rollouts that are kept (%)"
_LEAST = {_VALID: 0.9, _RIGHT: 0.5}
"""Least required values of conditions for which the paper states no value."""
_TRAINED = "Accuracy of the rollouts (%)"
"""The condition with which the second half of the table begins."""
SAMPLING = "Sampling of the evaluation"
"""The condition whose settings the table shows, and the name of its axis in the regimes."""
_LAST = 10
"""Number of rollout steps up to a stage over which the accuracy of the rollouts averages."""
_KNOWN = {"token-probability": REQUIRED, "self-consistency": REQUIRED, "p-true": _SIZE, "verbal": _SIZE}
"""Confidences that no training has taught, whose AUROC tells what the policy knows itself. Policies of two blocks do
not learn to check an answer, so that P(True) and what they state stay near chance (docs/protocol.md)."""
_AWARE = "AUROC of what the policy knows itself"
_RESPONSES = "Responses to each evaluation set"
_EVALUATIONS = {
    "MATH500": ("contains 500 problems", 0, 1),
    "AMC23": ("contain 40 and 45 problems", 0, 10),
    "AMC24": ("contain 40 and 45 problems", 1, 10),
    "AIME24": ("each contain 30 more", 0, 10),
    "AIME25": ("each contain 30 more", 0, 10),
}
"""The sentence of the paper that states the number of problems of a set, the place of the number in it, and how many
responses to each of them are evaluated."""
_UNLIKELY = 0.05
_CONDITIONS = {
    MATHEMATICS: {
        _BEFORE: ("main", "base-verbal", "accuracy"),
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


class Layout(StepLayout):
    stages: tuple[Count, ...]
    """Steps at which the accuracy of the rollouts is shown."""
    algorithms: tuple[Algorithm, ...]
    """Algorithms whose rollouts the study has, in the order of its inputs."""
    domains: dict[Name, tuple[Labelled, ...]]
    sampling: dict[str, float]
    """Sampling of the evaluation, by the paper's words for each setting."""
    mirrors: dict[Name, str]
    """The paper's title of the set that each evaluation set stands for."""
    known: tuple[str, ...] = ()
    """The methods that the study has of those that tell what the policy knows itself."""
    second_sampling: bool = False
    """Whether the policies are evaluated as rollouts are sampled, too, since the two differ for them (`_BEFORE`)."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table of the main backbone, where the study has the methods whose numbers are conditions."""
    if not has_methods(study, "base-verbal", "token-probability"):
        return
    backbone, step, generation = study.main_backbone, study.policy.steps, study.generation
    algorithms: list[Algorithm] = [
        name
        for name in study.policy.algorithms
        if has_methods(study, _evaluated(name))
        and (name == "grpo" or trainer_of(study, backbone, name) != "imported")  # these record only GRPO's rollouts
    ]
    domains = macro_averages(study, backbone)
    answered = [responses_file(backbone, "grpo", step, "answer", name) for name in domains.get(MATHEMATICS, [])]
    inputs = {
        "metrics": [metrics_file(backbone)],
        "rollouts": [rollouts_folder(backbone, name) for name in algorithms],
        "questions": [questions_file(study.policy.dataset)],
        "published": ["config/paper"],
        **({"regimes": [f"{study.reports.regimes}/points.csv"]} if study.reports.regimes else {}),
    }
    learners = {"companions": ("postcal-binary", "resampled"), "replayed": ("cocal-binary", "rollouts")}
    for kind, (method, experience) in learners.items():
        if has_methods(study, method):
            inputs[kind] = [f"{companion_folder(backbone, experience)}/{Prefix(step, step).folder}"]
    yield TableExhibit(
        title="Conditions of the study",
        chapter="Study",
        position=40.5,
        caption="The conditions of the paper beside those of this study: what the methods are compared on, not how "
        "well they do, and which of it has to be near the paper's.",
        layout=Layout(
            **of_main(study),
            stages=study.policy.stages,
            algorithms=tuple(algorithms),
            domains={name: labelled(study, sets) for name, sets in domains.items()},
            sampling={
                "Sampling temperature": generation.temperature,
                "Top-p": generation.top_p,
                "Top-k": generation.top_k,
                "Presence penalty": generation.presence_penalty,
            },
            mirrors=study.reports.mirrors,
            known=tuple(name for name in _KNOWN if has_methods(study, name)),
            second_sampling=bool(study.second_sampling),
        ),
        inputs=inputs | {"answered": answered},
    )


def prepare(
    layout: Layout,
    metrics: Cube,
    rollouts: Sequence[pd.DataFrame],
    questions: pd.DataFrame,
    published: Published,
    companions: CompanionSpec | None = None,
    regimes: pd.DataFrame | None = None,
    replayed: CompanionSpec | None = None,
    answered: Sequence[pd.DataFrame] = (),
) -> pd.DataFrame:
    """The conditions, one per row; each of the layout's algorithms has a table of rollouts. The result has the columns
    condition, of (what a row is about), metric (a metric of the cube, "share", "gap", "count" or "setting"), value (the
    study's), paper (NaN where the paper states none), ratio (value / paper), matched ("required", "reported" or
    "size"), least and greatest (the bounds of a required value; NaN without one), and place (table, row and column of
    the paper, or its section). Accuracies and shares lie in [0, 1]."""
    tables = dict(zip(layout.algorithms, rollouts, strict=True))
    rows = [row for domain in layout.domains for row in _measured(layout, domain, metrics, published)]
    for part in ([*_trained(layout, tables, metrics)], [*_kept(tables, questions, companions, published)]):
        conditions = [row[0] for row in part]
        rows += sorted(part, key=lambda row, order=conditions: order.index(row[0]))  # rows of one condition together
    rows += [*_learnt(replayed, published)] if replayed else []
    rows += _known(layout, metrics, answered, published)
    steps, place = published.cell("hyperparameters", "Policy training: Training steps", "Value")
    rows.append(("Training", "Rollout steps", "count", _REPORTED, steps, layout.step, place))
    for name, value in layout.sampling.items():
        paper, place = published.cell("hyperparameters", f"Evaluation: {name}", "Value")
        rows.append((SAMPLING, name, "setting", _SIZE, paper, value, place))
    if regimes is not None:  # GRPO's policy on the same questions under each sampling, over replicates
        points = regimes[regimes["axis"] == SAMPLING].drop_duplicates(["level", "replicate"])
        for level, value in points.groupby("level", sort=False)["accuracy"].mean().items():
            rows.append((SAMPLING, f"Accuracy (%), {level}", "share", _SIZE, _NONE, value, ""))
    frame = pd.DataFrame(rows, columns=["condition", "of", "metric", "matched", "paper", "value", "place"])
    frame["ratio"] = frame["value"] / frame["paper"]
    required = frame["matched"] == REQUIRED
    chance = 0.5 * (frame["metric"] == "auroc")  # the point from which distances count
    least, greatest = (chance + (frame["paper"] - chance) * factor for factor in (1 / _FACTOR, _FACTOR))
    frame["least"] = frame["condition"].map(_LEAST).fillna(least).where(required)
    frame["greatest"] = greatest.where(chance == 0, greatest.clip(upper=1)).where(required)
    return frame[["condition", "of", "metric", "value", "paper", "ratio", "matched", "least", "greatest", "place"]]


def _read(layout: Layout, metrics: Cube, method: str, dataset: str, metric: str) -> pd.Series:
    cell = mean_cell(layout.backbone, method, layout.step, dataset)
    return read_cell(metrics, cell, [metric]).iloc[0]


def _measured(layout: Layout, domain: str, metrics: Cube, published: Published) -> Iterator[tuple]:
    """Conditions that are metrics of methods; the macro averages over mathematics are required."""
    macro = Labelled(name=domain, label="Macro average")
    asked = REQUIRED if domain == MATHEMATICS else _REPORTED
    for title, (table, method, metric) in _CONDITIONS[domain].items():
        of_macro = _REPORTED if layout.second_sampling and title == _BEFORE else asked
        for dataset in (*(layout.domains[domain] if metric == "accuracy" else ()), macro):
            mirrored = MACRO if dataset is macro else layout.mirrors.get(dataset.name)
            paper, place = _NONE, ""
            if mirrored:
                paper, place = published.metric(table, method, metric, mirrored)
            value = _read(layout, metrics, method, dataset.name, metric)["value"]
            yield title, dataset.label, metric, of_macro if dataset is macro else _REPORTED, paper, value, place
    of = "Mathematics" if domain == MATHEMATICS else "Factual"
    value = _read(layout, metrics, "base-verbal", domain, "mean_confidence")["valid_rate"]
    yield _VALID, of, "share", asked, _NONE, value, ""


def _evaluated(algorithm: str) -> str:
    """A method that is evaluated on the responses of an algorithm's policy."""
    return "token-probability" if algorithm == "grpo" else algorithm


def _trained(layout: Layout, tables: Mapping[Any, pd.DataFrame], metrics: Cube) -> Iterator[tuple]:
    """Accuracies of the rollouts up to each stage, and the last one less the accuracy in the evaluation."""
    less = "Accuracy of the last rollouts less that of the evaluation (points)"
    for name, table in tables.items():
        for stage in layout.stages:
            value = table["correct"][table["step"].between(stage - _LAST + 1, stage)].mean()
            yield _TRAINED, f"{name.upper()}, step {stage}", "share", _REPORTED, _NONE, value, ""
        gap = value - _read(layout, metrics, _evaluated(name), MATHEMATICS, "accuracy")["value"]
        yield less, name.upper(), "gap", _REPORTED, _NONE, gap, ""


def _kept(
    tables: Mapping[Any, pd.DataFrame], questions: pd.DataFrame, companions: CompanionSpec | None, published: Published
) -> Iterator[tuple]:
    """Shares of truncated responses; of the other responses, the number and the share of right ones."""
    cut, kept = "Cut at the length limit (%)", "Responses kept"
    for name, table in tables.items():
        right = table["correct"][~table["truncated"]]
        yield cut, name.upper(), "share", _REPORTED, _NONE, table["truncated"].mean(), ""
        yield _RIGHT, name.upper(), "share", REQUIRED, _NONE, right.mean(), ""
        yield kept, name.upper(), "count", _SIZE, _NONE, len(right), ""
    levels = tables["grpo"]["question_id"].map(questions.set_index("question_id")["level"])
    for level, truncated in tables["grpo"]["truncated"].groupby(levels):
        if level:  # 0: unknown
            yield cut, f"GRPO, level {level}", "share", _REPORTED, _NONE, truncated.mean(), ""
            yield kept, f"GRPO, level {level}", "count", _SIZE, _NONE, (~truncated).sum(), ""
    if companions:
        stated, place = published.numbers("PostCal retains"), 'appendix B.2, "PostCal retains"'
        counts, whole = (companions.training_responses, companions.validation_responses), len(tables["grpo"])
        paper = 1 - sum(stated) / published.numbers("-response raw budget")[0]
        value = 1 - sum(counts) / whole
        yield cut, "Responses of GRPO's final policy (PostCal)", "share", REQUIRED, paper, value, place
        for part, of_paper, count in zip(("training", "validation"), stated, counts, strict=True):
            yield kept, f"PostCal, {part}", "count", _SIZE, of_paper, count, place


def _learnt(replayed: CompanionSpec, published: Published) -> Iterator[tuple]:
    """Gradient updates of a companion; the paper states how many responses there are, and no number of passes."""
    batch, batch_place = published.cell("hyperparameters", "Calibrator training: Batch size", "Value")
    paper, title = published.numbers("PostCal retains")[0] / batch, "Gradient updates of a companion"
    own = math.ceil(replayed.training_responses / replayed.settings.batch_size)
    place = f'appendix B.2, "PostCal retains"; {batch_place}'
    yield title, "CoCal, one pass", "count", _SIZE, math.ceil(paper), own, place
    yield title, "CoCal, all passes", "count", _SIZE, _NONE, own * replayed.settings.passes, ""


def _known(layout: Layout, metrics: Cube, answered: Sequence[pd.DataFrame], published: Published) -> Iterator[tuple]:
    """What the policy knows without a companion, and numbers of evaluated responses."""
    for name in layout.known:
        paper, place = published.metric("main", name, "auroc")
        value = _read(layout, metrics, name, MATHEMATICS, "auroc")["value"]
        yield _AWARE, METHODS[name].label, "auroc", _KNOWN[name], paper, value, place
    wrong = [table["logprobs"][~table["correct"]] for table in answered]
    if sum(map(len, wrong)):
        unlikely = [min(logprobs) < math.log(_UNLIKELY) for column in wrong for logprobs in column]
        share = sum(unlikely) / len(unlikely)
        yield f"Wrong answers with a token below {_UNLIKELY:g} (%)", "GRPO", "share", _REPORTED, _NONE, share, ""
    for dataset in layout.domains.get(MATHEMATICS, ()):
        sentence, at, each = _EVALUATIONS.get(layout.mirrors.get(dataset.name, ""), ("", 0, 1))
        paper = published.numbers(sentence)[at] * each if sentence else _NONE
        value = _read(layout, metrics, "token-probability", dataset.name, "accuracy")["n"]
        yield _RESPONSES, dataset.label, "count", _SIZE, paper, value, f'section 5, "{sentence}"' if sentence else ""


def grid(numbers: pd.DataFrame, layout: Layout, **_: object) -> Grid:
    """Set the table, in two floats."""

    def text(metric: str, value: float) -> str:
        if pd.isna(value):
            return UNDEFINED
        if metric in ("gap", "count", "ratio", "setting"):
            formats = {"gap": f"{100 * value:+z.1f}", "count": f"{value:,.0f}", "ratio": f"{value:.2f}"}
            return formats.get(metric, f"{value:g}")
        return metric_text("accuracy" if metric == "share" else metric, value)

    def line(row) -> Line:
        return row.of, (text(row.metric, row.paper), text(row.metric, row.value), text("ratio", row.ratio), row.matched)

    groups = {str(name): list(map(line, part.itertuples())) for name, part in numbers.groupby("condition", sort=False)}
    apart = (
        "Rollouts are sampled at temperature 1, and the paper's sampling raises the accuracy of these small policies "
        "far above theirs, as it does not with language models: the accuracy of the last rollouts cannot be near the "
        "evaluation's here, and the accuracy before training is reported, not required. "
    )
    second, heads = list(groups).index(_TRAINED), ("Paper", "This study", "Ratio", "Match")
    parts = [*groups.items()][:second], [*groups.items()][second:]
    return Grid(
        title=f"Conditions, {layout.backbone_label}",
        caption=f"Conditions of the comparison: the paper's, with Qwen3-8B, beside those of {layout.backbone_label}. "
        f"{layout.caption} Mean token probabilities are those of TokenProb on the evaluated responses. Accuracies of "
        f"the rollouts, cut ones included, are means over the {_LAST} steps up to a stage, and those of the evaluation "
        "that they are compared with are macro averages over the mathematical sets. All other shares of rollouts are "
        "over all steps. Accuracies by the sampling of the evaluation, where they were gathered, are those of GRPO's "
        "policy on the same questions, over replicates. Ratios are this study's values over the paper's. Where a match "
        "is required, the ratio has to lie between 2/3 and 3/2, or, as the paper states no value, at least "
        f"{100 * _LEAST[_VALID]:g} % of the confidences have to be valid and {100 * _LEAST[_RIGHT]:g} % of the kept "
        "rollouts right; a replicate that fails one of these takes no part. "
        f"{apart * layout.second_sampling}Reported values are shown without obligation. Those marked size follow "
        "from the size of the models, their vocabularies and the training, and cannot be matched at another size. Of "
        "an AUROC, the distance from one half counts. "
        f"{UNDEFINED} stands where the paper states no value. The CSV beside it names the place of each value in it.",
        blocks=tuple(Block("Condition", [heads], part) for part in parts),
        size="footnotesize",
        apart=True,
    )
