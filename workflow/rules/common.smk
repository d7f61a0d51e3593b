# The study, and what the rules of several stages share.
import os
import re
import sys
from pathlib import Path

from cocal import plan
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
MACRO = {plan.MACRO_MATHEMATICS: MATHEMATICS}


wildcard_constraints:
    backbone="|".join(map(re.escape, STUDY.backbones)),
    algorithm="|".join(["base", *STUDY.policy.algorithms]),
    step=r"\d+",
    protocol=r"[a-z_]+",


def samples_of(datasets):
    """JSON: question set -> evaluated responses a question."""
    return canonical({name: STUDY.datasets[name].samples for name in datasets})


def backbone_settings(wildcards):
    return canonical(STUDY.backbones[wildcards.backbone])


def training_settings(wildcards):
    return canonical(STUDY.policy.for_training(wildcards.algorithm))


def response_plan(wildcards):
    cell = (wildcards.algorithm, int(wildcards.step), wildcards.protocol)
    return canonical(plan.response_plan(STUDY, *cell, MATHEMATICS))


# Folder of the companions, and of the rollouts, of each kind of experience.
EXPERIENCES = {"rollouts": "grpo", "resampled": "postcal"}


def companion_folders(wildcards, experience, steps):
    return [
        f"results/companions/{wildcards.backbone}/{EXPERIENCES[experience]}/steps-{n}"
        for n in steps
    ]


def cell_companions(wildcards):
    """Experience -> companions of a checkpoint's own step."""
    methods = plan.methods_of(STUDY, wildcards.algorithm, int(wildcards.step))
    return {
        e: companion_folders(wildcards, e, [wildcards.step]) for e in plan.experiences_of(methods)
    }


def sweep_companions(wildcards):
    """Experience -> companions of several steps, to be compared on one checkpoint's responses."""
    steps = plan.sweep_steps(STUDY, int(wildcards.step))
    return {e: companion_folders(wildcards, e, found) for e, found in steps.items()}


def answer_files(cell):
    """Responses in the answer format, and their features."""
    return {
        "answer": expand(
            f"results/responses/{cell}/answer/{{dataset}}.parquet", dataset=MATHEMATICS
        ),
        "features": expand(f"results/features/{cell}/answer/{{dataset}}.zarr", dataset=MATHEMATICS),
    }


def prediction_inputs(wildcards):
    cell = f"{wildcards.backbone}/{wildcards.algorithm}/step-{wildcards.step}"
    protocols = plan.protocols_of(STUDY, wildcards.algorithm, int(wildcards.step))
    inputs = {
        p: expand(f"results/responses/{cell}/{p}/{{dataset}}.parquet", dataset=MATHEMATICS)
        for p in protocols
    }
    companions = cell_companions(wildcards)
    return inputs | companions | (answer_files(cell) if companions else {})


def sweep_inputs(wildcards):
    return answer_files(f"{wildcards.backbone}/grpo/step-{wildcards.step}") | sweep_companions(
        wildcards
    )


def prediction_flags(wildcards, input):
    """Where the inputs lie, as flags of `cocal predictions`."""
    inputs = {name: [str(path) for path in files] for name, files in input.items()}
    companions = [f"{e}={folder}" for e in EXPERIENCES for folder in inputs.pop(e, [])]
    features = inputs.pop("features", None)
    flags = [
        "--responses",
        *(f"{protocol}={Path(files[0]).parent}" for protocol, files in inputs.items()),
    ]
    if companions:
        flags += ["--features", str(Path(features[0]).parent), "--companions", *companions]
    return flags


def prediction_settings(wildcards):
    """The estimator settings with the methods of this checkpoint: other methods do not touch its file."""
    methods = plan.methods_of(STUDY, wildcards.algorithm, int(wildcards.step))
    return canonical(STUDY.estimators.model_copy(update={"methods": tuple(methods)}))


def sweep_settings(wildcards):
    methods = plan.sweep_methods(STUDY, int(wildcards.step))
    return canonical(STUDY.estimators.model_copy(update={"methods": tuple(methods)}))


def prediction_files(cells):
    return [
        f"results/predictions/{{backbone}}/{algorithm}/step-{step}.parquet"
        for algorithm, step in cells
    ]


def check_companions(wildcards, input):
    """All companions with the kind of experience they learnt from, as `cocal checks` wants them."""
    kinds = {folder: experience for experience, folder in EXPERIENCES.items()}
    return [f"{kinds[Path(folder).parent.name]}={folder}" for folder in input.companions]


# Checkpoints on which companions of several steps are compared.
SWEPT = [step for step in STUDY.policy.stages if plan.sweep_steps(STUDY, step)]
SWEEP_FILES = [f"results/predictions/{{backbone}}/grpo/step-{step}-sweep.parquet" for step in SWEPT]


def table_step(wildcards):
    """Step of results/tables/main{stage}.tex."""
    return int(wildcards.stage.removeprefix("_step") or STUDY.policy.steps)


def table_layout(wildcards):
    return canonical(plan.main_layout(STUDY, table_step(wildcards)))


FIGURES = (
    "reliability",
    "reliability_all",
    "training_dynamics",
    "early_steps",
    "budgets",
    "composition",
)
