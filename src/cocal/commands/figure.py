"""`cocal figure NAME`: draw a figure of the paper."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command a figure."""
    figures = parser.add_subparsers(dest="figure", required=True, metavar="NAME")
    reliability = figures.add_parser("reliability", help="reliability diagrams with counts")
    reliability.add_argument("--predictions", nargs="+", required=True, metavar="FILE", help="Parquet files or folders")
    reliability.add_argument("--layout", required=True, help="ReliabilityLayout: JSON text, or a YAML or JSON file")
    reliability.add_argument("--step", type=int, required=True, help="policy step shown")
    reliability.add_argument(
        "--output", required=True, metavar="FILE.pdf", help="figure to write; .png and .csv go beside it"
    )
    reliability.set_defaults(write=_write_reliability)


def run(options: argparse.Namespace) -> None:
    """Draw the figure that was named."""
    import logging

    for library in ("fontTools", "matplotlib"):  # they log every glyph at INFO
        logging.getLogger(library).setLevel(logging.WARNING)
    options.write(options)


def _write_reliability(options: argparse.Namespace) -> None:
    import logging
    from pathlib import Path

    import pandas as pd

    from cocal.config import parse_settings
    from cocal.config.layout import ReliabilityLayout
    from cocal.errors import ConfigError
    from cocal.figures.reliability import prepare_reliability, reliability_figure
    from cocal.figures.style import paper_style, save_figure
    from cocal.schemas import PREDICTIONS
    from cocal.store import digest, read_frame, write_text

    output = Path(options.output)
    if output.suffix != ".pdf":
        raise ConfigError(f"--output: {output} must end in .pdf; .png and .csv are written beside it")
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
    facts = {
        "study": layout.study,
        "measured": layout.caption,
        "backbone": layout.backbone_label,
        "step": str(options.step),
        "digest": digest({"layout": layout, "step": options.step}),
    }
    with paper_style():
        save_figure(reliability_figure(numbers, layout.datasets, source), output, facts)
    csv = numbers.to_csv(index=False, float_format="%.12g", na_rep="NaN", lineterminator="\n")
    write_text(output.with_suffix(".csv"), csv)
    logging.getLogger(__name__).info("figure reliability: wrote %s, .png and .csv", output)
