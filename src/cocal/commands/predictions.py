"""`cocal predictions`: confidences of one checkpoint's evaluation responses by every method."""

import argparse
import logging
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--settings", default="{}", help="JSON: methods, missing_answer")
    parser.add_argument("--verifier", default="{}", help="JSON: bounds of the verifier")
    parser.add_argument("--datasets", required=True, help='JSON: question set -> {"samples": n, "domain": ...}')
    parser.add_argument("--pool", type=int, default=10, help="responses a question in the self-consistency pool")
    parser.add_argument("--backbone", required=True, help="name of the backbone")
    parser.add_argument("--algorithm", required=True, help="how the policy was trained; base if it was not")
    parser.add_argument("--step", required=True, type=int, help="rollout step of the checkpoint")
    parser.add_argument(
        "--methods", help="comma-separated; by default those of --settings that are evaluated on this policy"
    )
    parser.add_argument(
        "--responses",
        required=True,
        nargs="+",
        metavar="FORMAT=FOLDER",
        help="folders of {set}.parquet by prompt format: answer=FOLDER verbal=FOLDER",
    )
    parser.add_argument("--features", type=Path, help="folder of {set}.zarr, features of the answer format")
    parser.add_argument("--companions", type=Path, help="folder of fitted companions")
    parser.add_argument("--workers", type=int, default=1, help="processes that compare answers")
    parser.add_argument("--output", required=True, type=Path, help="table to write")


def run(options: argparse.Namespace) -> None:
    """Estimate and write. Torch is loaded for companions alone."""
    from cocal.config import parse_settings
    from cocal.config.protocol import Estimators
    from cocal.config.protocol import Verifier as VerifierSettings
    from cocal.estimators.predictions import predict
    from cocal.estimators.registry import METHODS
    from cocal.estimators.responses import EvaluationSets, Inputs
    from cocal.schemas import PREDICTIONS
    from cocal.store import provenance, write_frame
    from cocal.verify.equivalence import Verifier

    settings = parse_settings(Estimators, options.settings)
    bounds = parse_settings(VerifierSettings, options.verifier, "--verifier")
    sets = parse_settings(EvaluationSets, options.datasets, "--datasets")
    if options.methods:
        names = options.methods.split(",")
    else:
        names = [name for name in settings.methods if METHODS[name].policy == options.algorithm]
    cell = {"backbone": options.backbone, "algorithm": options.algorithm, "step": options.step}
    with Verifier(bounds, options.workers) as verifier:
        inputs = Inputs(settings, verifier, options.pool, options.features, _companions(options.companions))
        table = predict(names, sets, _folders(options.responses), inputs, **cell)
    slice_ = {"estimators": settings, "verifier": bounds, "datasets": sets, "pool": options.pool, "methods": names}
    write_frame(options.output, table, PREDICTIONS, provenance("predictions", slice_, **cell))
    logging.info("%s: %d rows", options.output, len(table))


def _folders(pairs: list[str]) -> dict[str, Path]:
    from cocal.errors import ConfigError

    folders = {}
    for pair in pairs:
        protocol, equals, folder = pair.partition("=")
        if not equals or protocol in folders:
            raise ConfigError(f"--responses: {pair!r} is not FORMAT=FOLDER with a format of its own")
        folders[protocol] = Path(folder)
    return folders


def _companions(path: Path | None):
    """The fitted companions, if there are any to load."""
    if path is None:
        return None
    from cocal.companion.companions import load_companions
    from cocal.runtime import fix_threads

    fix_threads()
    return load_companions(path)
