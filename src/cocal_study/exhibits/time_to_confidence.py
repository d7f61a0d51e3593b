"""Time to confidence before and after the response (appendix F.4, tab:pre_generation_latency)."""

from collections.abc import Iterator, Mapping

import pandas as pd

from cocal_study.config.study import Study
from cocal_study.exhibits.base.exhibit import Labelled, StepLayout, TableExhibit, labelled, of_main
from cocal_study.exhibits.typesetting.grid import Block, Grid
from cocal_study.exhibits.typesetting.wording import SHORT, TIMES_DIFFER, counted, ratios, said, times
from cocal_study.planning.costs import Latency
from cocal_study.planning.plan import has_methods
from cocal_study.planning.results import cost_file


class Layout(StepLayout):
    """The contents of the table, with a row for each evaluation set."""

    datasets: tuple[Labelled, ...]


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    if has_methods(study, "cocal-pre-generation", "cocal-group"):
        yield TableExhibit(
            title="Time to confidence",
            chapter="Cost",
            position=90,
            caption="The time until a confidence is known, for one question at a time, without model loading, "
            "tokenisation and warm-up (appendix F.4).",
            layout=Layout(**of_main(study), datasets=labelled(study, study.evaluation_sets("mathematics"))),
            inputs={"latency": [cost_file(study.main_backbone, "latency")]},
        )


def prepare(layout: Layout, latency: Latency) -> pd.DataFrame:
    """The times of the layout's sets, in its order. The result has the columns dataset, pre_seconds, post_seconds,
    ratio (post / pre)."""
    by_dataset = {time.dataset: (time.dataset, time.pre_ms / 1000, time.post_s) for time in latency.time_to_confidence}
    rows = [by_dataset[dataset.name] for dataset in layout.datasets]
    numbers = pd.DataFrame(rows, columns=["dataset", "pre_seconds", "post_seconds"])
    return numbers.assign(ratio=numbers["post_seconds"] / numbers["pre_seconds"])


def grid(numbers: pd.DataFrame, layout: Layout, *, latency: Latency) -> Grid:
    """Set the table; each column of times has the unit that suits its longest time."""
    pre_unit, pre = times(list(numbers["pre_seconds"]), SHORT)
    post_unit, post = times(list(numbers["post_seconds"]), SHORT)
    heads = (f"Pre ({pre_unit})", f"Post ({post_unit})", "Post/Pre")
    values = zip(pre, post, ratios(list(numbers["ratio"])), strict=True)
    lines = list(zip((dataset.label for dataset in layout.datasets), values, strict=True))
    return Grid(
        title=f"Time to confidence, {layout.backbone_label}, step {layout.step}",
        caption=said(
            f"Mean time to confidence on {counted(latency.questions, 'question')} per dataset, one at a time, using "
            f"{layout.backbone_label} after {layout.step} training steps.",
            layout.caption,
            "Pre: encoding of the prompt and prediction; post: decoding of the response as well.",
            f"Measured on {latency.device}. {TIMES_DIFFER}",
        ),
        blocks=(Block("Dataset", [heads], [("", lines)], align="r"),),
    )
