"""Stages of the workflow, from question sets to policies, their responses, confidences, metrics and exhibits."""

import argparse
import json
from pathlib import Path

from cocal.commands import flags
from cocal.commands.flags import Command, flag, output, required, several
from cocal.commands.outputs import FOLDER, STEPS, Kind
from cocal_study.commands import stage_flags
from cocal_study.exhibits import MODULES


def _tables(options: argparse.Namespace) -> list[Path]:
    """The tables of `cocal questions`; another job may write those of other sets into the same folder."""
    from cocal_study.config import parse_settings
    from cocal_study.config.data import QuestionSetsSettings  # loads pydantic

    datasets = parse_settings(QuestionSetsSettings, options.settings).datasets
    return [options.output / f"{name}.parquet" for name in datasets]


def _stores(options: argparse.Namespace) -> list[Path]:
    """The stores of `cocal features`; another job may write those of other sets into the same folder."""
    return [options.output / f"{name}.zarr" for name in json.loads(options.samples)]


_SETS = required("--settings", "JSON: datasets (by name), world, seed, overlap")
_SOURCES = (
    flag("--registry", "YAML file of the registry, or a part of it as JSON", default="config/datasets.yaml"),
    flag("--sets NAME", "registered names (default: all)", nargs="+"),
    stage_flags.CACHE,
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
    stage_flags.CACHE,
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
    stage_flags.CACHE,
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
    *stage_flags.TRAINING,
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
    *stage_flags.TRAINING,
    required("--backbone-name", "name of the backbone in policy.slime.torch_dist"),
    _SETTINGS_OF_BACKBONE,
    flag("--per-node", "script that joins several nodes by Ray", default=""),
)
_IMPORT_ROLLOUTS = (
    required("--settings", "JSON: the policy training that made the rollouts"),
    stage_flags.TRAINED_BY,
    stage_flags.VERIFIER,
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
    *stage_flags.READERS,
    stage_flags.RUN_FOLDER,
    output("--output", "folder for the tables, one per step", FOLDER, required=True),
)
_RESAMPLE = (
    flag("--settings", "JSON: sampling settings of PostCal", default="{}"),
    required("--policy", "JSON: the policy training whose questions are repeated"),
    flag("--features", "JSON: layers and dtype", default="{}"),
    stage_flags.VERIFIER,
    flag("--engine", "JSON: engine that samples", default='{"kind":"transformers"}'),
    required("--checkpoint", "final policy", type=Path),
    stage_flags.BACKBONE,
    required("--questions", "training set", type=Path),
    flag(
        "--like FOLDER",
        "rollouts whose questions are repeated, step by step; by default those of the schedule of --policy",
        type=Path,
    ),
    stage_flags.PROMPTS,
    stage_flags.RUN_FOLDER,
    output("--rollouts", "folder for the response tables, one per step", FOLDER, required=True),
    output("--output-features", "feature store of the responses", FOLDER, required=True),
    output("--cost", "JSON file for the time of the sampling alone"),
)

_RESPONSES = (
    flag("--settings", "JSON: sampling parameters", default="{}"),
    *stage_flags.JUDGE,
    required("--plan", "JSON: question sets, number and length of responses"),
    required("--prompt-format", "prompt format: answer, verbal, ..."),
    required("--questions", "folder of question sets", type=Path),
    required("--checkpoint", "policy to sample from", type=Path),
    *stage_flags.CELL,
    stage_flags.PROMPTS,
    flag("--features", "JSON: layers and dtype of the states that vLLM keeps (default: none)"),
    *stage_flags.READ,
    stage_flags.RUN_FOLDER,
    output("--output", "folder for {set}.parquet", Kind(folder=True, entries="*.parquet"), required=True),
    output("--output-kept", "folder for the states, {set}.zarr", FOLDER),
)
_JUDGE = (
    *stage_flags.JUDGE,
    required("--questions", "question set that was answered (.parquet)", type=Path),
    required("--responses", "table of responses; verdicts in it are ignored", type=Path),
    flag("--pool", "also compare the answers to each question, for self-consistency", action="store_true"),
    output("--output", "table to write", required=True),
)
_FEATURES = (
    stage_flags.FEATURES,
    stage_flags.SAMPLES,
    required("--responses", "folder that holds {set}.parquet", type=Path),
    required("--checkpoint", "policy that produced the responses", type=Path),
    flag("--kept FOLDER", "states that vLLM kept of these responses; no pass is made", type=Path),
    *stage_flags.READ,
    output("--output", "folder for {set}.zarr", Kind(folder=True, entries="*.zarr"), required=True),
)
_COMPANIONS = (
    *stage_flags.LEARNT,
    required(
        "--steps N[/M]",
        "each word makes one fit, which trains on rollout steps 1 to N and chooses its best pass by validation on "
        "steps 1 to M (default: N)",
        nargs="+",
    ),
    flag("--order", choices=["chronological", "shuffled"], default="chronological"),
    flag("--shuffle-seed", "seed of the order; needed by --order shuffled", type=flags.SEED),
    flag(
        "--states LAYER/POOLINGS",
        "each word makes one fit and names a zero-based block index and its pooled states in order, such as "
        "0/last+mean (default: last+mean of the deepest block stored)",
        nargs="+",
    ),
    flag("--prompts", "the features belong to prompts, with one row per group of rollouts", action="store_true"),
    flag(
        "--memory GIB",
        "memory for features, on the GPU if there is one; features that do not fit are read again in every pass, with "
        "the same result (default: 5, or half of the GPU's free memory)",
        type=flags.AMOUNT,
    ),
    output("--cost FILE.json", "file for the time of the last fit (longest prefix, last states)"),
    output(
        "--output",
        "folder for steps-N and steps-N-validation-M, each with weights, history and spec; with --states, for "
        "LAYER/POOLINGS/steps-N",
        FOLDER,
        required=True,
    ),
)
_ONLINE = (
    *stage_flags.LEARNT,
    required("--steps", "number of rollout steps", type=flags.COUNT),
    flag(
        "--windows STEPS",
        "numbers of the last rollout steps that are learnt from with every new one; each makes companions of its own "
        "(default: 1)",
        nargs="+",
        type=flags.COUNT,
        default=[1],
    ),
    flag("--stages STEP", "steps after which companions are kept", nargs="*", type=flags.COUNT, default=[]),
    flag(
        "--replayed FOLDER",
        "companions that `cocal companions` has fitted on the first steps, to be scored on the step that follows",
        nargs="*",
        type=Path,
        default=[],
    ),
    flag("--bins", "bins of the calibration error (default: 10)", type=flags.COUNT, default=10),
    output("--output-companions", "folder for window-W/steps-N", FOLDER, required=True),
    output("--output", "table of the scores of every step (Parquet)", required=True),
)
_PREDICTIONS = (
    flag("--settings", "JSON: methods, missing_answer", default="{}"),
    stage_flags.SAMPLES,
    stage_flags.POOL,
    *stage_flags.CELL,
    flag("--methods", "comma-separated names (default: those of --settings that are evaluated on this policy)"),
    required(
        "--responses FORMAT=FOLDER",
        "one folder of {set}.parquet per prompt format: answer=FOLDER verbal=FOLDER",
        nargs="+",
    ),
    several("--features FORMAT=FOLDER", "one folder of {set}.zarr per prompt format"),
    several(
        "--companions EXPERIENCE=FOLDER",
        "folders of fitted companions: rollouts=FOLDER (CoCal), resampled=FOLDER (PostCal), prompts=FOLDER",
    ),
    output("--output", "table to write", required=True),
)
_RECALIBRATE = (
    required("--rivals NAME", "scores to recalibrate", nargs="+"),
    flag("--settings", "JSON: missing_answer", default="{}"),
    flag("--split", "JSON: settings of companions, whose split of the questions is taken"),
    flag("--verifier", "JSON: bounds of the verifier, which compares answers", default="{}"),
    stage_flags.SAMPLES,
    stage_flags.POOL,
    *stage_flags.CELL,
    stage_flags.ROLLOUTS,
    stage_flags.TRAINING_SET,
    required("--evaluated FILE", "evaluation sets, never to learn from", nargs="+", type=Path),
    required("--responses", "folder of {set}.parquet, to score", type=Path),
    flag(
        "--previous-stage", "step after which the last stage begins, to learn from its rollouts too", type=flags.COUNT
    ),
    flag("--rollout-features", "feature store of the rollouts, for rivals that read states", type=Path),
    flag("--resampled", "folder of PostCal's responses, for PostCal and CoCal to learn from", type=Path),
    flag("--resampled-features", "feature store of PostCal's responses", type=Path),
    flag("--features", "folder of {set}.zarr, for rivals that read states", type=Path),
    several(
        "--companions KIND=FOLDER",
        "folders of fitted companions: rollouts=FOLDER (CoCal), resampled=FOLDER (PostCal), one-layer=FOLDER (of one "
        "hidden layer)",
    ),
    output("--output-calibrators FILE.json", "fitted calibrators", required=True),
    output("--output", "table of predictions to write", required=True),
)
_LATENCY = (
    flag("--settings", "JSON: sampling parameters, pool and engine", default="{}"),
    required("--datasets", "JSON: longest response in tokens, by mathematical evaluation set"),
    required("--questions", "folder of question sets", type=Path),
    required("--checkpoint", "policy to time", type=Path),
    required("--companions FOLDER", "CoCal's companions on last+mean states", type=Path),
    required("--prompt-companions FOLDER", "pre-generation companions on prompt states", type=Path),
    stage_flags.PROMPTS,
    flag("--samples N", "questions of each set that are timed, one at a time", type=flags.COUNT, default=8),
    flag("--concurrent N", "largest number of responses generated together", type=flags.COUNT, default=64),
    flag("--predictions N", "timed predictions of a companion, one at a time", type=flags.COUNT, default=1000),
    flag("--seed", "seed of the choice of questions", type=flags.SEED, default=42),
    stage_flags.RUN_FOLDER,
    output("--output FILE.json", "file for the times", required=True),
)
_METRICS = (
    flag("--settings", "metric settings: JSON text, or a YAML or JSON file"),
    flag("--groups", 'JSON: macro averages, such as {"macro-mathematics": ["math500", ...]}'),
    flag("--seeds", "seeds that every companion must have (default: all)", type=int, nargs="+"),
    required("--predictions FILE", "Parquet files or folders", nargs="+", type=Path),
    several(
        "--sweep",
        "dimensions of the cube along which a method has several companions",
        choices=["source_step", "validation_step", "layer", "pooling"],
    ),
    flag(
        "--common-responses",
        "confidence metrics cover only responses for which all methods that share them have a valid confidence",
        action="store_true",
    ),
    flag(
        "--scores",
        "add the scores beyond the paper's metrics, such as the Brier score and the area under the risk",
        action="store_true",
    ),
    output("--output FILE.nc", "metric cube to write", required=True),
    output("--resamples FILE.nc", "file for the metrics of every resample from which methods are compared"),
)
_CHECKS = (
    stage_flags.COMPANION,
    flag("--quality", "JSON: the smallest shares of usable responses that are accepted"),
    stage_flags.BACKBONE,
    stage_flags.ROLLOUTS,
    flag("--resampled", "folder of PostCal's resampled responses, if there is one", type=Path),
    stage_flags.TRAINING_SET,
    required(
        "--companions EXPERIENCE=FOLDER",
        "folders of fitted companions: rollouts=FOLDER (CoCal), resampled=FOLDER (PostCal), prompts=FOLDER, "
        "ablations=FOLDER and one-layer=FOLDER (on rollouts)",
        nargs="+",
    ),
    required("--predictions FILE", nargs="+", type=Path),
    several(
        "--calibrators ALGORITHM=FILE", "fitted calibrators of recalibrated rivals, by the algorithm of their policy"
    ),
    several("--recalibrated ALGORITHM=FILE", "predictions of these rivals"),
    several("--coupled ALGORITHM=FOLDER", "rollouts of RLCR and DCPO, from which these rivals learn"),
    several("--evaluated FILE", "evaluation sets, unseen by calibrators", type=Path),
    output("--output", "JSON report of what each check looked at", required=True),
)
_EXHIBIT = (
    flag("exhibit NAME", f"one of: {', '.join(MODULES)}", choices=MODULES),
    flag("--input KIND=FILE", "an input file, such as metrics=FILE.nc", action="append", default=[]),
    flag("--inputs", "several files of one kind", action="append", nargs="+", default=[], metavar=("KIND", "FILE")),
    flag("--layout", "settings of what is shown: JSON text, or a YAML or JSON file; a diagram has none"),
    output(
        "--output",
        "FILE.tex for a table, FILE.pdf for a figure; its other forms are written beside it",
        Kind(beside=(".html", ".png", ".csv")),
        required=True,
    ),
    flags.OVERWRITE,
)
_DOCUMENT = (
    required("--tables FILE.tex", "tables, in order", nargs="+", type=Path),
    output("--output FILE.tex", "document to write", required=True),
    flags.OVERWRITE,
)
_LANDING = (
    flag("--layout JSON", "titles and captions: JSON text, or a YAML or JSON file", required=True),
    flag("--verdict FILE.csv", "tables/verdict of the study, if it has the table", type=Path),
    flag("--figures FILE.png", "the figures of the layout, in its order", nargs="*", type=Path, default=[]),
    output("--output FILE.html", "page to write; beside it the verdict as text", Kind(beside=(".txt",)), required=True),
    flags.OVERWRITE,
)

STAGES = {
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
        (stage_flags.FEATURES, stage_flags.ROLLOUTS, *stage_flags.READERS, stage_flags.RUN_FOLDER, stage_flags.STORE),
    ),
    "resample": Command("answer the training questions again with the final policy, for PostCal", _RESAMPLE),
    "responses": Command("sample, verify and score evaluation responses of a checkpoint", _RESPONSES),
    "judge": Command("judge existing responses, by computer algebra, exact match or a language model", _JUDGE),
    "features": Command("extract hidden-state features of responses", _FEATURES, writes=_stores),
    "prompts": Command(
        "extract hidden-state features of the prompts of policy training",
        (stage_flags.FEATURES, stage_flags.ROLLOUTS, *stage_flags.READERS, stage_flags.STORE),
    ),
    "companions": Command("fit companions on the rollouts and features of a policy", _COMPANIONS),
    "online": Command("let companions learn from stored rollouts as if they learnt while the policy trained", _ONLINE),
    "predictions": Command("estimate confidences with every method", _PREDICTIONS),
    "recalibrate": Command(
        "let rivals of the companions learn from the same rollouts, and score responses with them", _RECALIBRATE
    ),
    "latency": Command("time a policy and its companions on this device", _LATENCY),
    "metrics": Command("compute the metric cube with bootstrap intervals", _METRICS),
    "checks": Command("refuse a study that breaks the protocol, and report what was checked", _CHECKS),
    "exhibit": Command("make a table or figure of the paper", _EXHIBIT),
    "document": Command("write one LaTeX document of all tables", _DOCUMENT),
    "landing": Command("write the page on which the report opens, and the verdict on the paper", _LANDING),
}
"""The stages, which the rules of the workflow call; `cocal stages` lists them."""
