"""`cocal serve`: vLLM's server with a companion's confidence in every answer."""

import argparse
import os
import sys

from cocal.confidence import saved
from cocal.engines.states import implementation
from cocal.fitting.models import Checkpoint
from cocal.serving.choices import Shown
from cocal.serving.launch import Served, check_flags, check_vllm, command, environment


def run_serve(options: argparse.Namespace) -> None:
    """Check that the companion fits the model, and become vLLM's server."""
    served = Served(options.companion, options.target, options.abstain_below, options.abstained == "withheld")
    check_flags(options.passed_on, Shown(False, served.abstain_below, served.withhold).withholds)
    _, config, _ = saved.read(options.companion)
    served.of(config)
    checkpoint = Checkpoint.find(options.model, options.revision)
    config.check_model(checkpoint.architecture)
    config.warn_of_other(checkpoint.info)
    config.warn_of_constant()
    check_vllm()
    print(f"Companion {options.companion} of {checkpoint.name}\n\n{config.summary()}", flush=True)
    words = command(served, config, checkpoint, options.passed_on, implementation(checkpoint.folder))
    sys.stderr.flush()
    os.execve(words[0], words, environment(os.environ))
