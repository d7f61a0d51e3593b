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
os.environ.update(
    PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
)

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


def backbone_settings(wildcards):
    return canonical(STUDY.backbones[wildcards.backbone])


def response_plan(wildcards):
    return canonical(
        plan.response_plan(STUDY, wildcards.algorithm, wildcards.protocol, MATHEMATICS)
    )


def prediction_inputs(wildcards):
    cell = f"{wildcards.backbone}/{wildcards.algorithm}/step-{wildcards.step}"
    protocols = plan.protocols_of(STUDY, wildcards.algorithm)
    inputs = {
        p: expand(f"results/responses/{cell}/{p}/{{dataset}}.parquet", dataset=MATHEMATICS)
        for p in protocols
    }
    if plan.uses_companion(STUDY, wildcards.algorithm):
        inputs["features"] = expand(
            f"results/features/{cell}/answer/{{dataset}}.zarr", dataset=MATHEMATICS
        )
        inputs["companions"] = (
            f"results/companions/{wildcards.backbone}/{wildcards.algorithm}/steps-{wildcards.step}"
        )
    return inputs


def prediction_flags(wildcards):
    """Where the inputs lie, as flags of `cocal predictions`."""
    cell = f"{wildcards.backbone}/{wildcards.algorithm}/step-{wildcards.step}"
    protocols = plan.protocols_of(STUDY, wildcards.algorithm)
    flags = ["--responses", *(f"{p}=results/responses/{cell}/{p}" for p in protocols)]
    if plan.uses_companion(STUDY, wildcards.algorithm):
        flags += ["--features", f"results/features/{cell}/answer"]
        flags += ["--companions", prediction_inputs(wildcards)["companions"]]
    return flags


def prediction_settings(wildcards):
    """The estimator settings with the methods of this policy: another policy's methods do not touch its file."""
    methods = plan.methods_of(STUDY, wildcards.algorithm)
    return canonical(STUDY.estimators.model_copy(update={"methods": tuple(methods)}))
