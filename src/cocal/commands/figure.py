"""`cocal figure NAME`: draw a figure of the paper."""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from cocal.exhibits.layout import BackboneLayout, CurvesLayout, LayersLayout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command a figure."""
    figures = parser.add_subparsers(dest="figure", required=True, metavar="NAME")

    def figure(name: str, text: str, layout: str, write: Callable) -> argparse.ArgumentParser:
        one = figures.add_parser(name, help=text)
        one.add_argument("--layout", required=True, help=f"{layout}: JSON text, or a YAML or JSON file")
        one.add_argument(
            "--output", required=True, metavar="FILE.pdf", help="figure to write; .png and .csv go beside it"
        )
        one.set_defaults(write=write)
        return one

    for name, text in (
        ("reliability", "reliability diagrams with counts"),
        ("reliability_all", "the same of all evaluation sets"),
    ):
        one = figure(name, text, "ReliabilityLayout", _write_reliability)
        one.add_argument("--predictions", nargs="+", required=True, metavar="FILE", help="Parquet files or folders")
        one.add_argument("--step", type=int, required=True, help="policy step shown")
    cube = "metric cube of `cocal metrics`"
    for name, text, write in (
        ("training_dynamics", "metrics over the stages of training", _write_training_dynamics),
        ("cross_policy", "GRPO's companions on RLCR's and DCPO's policies", _write_cross_policy),
    ):
        one = figure(name, text, "CurvesLayout", write)
        over = " --common-responses" if name == "cross_policy" else ""
        one.add_argument("--metrics", required=True, metavar="FILE.nc", help=cube + over)
    one = figure(
        "cross_iteration", "companions of each stage on each stage's policy", "CurvesLayout", _write_cross_iteration
    )
    one.add_argument("--metrics", required=True, metavar="FILE.nc", help=f"{cube} over source steps")

    def sweep(name: str, text: str, write: Callable) -> argparse.ArgumentParser:
        one = figure(name, text, "CurvesLayout", write)
        one.add_argument("--metrics", required=True, metavar="FILE.nc", help=f"{cube} over source steps")
        one.add_argument("--step", type=int, required=True, help="step of the policy whose responses are scored")
        return one

    sweep("early_steps", "confidence quality of companions of the first rollout steps", _write_early_steps)
    sweep("budgets", "confidence quality of CoCal and PostCal at matched budgets", _write_budgets)
    one = sweep("composition", "errors in the training responses, and mean confidence", _write_composition)
    one.add_argument(
        "--companions", nargs="+", required=True, metavar="DIR", help="output folders of `cocal companions`"
    )
    one = figure("layers", "confidence quality by extraction layer", "LayersLayout", _write_layers)
    one.add_argument(
        "--metrics",
        nargs="+",
        required=True,
        metavar="FILE.nc",
        help=f"{cube} over layers and poolings, a backbone each",
    )
    for name, text, write in (
        ("paradigms", "diagram: post-hoc calibration, coupled concurrent training and CoCal", _write_paradigms),
        ("overview", "diagram: how CoCal learns and is used", _write_overview),
    ):
        one = figures.add_parser(name, help=text)
        one.add_argument("--output", required=True, metavar="FILE.pdf", help="figure to write; .png goes beside it")
        one.set_defaults(write=write)


def run(options: argparse.Namespace) -> None:
    """Draw the figure that was named."""
    import logging

    from cocal.errors import ConfigError

    if not options.output.endswith(".pdf"):
        raise ConfigError(f"--output: {options.output} must end in .pdf; the other files are written beside it")
    for library in ("fontTools", "matplotlib"):  # they log every glyph at INFO
        logging.getLogger(library).setLevel(logging.WARNING)
    options.write(options)


def _write_reliability(options: argparse.Namespace) -> None:
    import pandas as pd

    from cocal.config import parse_settings
    from cocal.exhibits.layout import ReliabilityLayout
    from cocal.exhibits.reliability import prepare_reliability, reliability_figure
    from cocal.store import read_frame
    from cocal.store.contracts import PREDICTIONS

    layout = parse_settings(ReliabilityLayout, options.layout, "--layout")
    predictions = pd.concat([read_frame(path, PREDICTIONS) for path in options.predictions], ignore_index=True)
    numbers = prepare_reliability(
        predictions,
        backbone=layout.backbone,
        step=options.step,
        datasets=[dataset.name for dataset in layout.datasets],
        methods=layout.methods,
        seed=layout.seed,
        bins=layout.bins,
    )
    source = f"{layout.study} study, {layout.backbone_label}, step {options.step}"
    _save(options, layout, numbers, lambda: reliability_figure(numbers, layout.datasets, source))


def _write_training_dynamics(options: argparse.Namespace) -> None:
    from cocal.exhibits.training_dynamics import training_dynamics_figure
    from cocal.metrics.calibration import METRICS

    _write_stages(options, METRICS, training_dynamics_figure)


def _write_cross_policy(options: argparse.Namespace) -> None:
    from cocal.exhibits.cross_policy import cross_policy_figure
    from cocal.exhibits.drawing.curves import CONFIDENCE_QUALITY

    _write_stages(options, CONFIDENCE_QUALITY, cross_policy_figure)


def _write_stages(
    options: argparse.Namespace, metrics: Sequence[str], draw: "Callable[[pd.DataFrame, str], Figure]"
) -> None:
    from cocal.exhibits.training_dynamics import prepare_training_dynamics

    def prepare(cube: "xr.Dataset", layout: "CurvesLayout") -> "pd.DataFrame":
        return prepare_training_dynamics(
            cube,
            backbone=layout.backbone,
            macro=layout.macro,
            methods=layout.methods,
            stages=layout.steps,
            metrics=metrics,
        )

    _write_curves(options, prepare, draw)


def _write_cross_iteration(options: argparse.Namespace) -> None:
    from cocal.errors import ConfigError
    from cocal.exhibits.cross_iteration import cross_iteration_figure, prepare_cross_iteration

    def prepare(cube: "xr.Dataset", layout: "CurvesLayout") -> "pd.DataFrame":
        if len(layout.methods) > 1:
            raise ConfigError(f"--layout: methods: this figure shows one method, not {', '.join(layout.methods)}")
        return prepare_cross_iteration(
            cube, backbone=layout.backbone, macro=layout.macro, method=layout.methods[0], stages=layout.steps
        )

    _write_curves(options, prepare, cross_iteration_figure)


def _write_early_steps(options: argparse.Namespace) -> None:
    _write_prefixes(options, "Rollout steps learnt from")


def _write_budgets(options: argparse.Namespace) -> None:
    _write_prefixes(options, "Matched budget (rollout steps)")


def _write_prefixes(options: argparse.Namespace, label: str) -> None:
    from cocal.exhibits.drawing.prefixes import prefixes_figure, prepare_prefixes

    def prepare(cube: "xr.Dataset", layout: "CurvesLayout") -> "pd.DataFrame":
        return prepare_prefixes(
            cube,
            backbone=layout.backbone,
            step=options.step,
            macro=layout.macro,
            methods=layout.methods,
            source_steps=layout.steps,
        )

    _write_curves(options, prepare, lambda numbers, source: prefixes_figure(numbers, source, label))


def _write_composition(options: argparse.Namespace) -> None:
    from cocal.exhibits.composition import composition_figure, prepare_composition, read_error_shares

    shares = read_error_shares(options.companions)

    def prepare(cube: "xr.Dataset", layout: "CurvesLayout") -> "pd.DataFrame":
        return prepare_composition(
            cube,
            shares,
            backbone=layout.backbone,
            step=options.step,
            macro=layout.macro,
            methods=layout.methods,
            budgets=layout.steps,
        )

    _write_curves(options, prepare, composition_figure)


def _write_layers(options: argparse.Namespace) -> None:
    from cocal.config import parse_settings
    from cocal.exhibits.layers import layers_figure, prepare_layers
    from cocal.exhibits.layout import LayersLayout
    from cocal.store import read_dataset

    layout = parse_settings(LayersLayout, options.layout, "--layout")
    numbers = prepare_layers(
        [read_dataset(path) for path in options.metrics],
        backbones=layout.backbones,
        step=layout.step,
        macro=layout.macro,
        method=layout.method,
        pooling=layout.pooling,
    )
    _save(options, layout, numbers, lambda: layers_figure(numbers, layout.backbones, _source(options, layout)))


def _write_paradigms(options: argparse.Namespace) -> None:
    from cocal.exhibits.paradigms import paradigms_figure

    _write_diagram(options, paradigms_figure)


def _write_overview(options: argparse.Namespace) -> None:
    from cocal.exhibits.overview import overview_figure

    _write_diagram(options, overview_figure)


def _write_diagram(options: argparse.Namespace, draw: "Callable[[], Figure]") -> None:
    import logging
    from pathlib import Path

    from cocal.exhibits.drawing.style import paper_style, save_figure

    with paper_style():
        save_figure(draw(), Path(options.output), {"diagram": options.figure})
    logging.getLogger(__name__).info("figure %s: wrote %s and .png", options.figure, options.output)


def _write_curves(
    options: argparse.Namespace,
    prepare: "Callable[[xr.Dataset, CurvesLayout], pd.DataFrame]",
    draw: "Callable[[pd.DataFrame, str], Figure]",
) -> None:
    """Prepare the numbers of a metric cube, draw and save them."""
    from cocal.config import parse_settings
    from cocal.exhibits.layout import CurvesLayout
    from cocal.store import read_dataset

    layout = parse_settings(CurvesLayout, options.layout, "--layout")
    numbers = prepare(read_dataset(options.metrics), layout)
    _save(options, layout, numbers, lambda: draw(numbers, _source(options, layout)))


def _source(options: argparse.Namespace, layout: "CurvesLayout | LayersLayout") -> str:
    """Where the numbers of a macro average come from, for the small print."""
    step = _step(options, layout)
    policy = "" if step is None else f"step-{step} policy, "
    return f"{layout.study} study, {layout.backbone_label}, {policy}{layout.macro_label}"


def _step(options: argparse.Namespace, layout: "BackboneLayout | LayersLayout") -> int | None:
    """The one policy step shown, if it is one."""
    return getattr(options, "step", getattr(layout, "step", None))


def _save(
    options: argparse.Namespace,
    layout: "BackboneLayout | LayersLayout",
    numbers: "pd.DataFrame",
    draw: "Callable[[], Figure]",
) -> None:
    """Write the figure, and its numbers beside it."""
    import logging
    from pathlib import Path

    from cocal.exhibits.drawing.style import paper_style, save_figure
    from cocal.metrics.shown import csv_text
    from cocal.store import digest, write_text

    output = Path(options.output)
    step = {} if (one := _step(options, layout)) is None else {"step": one}
    facts = {
        "study": layout.study,
        "measured": layout.caption,
        "backbone": layout.backbone_label,
        **{key: str(value) for key, value in step.items()},
        "digest": digest({"layout": layout, **step}),
    }
    with paper_style():
        save_figure(draw(), output, facts)
    write_text(output.with_suffix(".csv"), csv_text(numbers))
    logging.getLogger(__name__).info("figure %s: wrote %s, .png and .csv", options.figure, output)
