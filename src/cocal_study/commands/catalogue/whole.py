"""The commands of a study, with the modules of the functions that do their work."""

from cocal_study.commands.catalogue.stages import STAGES
from cocal_study.commands.catalogue.study import STUDY

COMMANDS = STUDY | {name: command._replace(locked=True) for name, command in STAGES.items()}
_MODULES = {
    "compare": ("compare", "try"),
    "exhibits": ("exhibit", "document", "landing"),
    "gather": ("gather", "spread"),
    "study": ("trace", "digests", "replicate", "regimes", "schema", "stages", "slurm", "unpack"),
} | {name: (name,) for name in ("publish", "reanalyse")}
"""The commands of each module. Those of one module load the same libraries."""
_WORK = {name: f"{module}:run_{name}" for module, names in _MODULES.items() for name in names}
WORK = {
    name: f"cocal_study.commands.{_WORK[name]}" if name in _WORK else "cocal_study.stages.base:run_stage"
    for name in COMMANDS
}
"""The function of each command, as MODULE:NAME."""
