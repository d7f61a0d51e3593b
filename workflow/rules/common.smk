# The study, and what the rules of several stages share.
import os
import re
import sys
from pathlib import Path

from cocal.config import plan
from cocal.config.load import load_study, study_from_mapping
from cocal.store.provenance import canonical

# `.venv/bin/snakemake` works without activating the environment: its `cocal` is found first. A rule's own
# environment (--sdm conda), activated later, still comes before it.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

# A file given with --configfile is a whole study and replaces the default. Without one, --config changes single
# keys of the default study, e.g. --config '{"policy": {"learning_rate": 1.0e-4}}'.
if "study" in config:
    STUDY = study_from_mapping(config, ", ".join(map(str, workflow.configfiles)) or "--config")
else:
    STUDY = load_study(Path(workflow.basedir) / "config/config.yaml", config)

MATHEMATICS = STUDY.evaluation_sets("mathematics")
MACRO = {"macro-mathematics": MATHEMATICS}


wildcard_constraints:
    backbone="|".join(map(re.escape, STUDY.backbones)),
    algorithm="|".join(["base", *STUDY.policy.algorithms]),
    step=r"\d+",
    protocol=r"[a-z_]+",


def by_name(algorithm):
    """Folder, below a stage's, of an algorithm's main checkpoint."""
    return f"{algorithm}/step-{plan.checkpoint_step(STUDY, algorithm)}"


def samples_of(datasets):
    """JSON: question set -> evaluated responses a question."""
    return canonical({name: STUDY.datasets[name].samples for name in datasets})
