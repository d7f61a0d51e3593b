"""All commands with their flags, as data, and the names of the functions that do their work. The module of such a
function is imported when the flags are known to be right."""

from collections.abc import Mapping

from cocal.commands.catalogue.own import OWN
from cocal.commands.catalogue.stages import STAGES
from cocal.commands.catalogue.study import STUDY
from cocal.commands.flags import Command

COMMANDS = OWN | STUDY | STAGES
_MODULES = {
    "answers": ("responses", "judge"),
    "backbone": ("backbone",),
    "checkpoints": ("hub", "import-checkpoints"),
    "companions": ("companions", "online"),
    "confidences": ("predictions", "recalibrate", "checks"),
    "decide": ("decide",),
    "evaluate": ("evaluate",),
    "exhibits": ("exhibit", "document", "landing", "spread"),
    "fit": ("fit",),
    "latency": ("latency",),
    "monitor": ("monitor",),
    "metrics": ("metrics", "compare"),
    "publish": ("publish",),
    "question_sets": ("sources", "questions", "overlap"),
    "reanalyse": ("reanalyse",),
    "rollouts": ("slime", "import-rollouts", "resample"),
    "score": ("score",),
    "serve": ("serve",),
    "states": ("features", "prompts", "replay"),
    "regimes": ("gather",),
    "study": ("plan", "trace", "digests", "replicate", "regimes", "schema", "stages", "slurm"),
    "train": ("train",),
}
"""The commands of each module of `cocal.commands`. Those of one module load the same libraries."""
_WORK = {name: f"cocal.commands.{module}" for module, names in _MODULES.items() for name in names}


def work_of(command: str) -> str:
    """The function that does the work of a command, as MODULE:NAME."""
    return f"{_WORK[command]}:run_{command.replace('-', '_')}"


def listing(commands: Mapping[str, Command]) -> str:
    """Names and summaries of commands, a line each."""
    return "\n".join(f"  {name:<20} {command.summary}" for name, command in commands.items())
