"""Stages of the workflow, from question sets to policies, their responses, confidences, metrics and exhibits."""

import argparse
from functools import partial
from pathlib import Path

from cocal.commands import flags
from cocal.commands.flags import Command, Flag, flag, output, required
from cocal.commands.outputs import Kind
from cocal_study.exhibits import MODULES


def _flags(command: str) -> list[Flag]:
    from cocal_study.stages.base import flags_of  # loads pydantic

    return flags_of(command)


def _writes(options: argparse.Namespace) -> list[Path]:
    from cocal_study.stages.base import job_of

    return job_of(options).writes()


_SUMMARIES = {
    "sources": "download and verify the files of registered question sets",
    "questions": "build the question sets of a study: synthetic, registered, or from files",
    "overlap": "report the evaluation questions that also occur in the sources of training",
    "hub": "download a pinned checkpoint of the Hugging Face hub into its cache",
    "backbone": "make a base policy: pre-train a tiny one, or check an existing checkpoint",
    "import-checkpoints": "check and place checkpoints that another engine trained",
    "train": "train a policy by reinforcement learning and keep its rollouts and features",
    "slime": "train a policy with slime, and import its rollouts and checkpoints",
    "import-rollouts": "turn rollout dumps of slime, TRL or JSON lines into rollout tables",
    "import-cost": "write what a training took that another engine ran",
    "replay": "extract hidden-state features of stored rollouts",
    "resample": "answer the training questions again with the final policy, for PostCal",
    "responses": "sample, verify and score evaluation responses of a checkpoint",
    "judge": "judge existing responses, by computer algebra, exact match or a language model",
    "features": "extract hidden-state features of responses",
    "prompts": "extract hidden-state features of the prompts of policy training",
    "companions": "fit companions on the rollouts and features of a policy",
    "online": "let companions learn from stored rollouts as if they learnt while the policy trained",
    "predictions": "estimate confidences with every method",
    "recalibrate": "let rivals of the companions learn from the same rollouts, and score responses with them",
    "latency": "time a policy and its companions on this device",
    "metrics": "compute the metric cube with bootstrap intervals",
    "checks": "refuse a study that breaks the protocol, and report what was checked",
}
"""The stages that are typed models (`cocal_study.stages`), whose fields are their flags."""
_EXHIBIT = (
    flag("exhibit NAME", f"one of: {', '.join(MODULES)}", choices=MODULES),
    flag("--input KIND=FILE", "an input file, such as metrics=FILE.nc", action="append", default=[]),
    flag("--inputs", "several files of one kind", action="append", nargs="+", default=[], metavar=("KIND", "FILE")),
    flag("--layout", "settings of what is shown: JSON text, or a YAML or JSON file; a diagram has none"),
    output(
        "--output",
        "FILE.tex for a table, FILE.pdf for a figure; its other forms are written beside it",
        Kind(beside=(".html", ".png", ".csv")),
        required=True,
    ),
    flags.OVERWRITE,
)
_DOCUMENT = (
    required("--tables FILE.tex", "tables, in order", nargs="+", type=Path),
    output("--output FILE.tex", "document to write", required=True),
    flags.OVERWRITE,
)
_LANDING = (
    flag("--layout JSON", "titles and captions: JSON text, or a YAML or JSON file", required=True),
    flag("--claims FILE.csv", "tables/claims of the study, if it has the table", nargs="*", type=Path, default=[]),
    flag("--figures FILE.png", "the figures of the layout, in its order", nargs="*", type=Path, default=[]),
    output("--output FILE.html", "page to write; beside it the verdict as text", Kind(beside=(".txt",)), required=True),
    flags.OVERWRITE,
)

STAGES = {
    **{name: Command(line, partial(_flags, name), writes=_writes) for name, line in _SUMMARIES.items()},
    "exhibit": Command("make a table or figure of the paper", _EXHIBIT),
    "document": Command("write one LaTeX document of all tables", _DOCUMENT),
    "landing": Command("write the page on which the report opens, and the verdict on the paper", _LANDING),
}
"""The stages, which the rules of the workflow call; `cocal stages` lists them."""
