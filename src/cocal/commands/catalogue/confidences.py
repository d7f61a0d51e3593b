"""Stages of the workflow from responses to confidences, metrics, checks and exhibits."""

import argparse
import json
from pathlib import Path

from cocal.commands import flags
from cocal.commands.flags import Command, flag, output, required, several
from cocal.commands.outputs import FOLDER, Kind
from cocal.exhibits import MODULES


def _stores(options: argparse.Namespace) -> list[Path]:
    """The stores of `cocal features`; another job may write those of other sets into the same folder."""
    return [options.output / f"{name}.zarr" for name in json.loads(options.samples)]


_RESPONSES = (
    flag("--settings", "JSON: sampling parameters", default="{}"),
    *flags.JUDGE,
    required("--plan", "JSON: question sets, number and length of responses"),
    required("--prompt-format", "prompt format: answer, verbal, ..."),
    required("--questions", "folder of question sets", type=Path),
    required("--checkpoint", "policy to sample from", type=Path),
    *flags.CELL,
    flags.PROMPTS,
    flags.RUN_FOLDER,
    output(
        "--output", "folder for one .parquet per question set", Kind(folder=True, entries="*.parquet"), required=True
    ),
)
_JUDGE = (
    *flags.JUDGE,
    required("--questions", "question set that was answered (.parquet)", type=Path),
    required("--responses", "table of responses; verdicts in it are ignored", type=Path),
    flag("--pool", "also compare the answers to each question, for self-consistency", action="store_true"),
    output("--output", "table to write", required=True),
)
_FEATURES = (
    flags.FEATURES,
    flags.SAMPLES,
    required("--responses", "folder that holds {set}.parquet", type=Path),
    required("--checkpoint", "policy that produced the responses", type=Path),
    flag("--prompt", "also store the state of the last prompt token", action="store_true"),
    flag("--task-response", "stop before the first <reason> or confidence statement", action="store_true"),
    output("--output", "folder for {set}.zarr", Kind(folder=True, entries="*.zarr"), required=True),
)
_COMPANIONS = (
    flags.COMPANION,
    flags.ROLLOUTS,
    flags.TRAINING_SET,
    flags.STATES,
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
    flags.COMPANION,
    flags.ROLLOUTS,
    flags.TRAINING_SET,
    flags.STATES,
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
    flags.SAMPLES,
    flags.POOL,
    *flags.CELL,
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
    flags.SAMPLES,
    flags.POOL,
    *flags.CELL,
    required("--rollouts", "folder of rollout tables, to learn from", type=Path),
    flags.TRAINING_SET,
    required("--evaluated FILE", "evaluation sets, never to learn from", nargs="+", type=Path),
    required("--responses", "folder of {set}.parquet, to score", type=Path),
    flag("--rollout-features", "feature store of the rollouts, for rivals that read states", type=Path),
    flag("--features", "folder of {set}.zarr, for rivals that read states", type=Path),
    several(
        "--companions KIND=FOLDER",
        "folders of fitted companions: rollouts=FOLDER (CoCal), one-layer=FOLDER (of one hidden layer)",
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
    flags.PROMPTS,
    flag("--samples N", "questions of each set that are timed, one at a time", type=flags.COUNT, default=8),
    flag("--concurrent N", "largest number of responses generated together", type=flags.COUNT, default=64),
    flag("--predictions N", "timed predictions of a companion, one at a time", type=flags.COUNT, default=1000),
    flag("--seed", "seed of the choice of questions", type=flags.SEED, default=42),
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
    flags.COMPANION,
    flag("--prompt-settings", "JSON: settings of companions that learnt from prompts"),
    flag("--ablation-settings", "JSON: settings of companions that read other states"),
    flag("--one-layer-settings", "JSON: settings of companions of one hidden layer"),
    flag("--quality", "JSON: the smallest shares of usable responses that are accepted"),
    flags.BACKBONE,
    flags.ROLLOUTS,
    flag("--resampled", "folder of PostCal's resampled responses, if there is one", type=Path),
    flags.TRAINING_SET,
    required(
        "--companions EXPERIENCE=FOLDER",
        "folders of fitted companions: rollouts=FOLDER (CoCal), resampled=FOLDER (PostCal), prompts=FOLDER, "
        "ablations=FOLDER and one-layer=FOLDER (on rollouts)",
        nargs="+",
    ),
    flag("--planned", "JSON: methods, sets and steps that each of the predictions must hold, by file", default="{}"),
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

CONFIDENCES = {
    "responses": Command("sample, verify and score evaluation responses of a checkpoint", _RESPONSES),
    "judge": Command("judge existing responses, by computer algebra, exact match or a language model", _JUDGE),
    "features": Command("extract hidden-state features of responses", _FEATURES, writes=_stores),
    "prompts": Command(
        "extract hidden-state features of the prompts of policy training",
        (flags.FEATURES, flags.ROLLOUTS, *flags.READERS, flags.STORE),
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
