# The study, its plan, and what the rules of all stages take from it.
import os
import sys
from base64 import urlsafe_b64encode
from functools import cache
from pathlib import Path

from snakemake.logging import logger

from cocal.runtime import numerics
from cocal_study.config.paths import located
from cocal_study.config.study import configured_study
from cocal_study.exhibits.base.exhibit import FigureExhibit, TableExhibit
from cocal_study.exhibits.base.registry import exhibit_parameters, exhibits_of, report_entry
from cocal_study.exhibits.typesetting.landing import landing_of
from cocal_study.planning import results
from cocal_study.provenance.code import code_digest
from cocal_study.provenance.owner import refuse_gaps, refuse_other_study
from cocal_study.questions.loaders import counted
from cocal_study.questions.prompts import JUDGE_FORMATS, Prompts, judge_prompts
from cocal_study.questions.registry import known_wrong, registry_of
from cocal_study.resources.slurm import site_of
from cocal_study.stages.jobs import either, is_folder
from cocal_study.stages.rules import Plan

# A file given with --configfile is a whole study and replaces the default; --config changes single keys of either.
# Relative paths of a study start at the repository, also with --directory.
STUDY_FILE = next(iter(workflow.configfiles), Path(workflow.basedir) / "config/config.yaml")
CONFIGURED = counted(
    configured_study(workflow.configfiles or [STUDY_FILE], config), workflow.basedir
)
STUDY = located(CONFIGURED, workflow.basedir, Path.cwd())

# A machine that cannot compute portable numerics computes natively. The nodes of a cluster may differ, so they refuse.
OBSTACLE = numerics.obstacle() if STUDY.numerics == "portable" and not site_of(os.environ) else ""
NUMERICS = "native" if OBSTACLE else STUDY.numerics
if OBSTACLE and workflow.is_main_process:
    logger.warning(
        f"{OBSTACLE}; this machine computes with native numerics, so its results will not be the same bytes as those "
        "of another processor."
    )


# The image of `make image`, with `--sdm apptainer`. Its path is relative, since Snakemake refuses one with spaces.
container: os.path.relpath(Path(workflow.basedir) / "envs/cocal.sif")


# Trainings of larger policies stand alone in the plan, and take all processors; the others share them job by job.
TRAINING_THREADS = workflow.cores if NUMERICS == "bfloat16" and not site_of(os.environ) else 1

# Snakemake compares only the time of a file without a record in .snakemake/, which a copy of results/ may lack. The
# question sets stand for all others; a record is named by the base64 of its file's path.
if workflow.is_main_process:
    recorded = {file.name for file in Path(".snakemake/metadata").glob("*")}
    if unrecorded := [
        path
        for path in Path(results.QUESTIONS).glob("*.parquet")
        if urlsafe_b64encode(str(path).encode()).decode() not in recorded
    ]:
        logger.warning(
            f"{unrecorded[0]} is there, but .snakemake/ does not say what made it, so a change of settings or code may "
            "rerun nothing: copy that folder together with results/, or run everything again with --forceall."
        )

# The only place that changes the environment. A prefix of the shell commands would be too late for all of it: conda
# reads COCAL_CHECKOUT before there is a job, and a rule's own environment (--sdm conda), activated before such a prefix,
# must find its `cocal` first. Jobs of a cluster read this file again.
os.environ.update(
    {
        # `.venv/bin/snakemake` works without activating the environment
        "PATH": os.pathsep.join(
            [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        ),
        # environments install the package of this checkout, wherever the results lie
        "COCAL_CHECKOUT": os.environ.get("COCAL_CHECKOUT", str(workflow.basedir)),
        # where a verified file came from, and where it is kept, changes no result and is no parameter of a rule
        "COCAL_MIRROR": os.environ.get("COCAL_MIRROR", STUDY.sources.mirror or ""),
        "COCAL_SOURCES": STUDY.sources.cache,
        # numerical libraries read these when they are loaded
        **numerics.environment(NUMERICS),
        # glibc would return the memory of every tensor of more than 128 KiB, and the system clear its pages for the next
        # one: 7 % of the processor time of a job that samples, 6 % of a training's
        **{
            name: os.environ.get(name, str(mebibytes * 2**20))
            for name, mebibytes in {
                "MALLOC_MMAP_THRESHOLD_": 32,
                "MALLOC_TRIM_THRESHOLD_": 256,
                "MALLOC_TOP_PAD_": 16,
            }.items()
        },
    }
)

JUDGE_TEXTS = ""
if STUDY.judge.kind == "llm":
    JUDGE_TEXTS = f"prompts:{judge_prompts(STUDY.judge.prompts).digest(*JUDGE_FORMATS)}"
# The slice of the dataset registry that the study uses, and the plan of all jobs but those of tables and figures.
REGISTRY = registry_of(STUDY.question_sets.registered, STUDY.sources.registry)
PLAN = Plan(
    STUDY,
    numerics=NUMERICS,
    prompts=Prompts(STUDY.prompts),
    registry=REGISTRY,
    judge_texts=JUDGE_TEXTS,
    scripts=f"{workflow.basedir}/workflow/scripts",
)
# The tables and figures of the study, each with its layout and the files that it reads.
EXHIBITS = exhibits_of(
    CONFIGURED,
    known_wrong(STUDY.question_sets.registered, REGISTRY),
    os.path.relpath(workflow.basedir),
)
TABLES = [exhibit for exhibit in EXHIBITS if isinstance(exhibit, TableExhibit)]
FIGURES = [exhibit for exhibit in EXHIBITS if isinstance(exhibit, FigureExhibit)]


wildcard_constraints:
    **PLAN.wildcards,


@cache
def planned(rule, *wildcards):
    """A job of a rule of the plan."""
    return PLAN.rules[rule].job(**dict(wildcards))


def printing(rule):
    """How a job's lines get into its log. A loop variable in the text of a command would be read only after the loop.
    Since the function takes the outputs, Snakemake does not count its value among the parameters, and a change of it
    reruns nothing."""
    return lambda wildcards, output: "2>&1 | tee" if rule.shown else "&>"


def inputs(rule):
    """A function from the wildcards to what a job of a rule of the plan waits for. Sources of questions have checksums,
    so their time stamps rerun nothing."""

    def files(wildcards):
        found = planned(rule.name, *wildcards.items()).inputs
        return [ancient(file) if file.startswith(f"{results.SOURCES}/") else file for file in found]

    return ours(files)


def ours(files):
    """The same function, which first refuses results of another study. It is called only when jobs are planned, so
    --unlock and --lint, which plan none, need not be of the study."""

    def of_this_study(wildcards):
        refuse_other_study("results", STUDY.study, STUDY_FILE)
        if workflow.is_main_process:
            refuse_gaps("results")
        return files(wildcards)

    return of_this_study


def exhibited(exhibit):
    """A function from the wildcards, which an exhibit has none of, to what it waits for."""
    return ours(lambda wildcards: exhibit.waits_for)


def words_of(exhibit):
    """A function from the outputs of an exhibit to the words of the command that makes it. Snakemake counts only its
    arguments, a parameter of their own."""
    return lambda wildcards, output: ["exhibit", *exhibit.arguments, "--output", output.main]


def outputs(rule):
    """What a job of a rule of the plan makes."""
    return [directory(path) if is_folder(path) else path for path in rule.paths]


def params(rule):
    """Everything except files that the result of a job depends on; a difference from the last run reruns it."""

    def of(name):
        return lambda wildcards: planned(rule.name, *wildcards.items()).parameters[name]

    return {name: of(name) for name in ("words", "code", "texts")}
