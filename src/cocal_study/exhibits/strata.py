"""Calibration and ranking by the level of the questions and by the length of the responses (beyond the paper).

Difficulty and length explain much of what a confidence knows. Within a level, or among responses of like length, is
what it knows besides.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from cocal.metrics.calibration import METRICS, evaluate
from cocal.settings.base import Count
from cocal_study.config.study import Study
from cocal_study.cubes.better import CONFIDENCE_QUALITY
from cocal_study.exhibits.base.exhibit import ComparedLayout, Labelled, TableExhibit, labelled, of_main
from cocal_study.exhibits.base.inputs import rows_by_seed
from cocal_study.exhibits.typesetting.grid import Grid, method_groups, metric_block, ranked_cells
from cocal_study.exhibits.typesetting.wording import BOLD_AND_UNDERLINED, SUBJECTS, said
from cocal_study.planning.plan import MATHEMATICS, final_methods, has_methods, macro_averages
from cocal_study.planning.results import predictions_file, questions_file, responses_file

_METHODS = ("token-probability", "self-consistency", "postcal-group", "postcal-binary", "cocal-group", "cocal-binary")
_SHORT, _LONG = "short", "long"


class Layout(ComparedLayout):
    sets: tuple[Labelled, ...]
    """The mathematical evaluation sets, in the order of the files of questions and lengths."""
    limit: Count
    """Length, in tokens, at which training cuts responses."""
    bins: Count
    """Number of bins of the ECE."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table of the main backbone at the end of training, where the study has CoCal."""
    backbone, step = study.main_backbone, study.policy.steps
    sets = macro_averages(study, backbone).get(MATHEMATICS, [])
    if has_methods(study, "cocal-binary") and sets:
        yield TableExhibit(
            title="Confidence by level and by length",
            chapter="Main results",
            position=14.5,
            caption="Calibration and ranking within a level of the questions, and among responses of like length.",
            layout=Layout(
                **of_main(study),
                methods=tuple(name for name in _METHODS if name in final_methods(study, backbone)),
                sets=labelled(study, sets),
                limit=study.policy.max_response_length["grpo"],
                bins=study.metrics.bins,
            ),
            inputs={
                "predictions": [predictions_file(backbone, "grpo", step)],
                "asked": [questions_file(name) for name in sets],
                "lengths": [responses_file(backbone, "grpo", step, "answer", name) for name in sets],
            },
        )


def prepare(
    layout: Layout, predictions: pd.DataFrame, asked: Sequence[pd.DataFrame], lengths: Sequence[pd.DataFrame]
) -> pd.DataFrame:
    """The metrics of the responses of all sets together by stratum; methods with seeds are averaged over them. The
    result has the columns stratum ("level-1" and so on, "short" for responses that training would not cut, or "long"),
    method, metric, value and n (responses). Questions of unknown level are in no stratum of levels."""
    about = []
    for dataset, questions, answers in zip(layout.sets, asked, lengths, strict=True):
        levels = answers["question_id"].map(questions.set_index("question_id")["level"])
        about.append(answers.assign(dataset=dataset.name, level=levels)[["dataset", "response_id", "level", "length"]])
    told = pd.concat(about)
    rows = []
    for method in layout.methods:
        predicted = [rows_by_seed(predictions, layout, dataset.name, method) for dataset in layout.sets]
        for seed in predicted[0]:
            of_seed = pd.concat([by_seed[seed] for by_seed in predicted]).merge(
                told, on=["dataset", "response_id"], validate="1:1"
            )
            for stratum, inside in _strata(of_seed, layout.limit).items():
                part = of_seed[inside]
                confidence, valid, correct = (part[name].to_numpy() for name in ("confidence", "valid", "correct"))
                numbers = evaluate(confidence, valid, correct, layout.bins)
                rows += [(stratum, method, metric, numbers[metric], len(part)) for metric in METRICS]
    frame = pd.DataFrame(rows, columns=["stratum", "method", "metric", "value", "n"])
    means = frame.groupby(["stratum", "method", "metric", "n"], sort=False)["value"].mean(skipna=False).reset_index()
    return means[["stratum", "method", "metric", "value", "n"]]


def _strata(responses: pd.DataFrame, limit: int) -> dict[str, np.ndarray]:
    levels = {
        f"level-{level}": (responses["level"] == level).to_numpy() for level in sorted({*responses["level"]} - {0})
    }
    short = (responses["length"] <= limit).to_numpy()
    parts = levels | {_SHORT: short, _LONG: ~short}
    return {name: inside for name, inside in parts.items() if inside.any()}


def grid(numbers: pd.DataFrame, layout: Layout, **_: object) -> Grid:
    """Set the table, with a block of levels and one of lengths."""
    sizes = numbers.drop_duplicates("stratum").set_index("stratum")["n"]
    labels = {_SHORT: f"Up to {layout.limit} tokens", _LONG: "Longer"}
    strata = [
        Labelled(name=str(name), label=f"{labels.get(str(name), str(name).replace('-', ' ').capitalize())} ({size:,})")
        for name, size in sizes.items()
    ]
    of_length = [stratum for stratum in strata if stratum.name in labels]
    cells, rows = ranked_cells(numbers, case="stratum"), method_groups(layout.methods)
    blocks = ([stratum for stratum in strata if stratum not in of_length], of_length)
    return Grid(
        title=f"Confidence by level and by length, {layout.backbone_label}, step {layout.step}",
        caption=said(
            f"ECE and AUROC of the confidences in the responses of {layout.backbone_label} after {layout.step} "
            f"training steps on {SUBJECTS[MATHEMATICS]}, all sets together, by the level of the question and by the "
            "length of the response; the number of responses stands behind each.",
            layout.caption,
            f"Training cuts responses after {layout.limit} tokens, so that no companion has learnt from longer ones.",
            BOLD_AND_UNDERLINED,
        ),
        blocks=tuple(metric_block("Method", cases, CONFIDENCE_QUALITY, rows, cells) for cases in blocks if cases),
        gap="3pt",
        size="footnotesize",
    )
