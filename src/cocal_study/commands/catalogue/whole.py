"""The commands of a study, with the modules of the functions that do their work."""

from cocal_study.commands.catalogue.stages import STAGES
from cocal_study.commands.catalogue.study import STUDY

COMMANDS = STUDY | {name: command._replace(locked=True) for name, command in STAGES.items()}
_MODULES = {
    "answers": ("responses", "judge"),
    "backbone": ("backbone",),
    "checkpoints": ("hub", "import-checkpoints"),
    "companions": ("companions", "online"),
    "confidences": ("predictions", "recalibrate", "checks"),
    "exhibits": ("exhibit", "document", "landing", "spread"),
    "latency": ("latency",),
    "fits": ("fits",),
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
MODULES = {name: f"cocal_study.commands.{module}" for module, names in _MODULES.items() for name in names}
