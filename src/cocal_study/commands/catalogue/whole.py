"""The commands of a study, with the modules of the functions that do their work."""

from cocal_study.commands.catalogue.stages import STAGES
from cocal_study.commands.catalogue.study import STUDY

COMMANDS = STUDY | {name: command._replace(locked=True) for name, command in STAGES.items()}
_MODULES = {
    "answers": ("responses", "judge"),
    "backbone": ("backbone",),
    "checkpoints": ("hub", "import-checkpoints"),
    "companions": ("online",),
    "confidences": ("predictions", "recalibrate", "checks"),
    "exhibits": ("exhibit", "document", "landing", "spread"),
    "latency": ("latency",),
    "metrics": ("metrics", "compare"),
    "publish": ("publish",),
    "question_sets": ("sources", "questions", "overlap"),
    "reanalyse": ("reanalyse",),
    "rollouts": ("slime", "import-rollouts", "resample"),
    "states": ("features", "prompts", "replay"),
    "regimes": ("gather",),
    "study": ("plan", "trace", "digests", "replicate", "regimes", "schema", "stages", "slurm"),
    "train": ("train",),
}
"""The commands of each module. Those of one module load the same libraries."""
WORK = {
    name: f"cocal_study.commands.{module}:run_{name.replace('-', '_')}"
    for module, names in _MODULES.items()
    for name in names
}
"""The function of each command, as MODULE:NAME."""
WORK |= dict.fromkeys(COMMANDS.keys() - WORK, "cocal_study.stages.base:run_stage")
