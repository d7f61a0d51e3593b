"""A small set of evaluation responses with features and companions, for the tests of estimators."""

import numpy as np
import pandas as pd
import torch

from cocal.companion.companions import Companions, build_model, load_companions, save_companions
from cocal.companion.settings import CompanionSettings
from cocal.store import atomic_path, write_frame
from cocal.store.contracts import RESPONSES
from cocal_study.config.evaluation import EstimatorSettings, EvaluationSets
from cocal_study.config.methods import METHODS
from cocal_study.methods.base.predictions import Checkpoint, predict
from cocal_study.methods.base.responses import Inputs
from cocal_study.planning.results import ORDERS
from cocal_study.store.contracts import PREDICTIONS
from coded_inputs import coded_specs
from companion_run import write_states

POOL = 10
QUESTIONS = 4
SAMPLES = 2
STEP = 60
HIDDEN = 3
SETS = EvaluationSets({"sums": SAMPLES})
TRAINING_FREE = ["self-consistency", "token-probability", "p-true"]
SHARED = [*TRAINING_FREE, "postcal-group", "postcal-binary", "cocal-group", "cocal-binary", "cocal-pre-generation"]
SEEDS = (42, 137)
CLASSES = {"1": 0, "01": 0, "2": 1, "1/2": 2, "0.5": 2}
"""The answers below, and which are equivalent."""


def responses(pool=POOL, seed=0):
    """A responses table of QUESTIONS x `pool` rows with every kind of trouble among the evaluated ones."""
    rng = np.random.default_rng(seed)
    n = QUESTIONS * pool
    lengths = rng.integers(2, 9, n)
    logprobs = [-rng.exponential(0.5, length).astype(np.float32) for length in lengths]
    correct = rng.random(n) < 0.5
    frame = pd.DataFrame(
        {
            "dataset": "sums",
            "question_id": np.repeat([f"q{i}" for i in range(QUESTIONS)], pool),
            "response_id": np.arange(n),
            "step": STEP,
            "sample": np.tile(np.arange(pool), QUESTIONS),
            "prompt_ids": [[1, 2]] * n,
            "response_ids": [list(range(length)) for length in lengths],
            "logprobs": logprobs,
            "text": "t",
            "length": lengths,
            "finish_reason": "stop",
            "truncated": False,
            "mean_logprob": [float(np.mean(values, dtype=np.float64)) for values in logprobs],
            "answer": (answers := rng.choice(list(CLASSES), n).astype(object)),
            "answer_class": [float(CLASSES[answer]) for answer in answers],
            "correct": correct,
            "exact_match": None,
            "decided": True,
            "group_accuracy": correct.reshape(QUESTIONS, pool).mean(axis=1).repeat(pool),
            **dict.fromkeys(("reward_task", "reward_calibration", "confidence"), np.nan),
            "p_true": np.where(asked := np.tile(np.arange(pool), QUESTIONS) < SAMPLES, rng.random(n), np.nan),
            "p_true_mass": np.where(asked, 0.7 + 0.3 * rng.random(n), np.nan),
        }
    )
    truncated = [0, pool + 1]  # evaluated ones
    frame.loc[truncated, ["finish_reason", "truncated"]] = ["length", True]
    frame.loc[truncated[0], ["answer", "answer_class"]] = [None, -1]
    return frame


def write_responses(folder, frame):
    write_frame(folder / "sums.parquet", frame, RESPONSES, {})
    return folder


def write_features(folder, frame, task_response=False):
    """Features of the evaluated responses, in an order of their own; poolings last, mean, prompt."""
    evaluated = frame[frame["sample"] < SAMPLES].iloc[::-1]
    values = np.random.default_rng(1).normal(size=(len(evaluated), 2, 3, HIDDEN)).astype(np.float32)
    options = {"poolings": ("last", "mean", "prompt"), "attributes": {"task_response": str(task_response)}}
    write_states(folder / "sums.zarr", evaluated, values, [0, 1], **options)
    by_response = pd.Series(list(values), index=evaluated["response_id"])
    return folder, by_response


def write_companions(
    folder, targets=None, layer=1, prefix=(STEP, STEP), experience="rollouts", poolings=None, hidden=HIDDEN
):
    """Companions with the weights that training would start from, shifted by the steps that they learnt from
    and were validated on."""
    targets = targets or (("question",) if experience == "prompts" else ("group", "binary"))
    poolings = poolings or (("prompt",) if experience == "prompts" else ("last", "mean"))
    settings = CompanionSettings(widths=(4, 3), dropout=(), targets=targets, seeds=SEEDS)
    changes = {"settings": settings, "inputs": len(poolings) * hidden, "layer": layer, "poolings": poolings}
    changes |= {"order": ORDERS[experience], "best_pass": (1,) * len(targets) * len(SEEDS)}
    own, shuffled = coded_specs(prefix[:1], last=prefix[1])
    spec = (shuffled if experience == "resampled" else own).model_copy(update=changes)
    model = build_model(settings, spec.inputs)
    model.initialise()
    model.output.bias.data += torch.arange(len(spec.members))[:, None] / 2  # members of one seed start equal
    model.output.bias.data += spec.steps / 100 + spec.validation_steps / 1000 + (experience == "resampled") / 5
    with atomic_path(folder) as partial:
        partial.mkdir()
        save_companions(partial / "companions.safetensors", Companions(spec, model.eval()), {})
    return folder


def load_experiences(folders):
    """Companions by what they learnt from, as `cocal predictions` reads them."""
    return {experience: [load_companions(path) for path in paths] for experience, paths in folders.items()}


class EvaluatedStudy:
    """Everything on disk below `folder`; `run(names, ...)` predicts."""

    def __init__(self, folder):
        self.folder = folder
        self.frame = responses()
        self.verbal = responses(pool=SAMPLES, seed=5)  # in the format of `prompt_format`
        self.prompt_format = "verbal"
        self.estimators = EstimatorSettings()
        self.algorithm = "grpo"

    def run(self, *names, sets=SETS, **given):
        folders = {
            "answer": write_responses(self.folder / "answer", self.frame),
            self.prompt_format: write_responses(self.folder / "verbal", self.verbal),
        }
        if "features" not in given and any(METHODS[name].experience for name in names if name in METHODS):
            folder, self.states = write_features(self.folder / "features", self.frame)
            given["features"] = {"answer": folder}
            given["companions"] = self.companions = load_experiences(
                {e: [write_companions(self.folder / e, experience=e)] for e in ORDERS}
            )
        inputs = Inputs(self.estimators, POOL, **given)
        table = predict(names, sets, folders, inputs, Checkpoint("tiny", self.algorithm, STEP))
        return PREDICTIONS.check(table, "test")

    def evaluated(self):
        return self.frame[self.frame["sample"] < SAMPLES].reset_index(drop=True)


def command(tmp_path, output, *extra):
    words = ["predictions", "--samples", SETS.model_dump_json(), "--backbone=tiny", "--algorithm=grpo"]
    words += [f"--step={STEP}", "--responses", f"answer={tmp_path / 'answer'}", f"verbal={tmp_path / 'verbal'}"]
    return [*words, f"--output={output}", *extra]
