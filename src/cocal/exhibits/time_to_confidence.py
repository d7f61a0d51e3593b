"""Time to confidence before and after the response (appendix F.4, tab:pre_generation_latency)."""

import pandas as pd

from cocal.errors import ContractError
from cocal.exhibits.layout import TimesLayout
from cocal.exhibits.typesetting.grid import Block, Cell, Grid, Group, Head, Row
from cocal.exhibits.typesetting.numbers import SHORT, ratios, times
from cocal.exhibits.typesetting.wording import TIMES_DIFFER, counted
from cocal.study.costs import Latency


def prepare_time_to_confidence(latency: Latency, layout: TimesLayout, file: str) -> pd.DataFrame:
    """The times of the layout's sets, in its order.

    Args:
        file: that the times come from, for errors.

    Returns:
        Columns dataset, pre_seconds, post_seconds, ratio (post / pre).

    Raises:
        ContractError: if a set was not timed.
    """
    found = {time.dataset: time for time in latency.time_to_confidence}
    missing = [dataset.name for dataset in layout.datasets if dataset.name not in found]
    if missing:
        raise ContractError(
            f"{file}: no time to confidence on {missing[0]} (there are: {', '.join(found)}); measure it, or leave it "
            "out of the layout"
        )
    timed = [found[dataset.name] for dataset in layout.datasets]
    numbers = pd.DataFrame(
        {
            "dataset": [time.dataset for time in timed],
            "pre_seconds": [time.pre_ms / 1000 for time in timed],
            "post_seconds": [time.post_s for time in timed],
        }
    )
    return numbers.assign(ratio=numbers["post_seconds"] / numbers["pre_seconds"])


def time_to_confidence_grid(numbers: pd.DataFrame, layout: TimesLayout, latency: Latency, *, source: str) -> Grid:
    """The table of the prepared numbers."""
    pre_unit, pre = times(list(numbers["pre_seconds"]), SHORT)
    post_unit, post = times(list(numbers["post_seconds"]), SHORT)
    labels = [dataset.label for dataset in layout.datasets]
    lines = zip(labels, pre, post, ratios(list(numbers["ratio"])), strict=True)
    caption = (
        f"Mean time to confidence on {counted(latency.questions, 'question')} per dataset, one at a time, using "
        f"{layout.backbone_label} after {layout.step} training steps. {layout.caption} Pre: encoding of the prompt and "
        "prediction; post: decoding of the response as well. "
        f"Measured on {latency.device}. {TIMES_DIFFER}"
    )
    block = Block(
        corner="Dataset",
        heads=((Head(f"Pre ({pre_unit.name})"), Head(f"Post ({post_unit.name})"), Head("Post/Pre")),),
        groups=(Group(tuple(Row(label, tuple(map(Cell, values))) for label, *values in lines)),),
        align="r",
    )
    return Grid(
        title=f"Time to confidence, {layout.backbone_label}, step {layout.step}",
        caption=caption,
        label="time_to_confidence",
        source=source,
        blocks=(block,),
    )
