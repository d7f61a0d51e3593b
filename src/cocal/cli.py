"""The command line: `cocal COMMAND --help`. Each command imports its libraries when it runs."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from cocal import __version__
from cocal.errors import ClusterError, ConfigError, ContractError, EngineError
from cocal.runtime import joblog

COMMANDS = {
    "sources": "download and verify the files of registered question sets",
    "questions": "build the question sets of a study: synthetic, registered, or from files",
    "overlap": "report the evaluation questions that also occur in the sources of training",
    "hub": "download a pinned checkpoint of the Hugging Face hub into its cache",
    "backbone": "make a base policy: pre-train a tiny one, or check an existing checkpoint",
    "import-checkpoints": "check and place checkpoints that another engine trained",
    "train": "train a policy by reinforcement learning and keep its rollouts and features",
    "slime": "train a policy with slime, and import its rollouts and checkpoints",
    "import-rollouts": "turn rollout dumps of slime, TRL or JSON lines into rollout tables",
    "replay": "extract hidden-state features of stored rollouts",
    "resample": "answer the training questions again with the final policy, for PostCal",
    "responses": "sample, verify and score evaluation responses of a checkpoint",
    "judge": "judge existing responses, by computer algebra, exact match or a language model",
    "features": "extract hidden-state features of responses",
    "prompts": "extract hidden-state features of the prompts of policy training",
    "companions": "fit companions on the rollouts and features of a policy",
    "predictions": "estimate confidences with every method",
    "latency": "time a policy and its companions on this device",
    "metrics": "compute the metric cube with bootstrap intervals",
    "checks": "refuse a study that breaks the protocol, and report what was checked",
    "exhibit": "make a table or figure of the paper",
    "document": "write one LaTeX document of all tables",
    "plan": "print jobs, GPU-hours and storage of a study before it runs",
    "slurm": "refuse a run that this SLURM cluster cannot take now, or cancel a run's jobs",
    "schema": "print the JSON schema of study files",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Expected errors (bad configuration, broken files) end with one message and status 2."""
    # OpenMP reads this when torch is loaded: waiting threads then go to sleep soon. By default they spin for
    # milliseconds, which costs a job of several threads nine tenths of its speed where other jobs use the cores.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="cocal", description="Companion Confidence Calibration")
    parser.add_argument("--version", action="version", version=f"cocal {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if name == chosen:
            module = importlib.import_module(f"cocal.commands.{name.replace('-', '_')}")
            module.add_arguments(command)
            command.set_defaults(handler=module.run)
    options = parser.parse_args(arguments)
    joblog.configure(joblog.job_name(arguments))
    try:
        options.handler(options)
    except (ClusterError, ConfigError, ContractError, EngineError) as error:
        print(f"cocal {options.command}: error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output, such as head, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
