"""Stages of the workflow from responses to confidences, metrics, checks and exhibits."""

import argparse
import json
from pathlib import Path

from cocal.commands.flags import (
    AMOUNT,
    BACKBONE,
    CELL,
    COMPANION,
    COUNT,
    FEATURES,
    JUDGE,
    OVERWRITE,
    POOL,
    PROMPTS,
    READERS,
    ROLLOUTS,
    RUN_FOLDER,
    SAMPLES,
    SEED,
    STATES,
    STORE,
    TRAINING_SET,
    Command,
    flag,
    output,
    required,
    several,
)
from cocal.commands.outputs import FOLDER, Kind
from cocal.exhibits import MODULES


def _stores(options: argparse.Namespace) -> list[Path]:
    """The stores of `cocal features`; another job may write those of other sets into the same folder."""
    return [options.output / f"{name}.zarr" for name in json.loads(options.samples)]


_RESPONSES = (
    flag("--settings", "JSON: sampling parameters", default="{}"),
    *JUDGE,
    required("--plan", "JSON: question sets, number and length of responses"),
    required("--prompt-format", "prompt format: answer, verbal, ..."),
    required("--questions", "folder of question sets", type=Path),
    required("--checkpoint", "policy to sample from", type=Path),
    *CELL,
    PROMPTS,
    RUN_FOLDER,
    output(
        "--output", "folder for one .parquet per question set", Kind(folder=True, entries="*.parquet"), required=True
    ),
)
_JUDGE = (
    *JUDGE,
    required("--questions", "question set that was answered (.parquet)", type=Path),
    required("--responses", "table of responses; verdicts in it are ignored", type=Path),
    flag("--pool", "also compare the answers to each question, for self-consistency", action="store_true"),
    output("--output", "table to write", required=True),
)
_FEATURES = (
    FEATURES,
    SAMPLES,
    required("--responses", "folder that holds {set}.parquet", type=Path),
    required("--checkpoint", "policy that produced the responses", type=Path),
    flag("--prompt", "also store the state of the last prompt token", action="store_true"),
    flag("--task-response", "stop before the first <reason> or confidence statement", action="store_true"),
    output("--output", "folder for {set}.zarr", Kind(folder=True, entries="*.zarr"), required=True),
)
_COMPANIONS = (
    COMPANION,
    ROLLOUTS,
    TRAINING_SET,
    STATES,
    required(
        "--steps",
        "each word makes one fit, which trains on rollout steps 1 to N and chooses its best pass by validation on "
        "steps 1 to M (default: N)",
        nargs="+",
        metavar="N[/M]",
    ),
    flag("--order", choices=["chronological", "shuffled"], default="chronological"),
    flag("--shuffle-seed", "seed of the order; needed by --order shuffled", type=SEED),
    flag(
        "--states",
        "each word makes one fit and names a zero-based block index and its pooled states in order, such as "
        "0/last+mean (default: last+mean of the deepest block stored)",
        nargs="+",
        metavar="LAYER/POOLINGS",
    ),
    flag("--prompts", "the features belong to prompts, with one row per group of rollouts", action="store_true"),
    flag(
        "--memory",
        "memory for features, on the GPU if there is one; features that do not fit are read again in every pass, with "
        "the same result (default: 5, or half of the GPU's free memory)",
        type=AMOUNT,
        metavar="GIB",
    ),
    output("--cost", "file for the time of the last fit (longest prefix, last states)", metavar="FILE.json"),
    output(
        "--output",
        "folder for steps-N and steps-N-validation-M, each with weights, history and spec; with --states, for "
        "LAYER/POOLINGS/steps-N",
        FOLDER,
        required=True,
    ),
)
_ONLINE = (
    COMPANION,
    ROLLOUTS,
    TRAINING_SET,
    STATES,
    required("--steps", "number of rollout steps", type=COUNT),
    flag(
        "--windows",
        "numbers of the last rollout steps that are learnt from with every new one; each makes companions of its own "
        "(default: 1)",
        nargs="+",
        type=COUNT,
        default=[1],
        metavar="STEPS",
    ),
    flag("--stages", "steps after which companions are kept", nargs="*", type=COUNT, default=[], metavar="STEP"),
    flag(
        "--replayed",
        "companions that `cocal companions` has fitted on the first steps, to be scored on the step that follows",
        nargs="*",
        type=Path,
        default=[],
        metavar="FOLDER",
    ),
    flag("--bins", "bins of the calibration error (default: 10)", type=COUNT, default=10),
    output("--output-companions", "folder for window-W/steps-N", FOLDER, required=True),
    output("--output", "table of the scores of every step (Parquet)", required=True),
)
_PREDICTIONS = (
    flag("--settings", "JSON: methods, missing_answer", default="{}"),
    SAMPLES,
    POOL,
    *CELL,
    flag("--methods", "comma-separated names (default: those of --settings that are evaluated on this policy)"),
    required(
        "--responses",
        "one folder of {set}.parquet per prompt format: answer=FOLDER verbal=FOLDER",
        nargs="+",
        metavar="FORMAT=FOLDER",
    ),
    several("--features", "one folder of {set}.zarr per prompt format", metavar="FORMAT=FOLDER"),
    several(
        "--companions",
        "folders of fitted companions: rollouts=FOLDER (CoCal), resampled=FOLDER (PostCal), prompts=FOLDER",
        metavar="EXPERIENCE=FOLDER",
    ),
    output("--output", "table to write", required=True),
)
_RECALIBRATE = (
    required("--rivals", "scores to recalibrate", nargs="+", metavar="NAME"),
    flag("--settings", "JSON: missing_answer", default="{}"),
    flag("--split", "JSON: settings of companions, whose split of the questions is taken"),
    flag("--verifier", "JSON: bounds of the verifier, which compares answers", default="{}"),
    SAMPLES,
    POOL,
    *CELL,
    required("--rollouts", "folder of rollout tables, to learn from", type=Path),
    TRAINING_SET,
    required("--evaluated", "evaluation sets, never to learn from", nargs="+", type=Path, metavar="FILE"),
    required("--responses", "folder of {set}.parquet, to score", type=Path),
    flag("--rollout-features", "feature store of the rollouts, for rivals that read states", type=Path),
    flag("--features", "folder of {set}.zarr, for rivals that read states", type=Path),
    several(
        "--companions",
        "folders of fitted companions: rollouts=FOLDER (CoCal), one-layer=FOLDER (of one hidden layer)",
        metavar="KIND=FOLDER",
    ),
    output("--output-calibrators", "fitted calibrators", required=True, metavar="FILE.json"),
    output("--output", "table of predictions to write", required=True),
)
_LATENCY = (
    flag("--settings", "JSON: sampling parameters, pool and engine", default="{}"),
    required("--datasets", "JSON: longest response in tokens, by mathematical evaluation set"),
    required("--questions", "folder of question sets", type=Path),
    required("--checkpoint", "policy to time", type=Path),
    required("--companions", "CoCal's companions on last+mean states", type=Path, metavar="FOLDER"),
    required("--prompt-companions", "pre-generation companions on prompt states", type=Path, metavar="FOLDER"),
    PROMPTS,
    flag("--samples", "questions of each set that are timed, one at a time", type=COUNT, default=8, metavar="N"),
    flag("--concurrent", "largest number of responses generated together", type=COUNT, default=64, metavar="N"),
    flag("--predictions", "timed predictions of a companion, one at a time", type=COUNT, default=1000, metavar="N"),
    flag("--seed", "seed of the choice of questions", type=SEED, default=42),
    output("--output", "file for the times", required=True, metavar="FILE.json"),
)
_METRICS = (
    flag("--settings", "metric settings: JSON text, or a YAML or JSON file"),
    flag("--groups", 'JSON: macro averages, such as {"macro-mathematics": ["math500", ...]}'),
    flag("--seeds", "seeds that every companion must have (default: all)", type=int, nargs="+"),
    required("--predictions", "Parquet files or folders", nargs="+", type=Path, metavar="FILE"),
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
    output("--output", "metric cube to write", required=True, metavar="FILE.nc"),
    output("--resamples", "file for the paper's metrics of every resample", metavar="FILE.nc"),
)
_CHECKS = (
    COMPANION,
    flag("--prompt-settings", "JSON: settings of companions that learnt from prompts"),
    flag("--ablation-settings", "JSON: settings of companions that read other states"),
    flag("--one-layer-settings", "JSON: settings of companions of one hidden layer"),
    flag("--quality", "JSON: the smallest shares of usable responses that are accepted"),
    BACKBONE,
    ROLLOUTS,
    flag("--resampled", "folder of PostCal's resampled responses, if there is one", type=Path),
    TRAINING_SET,
    required(
        "--companions",
        "folders of fitted companions: rollouts=FOLDER (CoCal), resampled=FOLDER (PostCal), prompts=FOLDER, "
        "ablations=FOLDER and one-layer=FOLDER (on rollouts)",
        nargs="+",
        metavar="EXPERIENCE=FOLDER",
    ),
    flag("--planned", "JSON: methods, sets and steps that each of the predictions must hold, by file", default="{}"),
    required("--predictions", nargs="+", type=Path, metavar="FILE"),
    several(
        "--calibrators",
        "fitted calibrators of recalibrated rivals, by the algorithm of their policy",
        metavar="ALGORITHM=FILE",
    ),
    several("--recalibrated", "predictions of these rivals", metavar="ALGORITHM=FILE"),
    several("--coupled", "rollouts of RLCR and DCPO, from which these rivals learn", metavar="ALGORITHM=FOLDER"),
    several("--evaluated", "evaluation sets, unseen by calibrators", type=Path, metavar="FILE"),
    output("--output", "JSON report of what each check looked at", required=True),
)
_EXHIBIT = (
    flag("exhibit", f"one of: {', '.join(MODULES)}", choices=MODULES, metavar="NAME"),
    flag("--input", "an input file, such as metrics=FILE.nc", action="append", default=[], metavar="KIND=FILE"),
    flag("--inputs", "several files of one kind", action="append", nargs="+", default=[], metavar=("KIND", "FILE")),
    flag("--layout", "settings of what is shown: JSON text, or a YAML or JSON file; a diagram has none"),
    output(
        "--output",
        "FILE.tex for a table, FILE.pdf for a figure; its other forms are written beside it",
        Kind(beside=(".html", ".png", ".csv")),
        required=True,
    ),
    OVERWRITE,
)
_DOCUMENT = (
    required("--tables", "tables, in order", nargs="+", type=Path, metavar="FILE.tex"),
    output("--output", "document to write", required=True, metavar="FILE.tex"),
    OVERWRITE,
)

CONFIDENCES = {
    "responses": Command("sample, verify and score evaluation responses of a checkpoint", _RESPONSES),
    "judge": Command("judge existing responses, by computer algebra, exact match or a language model", _JUDGE),
    "features": Command("extract hidden-state features of responses", _FEATURES, writes=_stores),
    "prompts": Command(
        "extract hidden-state features of the prompts of policy training", (FEATURES, ROLLOUTS, *READERS, STORE)
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
}
