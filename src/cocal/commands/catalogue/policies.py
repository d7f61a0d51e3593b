"""Stages of the workflow from question sets to policies and their rollouts."""

import argparse
from pathlib import Path

from cocal.commands import flags
from cocal.commands.flags import Command, flag, output, required, several
from cocal.commands.outputs import FOLDER, STEPS, Kind


def _tables(options: argparse.Namespace) -> list[Path]:
    """The tables of `cocal questions`; another job may write those of other sets into the same folder."""
    from cocal.config import parse_settings
    from cocal.config.data import QuestionSetsSettings  # loads pydantic

    datasets = parse_settings(QuestionSetsSettings, options.settings).datasets
    return [options.output / f"{name}.parquet" for name in datasets]


_SETS = required("--settings", "JSON: datasets (by name), world, seed, overlap")
_SOURCES = (
    flag("--registry", "YAML file of the registry, or a part of it as JSON", default="config/datasets.yaml"),
    flag("--sets NAME", "registered names (default: all)", nargs="+"),
    flags.CACHE,
    flag(
        "--mirror",
        "address that replaces the hosts: http(s)://... or file:///folder (default: the variable COCAL_MIRROR)",
        variable="COCAL_MIRROR",
    ),
    output("--output", "JSON report of the files and their checksums"),
)
_QUESTIONS = (
    _SETS,
    flag("--registry", "JSON or YAML file of the dataset registry, if a set is registered (config/datasets.yaml)"),
    flags.CACHE,
    several(
        "--others FILE.parquet",
        "sets that are already built; their questions are not drawn again, and training sets are compared with the "
        "evaluation sets among them",
        type=Path,
    ),
    output("--output", "folder for one .parquet per set", Kind(folder=True, entries="*.parquet"), required=True),
)
_OVERLAP = (
    _SETS,
    flag("--registry", "JSON or YAML file of the dataset registry, if a set is registered"),
    flags.CACHE,
    required("--questions", "folder of the built question sets", type=Path),
    output("--output", "CSV file with one row per pair of questions", required=True),
)
_HUB = (
    required("--name", "owner/name on the hub"),
    required("--revision", "commit of the checkpoint"),
    output("--output", "JSON file to write when the checkpoint is there", required=True),
)
_BACKBONE = (
    required("--settings", "JSON: settings of the backbone"),
    flag("--name", "name of the backbone, which its policies and their products must share"),
    several("--questions", "question sets to hold out of the corpus", type=Path),
    flag("--prompts SET", "prompt set of the corpus, needed to pre-train"),
    flag("--world", "JSON: settings of the facts world", default="{}"),
    flag("--seed", "seed of the facts world", type=flags.SEED, default=42),
    output("--output", "checkpoint folder", FOLDER, required=True),
)
_SETTINGS_OF_BACKBONE = required("--backbone", "JSON: the backbone's settings")
_IMPORT_CHECKPOINTS = (
    _SETTINGS_OF_BACKBONE,
    flag("--algorithm", "algorithm that trained them (default: grpo)", default="grpo"),
    required("--base", "base policy, whose vocabulary the stages must have", type=Path),
    required("--stages STEP=FOLDER", "checkpoint of each stage", nargs="+"),
    output("--output", "folder for step-N checkpoints", STEPS, required=True),
)
_TRAIN = (
    *flags.TRAINING,
    flag("--features", "JSON: layers and dtype of the live features", default="{}"),
    output("--output-features", "feature store of the rollouts, for companions", FOLDER),
    flag(
        "--online JSON",
        "companions that learn from each rollout step inside the training, for which no feature store is needed: their "
        "settings and the window of steps, such as '{}' or '{\"window\": 10}'",
    ),
    output("--output-online", "folder for these companions and their scores on each step", FOLDER),
)
_SLIME = (
    *flags.TRAINING,
    required("--backbone-name", "name of the backbone in policy.slime.torch_dist"),
    _SETTINGS_OF_BACKBONE,
    flag("--per-node", "script that joins several nodes by Ray", default=""),
)
_IMPORT_ROLLOUTS = (
    required("--settings", "JSON: the policy training that made the rollouts"),
    flags.TRAINED_BY,
    flags.VERIFIER,
    required("--format", choices=["slime", "trl", "jsonl"]),
    required("--dumps", "folder of dumps, one file per step", type=Path),
    required("--questions", "training set", type=Path),
    required("--policy", "checkpoint of the tokenizer and vocabulary", type=Path),
    flag(
        "--correctness",
        "what decides which responses are correct: our verifier, or the reward of the dumps",
        default="verifier",
        choices=["verifier", "reward"],
    ),
    flag("--reward-key", "name of the reward where dumps have several", default="reward"),
    flag(
        "--tokenise SET",
        "prompt set for tokenising dumps that have only text; the ids may differ from those that were sampled",
    ),
    flag("--features", "JSON: batch_tokens, for log-probabilities that dumps lack", default="{}"),
    *flags.READERS,
    flags.RUN_FOLDER,
    output("--output", "folder for the tables, one per step", FOLDER, required=True),
)
_RESAMPLE = (
    flag("--settings", "JSON: sampling settings of PostCal", default="{}"),
    required("--policy", "JSON: the policy training whose questions are repeated"),
    flag("--features", "JSON: layers and dtype", default="{}"),
    flags.VERIFIER,
    flag("--engine", "JSON: engine that samples", default='{"kind":"transformers"}'),
    required("--checkpoint", "final policy", type=Path),
    flags.BACKBONE,
    required("--questions", "training set", type=Path),
    flag(
        "--like FOLDER",
        "rollouts whose questions are repeated, step by step; by default those of the schedule of --policy",
        type=Path,
    ),
    flags.PROMPTS,
    flags.RUN_FOLDER,
    output("--rollouts", "folder for the response tables, one per step", FOLDER, required=True),
    output("--output-features", "feature store of the responses", FOLDER, required=True),
    output("--cost", "JSON file for the time of the sampling alone"),
)

POLICIES = {
    "sources": Command("download and verify the files of registered question sets", _SOURCES),
    "questions": Command(
        "build the question sets of a study: synthetic, registered, or from files", _QUESTIONS, writes=_tables
    ),
    "overlap": Command("report the evaluation questions that also occur in the sources of training", _OVERLAP),
    "hub": Command("download a pinned checkpoint of the Hugging Face hub into its cache", _HUB),
    "backbone": Command("make a base policy: pre-train a tiny one, or check an existing checkpoint", _BACKBONE),
    "import-checkpoints": Command("check and place checkpoints that another engine trained", _IMPORT_CHECKPOINTS),
    "train": Command("train a policy by reinforcement learning and keep its rollouts and features", _TRAIN),
    "slime": Command("train a policy with slime, and import its rollouts and checkpoints", _SLIME),
    "import-rollouts": Command("turn rollout dumps of slime, TRL or JSON lines into rollout tables", _IMPORT_ROLLOUTS),
    "replay": Command(
        "extract hidden-state features of stored rollouts",
        (flags.FEATURES, flags.ROLLOUTS, *flags.READERS, flags.RUN_FOLDER, flags.STORE),
    ),
    "resample": Command("answer the training questions again with the final policy, for PostCal", _RESAMPLE),
}
