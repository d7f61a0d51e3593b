"""`cocal checks`: refuse a study that breaks the protocol, and report what was checked."""

import argparse
import logging
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--settings", help="JSON: settings of companions (default: the paper's)")
    parser.add_argument("--prompt-settings", help="JSON: settings of companions that learnt from prompts")
    parser.add_argument("--ablation-settings", help="JSON: settings of companions that read other states")
    parser.add_argument("--quality", help="JSON: the smallest shares of usable responses that are accepted")
    parser.add_argument("--backbone", required=True, help="name of the backbone")
    parser.add_argument("--rollouts", required=True, type=Path, help="folder of rollout tables")
    parser.add_argument("--resampled", type=Path, help="folder of PostCal's resampled responses, if there is one")
    parser.add_argument("--questions", required=True, type=Path, help="whole training set, with validation questions")
    parser.add_argument(
        "--companions",
        required=True,
        nargs="+",
        metavar="EXPERIENCE=FOLDER",
        help="folders of fitted companions: rollouts=FOLDER (CoCal), resampled=FOLDER (PostCal), prompts=FOLDER, "
        "ablations=FOLDER (on rollouts)",
    )
    parser.add_argument("--predictions", required=True, nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--output", required=True, type=Path, help="JSON report of what each check looked at")


def run(options: argparse.Namespace) -> None:
    """Read the inputs, check the protocol, and write the report."""
    import json

    from cocal.checks.companions import Fit
    from cocal.checks.predictions import read_predictions
    from cocal.checks.report import check_protocol
    from cocal.checks.tables import read_table
    from cocal.commands.flags import named_folders
    from cocal.companion.spec import ORDERS
    from cocal.companion.supervision import prompts_of, question_texts
    from cocal.config import parse_settings
    from cocal.config.evaluation import CompanionSettings, QualitySettings
    from cocal.store import provenance, write_text

    settings = parse_settings(CompanionSettings, options.settings)
    kinds = dict.fromkeys(ORDERS, settings)
    kinds["prompts"] = parse_settings(CompanionSettings, options.prompt_settings, "--prompt-settings")
    kinds["ablations"] = parse_settings(CompanionSettings, options.ablation_settings, "--ablation-settings")
    companions = named_folders("--companions", options.companions, list(kinds))
    folders = {"rollouts": options.rollouts, "resampled": options.resampled}
    tables = {name: read_table(path, options.questions) for name, path in folders.items() if path}
    if "prompts" in companions:
        tables["prompts"] = prompts_of(tables["rollouts"])
    fits = [
        Fit.read("rollouts" if kind == "ablations" else kind, kinds[kind], folder)
        for kind, given in companions.items()
        for folder in given
    ]
    predictions = {path: read_predictions(path, options.backbone) for path in options.predictions}
    quality = parse_settings(QualitySettings, options.quality, "--quality")
    checks = check_protocol(settings, tables, question_texts(options.questions), fits, predictions, quality)
    depends_on = {"companion": settings, "quality": quality}
    report = {"checks": checks, "provenance": provenance("checks", depends_on, backbone=options.backbone)}
    write_text(options.output, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    logging.info("%s: %d checks of %d fits and %d files hold", options.output, len(checks), len(fits), len(predictions))
