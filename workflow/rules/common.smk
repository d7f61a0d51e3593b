# The study, and definitions that the rules of several stages share.
import os
import re
import sys
from pathlib import Path

from snakemake.logging import logger

from cocal.exhibits.base.exhibit import FigureExhibit, TableExhibit
from cocal.exhibits.base.layouts import MATHEMATICS
from cocal.exhibits.base.registry import exhibit_code, exhibits_of, report_entry
from cocal.study import online, plan, rivals
from cocal.config.load import configured_study
from cocal.config.paths import located
from cocal.config.methods import METHODS
from cocal.generation.judging.prompts import JudgePrompts
from cocal.policy.launch import train_command
from cocal.policy.objectives import PROMPT_FORMATS
from cocal.questions.prompts import Prompts
from cocal.questions.files import counted
from cocal.questions.registry import known_wrong, registry_of
from cocal.runtime import numerics
from cocal.runtime.slurm import site_of
from cocal.store.code import code_digest
from cocal.store.owner import refuse_other_study
from cocal.store.provenance import canonical, digest
from cocal.study.results import companion_folder, predictions_file

# `.venv/bin/snakemake` works without activating the environment: its `cocal` is found first. A rule's own
# environment (--sdm conda), activated later, still comes before it.
os.environ.update(
    PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
)

# A file given with --configfile is a whole study and replaces the default; --config changes single keys of either.
# Relative paths of a study start at the repository, also with --directory.
STUDY_FILE = next(iter(workflow.configfiles), Path(workflow.basedir) / "config/config.yaml")
CONFIGURED = counted(
    configured_study(workflow.configfiles or [STUDY_FILE], config), workflow.basedir
)
STUDY = located(CONFIGURED, workflow.basedir, Path.cwd())
# With these flags Snakemake neither plans nor changes results. A Snakefile learns of them only from sys.argv.
if {"--unlock", "--lint"}.isdisjoint(sys.argv):
    refuse_other_study("results", STUDY.study, STUDY_FILE)

# Without its record, which a copy of results/ may lack, Snakemake compares times alone.
if (
    workflow.is_main_process
    and any(Path("results/questions").glob("*.parquet"))
    and not any(Path(".snakemake/metadata").glob("*"))
):
    logger.warning(
        "results/ has files, but .snakemake/, the record of what made them, is missing, so a change of settings or code "
        "would rerun nothing: copy that folder too, or run everything again with --forceall."
    )

# A machine that cannot compute portable numerics computes natively. The nodes of a cluster may differ, so they refuse.
OBSTACLE = numerics.obstacle() if STUDY.numerics == "portable" and not site_of(os.environ) else ""
NUMERICS = "native" if OBSTACLE else STUDY.numerics
if OBSTACLE and workflow.is_main_process:
    logger.warning(
        f"{OBSTACLE}; this machine computes with native numerics, so its results will not be the same bytes as those "
        "of another processor."
    )
# Numerical libraries read these when they are loaded. Jobs inherit them; those of a cluster read this file again.
os.environ.update(numerics.environment(NUMERICS))

# Environments (--sdm conda) install the package of this checkout, wherever the results lie.
os.environ.setdefault("COCAL_CHECKOUT", str(workflow.basedir))

# The slice of the dataset registry that the study uses.
REGISTRY = registry_of(STUDY.question_sets.registered, STUDY.sources.registry)
# The tables and figures of the study, each with its layout and the files that it reads.
EXHIBITS = exhibits_of(
    CONFIGURED,
    known_wrong(STUDY.question_sets.registered, REGISTRY),
    os.path.relpath(workflow.basedir),
)
TABLES = [exhibit for exhibit in EXHIBITS if isinstance(exhibit, TableExhibit)]
FIGURES = [exhibit for exhibit in EXHIBITS if isinstance(exhibit, FigureExhibit)]
# These are no parameters of rules: where a verified file came from, and where it is kept, changes no result.
if STUDY.sources.mirror:
    os.environ.setdefault("COCAL_MIRROR", STUDY.sources.mirror)
os.environ.update(COCAL_SOURCES=STUDY.sources.cache)

MAIN = STUDY.main_backbone
SETS = {domain: STUDY.evaluation_sets(domain) for domain in ("mathematics", "factual")}
FINAL = STUDY.policy.steps
EARLIER_STAGES = STUDY.policy.stages[:-1]
TRAINING_SET = f"results/questions/{STUDY.policy.dataset}.parquet"


# GPUs of a job that samples. `--resources gpus=N` bounds those of all jobs at a time, where Snakemake runs them itself;
# SLURM's jobs ask for theirs in the profile. Without a GPU, the number means nothing.
SAMPLING_GPUS = getattr(STUDY.generation.engine, "tensor_parallel", 1)

PROMPTS = Prompts(STUDY.prompts)


def prompt_texts(*prompt_formats, **domain):
    """Digest of prompt texts, which is a parameter of every job that gives them to a policy."""
    return f"prompts:{PROMPTS.digest(*prompt_formats, **domain)}"


def computing(*modules):
    """The parameter `code` of a job whose results depend on the numerics of the study: the digest of its code, and these
    numerics."""
    return f"{code_digest(*modules)} {canonical({'numerics': NUMERICS})}"


wildcard_constraints:
    dataset="|".join(map(re.escape, STUDY.datasets)),
    backbone="|".join(map(re.escape, STUDY.backbones)),
    algorithm="|".join(["base", *STUDY.policy.algorithms]),
    step=r"\d+",
    prompt_format=r"[a-z_]+",


def either(names):
    """Constraint that lets a wildcard be one of these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


def samples_of(*domains):
    """JSON of the number of evaluated responses per question, by question set."""
    names = [name for domain in domains for name in SETS[domain]]
    return canonical({name: STUDY.datasets[name].samples for name in names})


def cell_of(wildcards):
    """Backbone, algorithm and step, as the functions of cocal.study.plan take them."""
    return wildcards.backbone, wildcards.algorithm, int(wildcards.step)
