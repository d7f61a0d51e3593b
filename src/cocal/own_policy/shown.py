"""What a notebook shows of a companion: the numbers of its card, and a reliability diagram."""

import base64
import io
from html import escape

import pandas as pd

from cocal.own_policy.about import About
from cocal.own_policy.facts import HeldOut


def html(about: About) -> str:
    """A heading, the sentences about held-out quality, and the diagram of all held-out responses, if it was kept."""
    head = f"<p><b>Companion of {escape(about.base_model.name)}</b> ({escape(about.architecture)})</p>"
    shown = about.held_out_all_steps or about.held_out
    picture = ""
    if shown is not None and shown.bins:
        data = base64.b64encode(_diagram(shown)).decode("ascii")
        picture = f'<img width="320" alt="Reliability diagram" src="data:image/png;base64,{data}">'
    return f"{head}<p>{escape(about.in_words())}</p>{picture}"


def _diagram(held_out: HeldOut) -> bytes:
    """The accuracy in each bin of confidence, above the number of responses, as a PNG."""
    from matplotlib.figure import Figure

    from cocal.drawing.bins import plot_reliability
    from cocal.drawing.style import paper_style

    with paper_style():
        figure = Figure(figsize=(2.6, 2.9), layout="constrained")
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        plot_reliability(top, bottom, pd.DataFrame([one.model_dump() for one in held_out.bins]), "#2c6fad")
        top.set(ylabel="Accuracy")
        bottom.set(ylabel="Responses", xlabel="Confidence")
        found = io.BytesIO()
        figure.savefig(found, format="png")
    return found.getvalue()
