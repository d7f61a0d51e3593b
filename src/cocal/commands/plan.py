"""`cocal plan`: print jobs, GPU-hours, storage and GPU memory of a study by stage, before anything is submitted."""

import argparse
from pathlib import Path

from cocal.config import load_study, parse_settings
from cocal.questions.files import counted
from cocal.resources.estimate import Assumptions
from cocal.resources.forecast import assumptions_listed, forecast, jobs_left, outlook
from cocal.store.owner import owner_of


def run(options: argparse.Namespace) -> None:
    """Count the jobs left with a dry-run, estimate hours and storage from the configuration, and print both."""
    study = counted(load_study(options.study))
    beside = Path("studies") / study.study
    here = not beside.exists() and owner_of("results") in (None, study.study)
    directory = options.directory or (Path() if here else beside)
    assumed = parse_settings(Assumptions, options.assumptions, "--assumptions")
    lines = forecast(study, assumed, jobs_left(options.snakefile, options.study, directory))
    print(f"{options.study}: {study.study}", *lines, sep="\n")
    if elsewhere := outlook(study, lambda card: counted(load_study(options.study, {"card": card})), assumed):
        print(
            "\nOn GPUs of one kind each, with the settings of the card that fits it; a training takes the time of its"
        )
        print("sampling and its passes there, since the paper does not say on which GPUs its hours were taken:")
        print(*elsewhere, sep="\n")
    print(f"\nJobs: those left to do in {directory.absolute()}. Hours and storage: the complete study, estimated from")
    print(*assumptions_listed(assumed), sep="\n")
