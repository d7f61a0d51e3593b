"""GRPO's companions on the policies of coupled methods, beside those methods' own confidence
(fig:rq3_policy_transfer).

Both are compared on the same responses, those for which both have a valid confidence: the numbers come from a cube of
`cocal metrics --common-responses`.
"""

import pandas as pd
from matplotlib.figure import Figure

from cocal.exhibits.drawing.curves import CONFIDENCE_QUALITY, TITLES, method_handles, panel_row
from cocal.exhibits.drawing.style import HALF_WIDTH
from cocal.exhibits.training_dynamics import plot_training_dynamics


def cross_policy_figure(numbers: pd.DataFrame, source: str) -> Figure:
    """A panel of the ECE and one of the AUROC.

    Args:
        numbers: what `prepare_training_dynamics` returns, of native and transferred methods on common responses.
        source: study, backbone and datasets in a few words.
    """
    figure, panels = panel_row(
        [TITLES[metric] for metric in CONFIDENCE_QUALITY],
        height=0.8,
        label="Training step",
        handles=method_handles(list(dict.fromkeys(numbers["method"]))),
        source=f"{source}\nresponses of each policy with two valid confidences\n"
        "whiskers: bootstrap interval over the questions",
        width=HALF_WIDTH,
        columns=2,
    )
    for ax, metric in zip(panels, CONFIDENCE_QUALITY, strict=True):
        plot_training_dynamics(ax, numbers[numbers["metric"] == metric])
    return figure
