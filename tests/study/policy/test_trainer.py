"""Where the trainer departs from TRL: micro-batches, log-probabilities, and rollouts of other engines."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from trl import GRPOTrainer

import plain_grpo as plain
from cocal.answers.equivalence import Verifier
from cocal.answers.judge import Verdicts
from cocal.answers.settings import VerifierSettings
from cocal.models.loading import load_policy, read_config
from cocal.runtime.numerics import PORTABLE, computes_bfloat16, environment
from cocal.store import read_document
from cocal_study.config.policy import PolicySettings
from cocal_study.policy import trainer as training
from cocal_study.policy.agreement import Agreement
from cocal_study.policy.recorder import StepSeconds
from cocal_study.policy.trainer import RecordingGRPOTrainer
from micro import in_bfloat16
from micro_trainer import micro_trainer, small_settings, train

ROWS, PROMPT, RESPONSE = 12, 7, 9


@pytest.fixture
def trainer(tmp_path, micro_checkpoint):
    """Makes a trainer of the micro policy."""

    def make(settings: PolicySettings) -> RecordingGRPOTrainer:
        trainer = micro_trainer(tmp_path, micro_checkpoint, settings)
        trainer.model.train()
        trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
        return trainer

    return make


@pytest.fixture
def rows() -> dict[str, torch.Tensor]:
    """All rollouts of an update in TRL's form, with padding on both sides."""
    random = torch.Generator().manual_seed(3)
    prompts = torch.randint(2, PROMPT + 1, (ROWS,), generator=random)
    responses = torch.randint(1, RESPONSE + 1, (ROWS,), generator=random)
    prompt_mask = (torch.arange(PROMPT) >= PROMPT - prompts[:, None]).long()
    completion_mask = (torch.arange(RESPONSE) < responses[:, None]).long()
    return {
        "prompt_ids": torch.randint(3, 300, (ROWS, PROMPT), generator=random) * prompt_mask,
        "prompt_mask": prompt_mask,
        "completion_ids": torch.randint(3, 300, (ROWS, RESPONSE), generator=random) * completion_mask,
        "completion_mask": completion_mask,
        "advantages": torch.randn(ROWS, generator=random),
        "old_per_token_logps": -6 * torch.rand(ROWS, RESPONSE, generator=random),
        "num_items_in_batch": completion_mask.sum(),
    }


@pytest.mark.parametrize("loss", ["grpo", "dapo"])
def test_the_loss_is_the_clipped_one(trainer, rows, loss):
    """Equation 1: -min(ratio A, clip(ratio, 1 - low, 1 + high) A), averaged within responses or over all tokens."""
    one = trainer(small_settings(loss=loss, temperature=0.7, clip_low=0.3, clip_high=0.5, micro_batch=12))
    rows["advantages"] = rows["advantages"][:, None] * torch.linspace(-1, 1, RESPONSE)
    total, tokens = 0.0, 0
    with torch.no_grad():
        for k in range(ROWS):
            prompt = rows["prompt_ids"][k][rows["prompt_mask"][k].bool()]
            response = rows["completion_ids"][k][rows["completion_mask"][k].bool()]
            logprobs = plain.log_probabilities(one.model, prompt.tolist(), response.tolist(), 0.7)
            # ratios from far below the clip range to far above it
            rows["old_per_token_logps"][k, : len(response)] = logprobs - torch.linspace(-0.9, 0.9, len(response))
            ratio = torch.linspace(-0.9, 0.9, len(response)).exp()
            advantage = rows["advantages"][k, : len(response)]
            losses = -torch.minimum(ratio * advantage, ratio.clamp(0.7, 1.5) * advantage)
            old = rows["old_per_token_logps"][k, : len(response)]
            torch.testing.assert_close(plain.loss(logprobs, old, advantage, 0.3, 0.5), losses.mean())
            total += losses.mean().item() / ROWS if loss == "grpo" else losses.sum().item()
            tokens += len(response)
    assert one.compute_loss(one.model, rows).item() == pytest.approx(
        total if loss == "grpo" else total / tokens, rel=1e-4
    )


@pytest.mark.skipif(torch.cuda.is_available() or not computes_bfloat16(), reason="no products of bfloat16 numbers here")
def test_a_copy_of_the_latest_policy_samples_in_bfloat16(trainer, monkeypatch):
    """The updates keep their float32 weights, and frequencies of positions are as exact as in a loaded policy."""
    made = trainer(small_settings())
    for name in PORTABLE:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment("bfloat16").items():
        monkeypatch.setenv(name, value)
    first = made._decoder(made.model)
    for change in (0.0, 0.25):
        with torch.no_grad():
            for parameter in made.model.parameters():
                parameter.add_(change)
        copy = made._decoder(made.model)
        assert copy is first
        for (name, own), of_policy in zip(copy.named_parameters(), made.model.parameters(), strict=True):
            assert of_policy.dtype == torch.float32
            assert torch.equal(own, of_policy.bfloat16()), name
    buffers = zip(copy.named_buffers(), made.model.buffers(), strict=True)
    assert all(torch.equal(own, of_policy) for (_, own), of_policy in buffers)
    assert "inv_freq" in str([name for name, _ in copy.named_buffers()])


def test_an_answer_without_a_verdict_earns_nothing_and_is_recorded(tmp_path, micro_checkpoint, micro_questions):
    class Hesitant(Verifier):
        """Accepts every second answer, and comes to no verdict about every third."""

        def correct(self, golds, answers, questions=()):
            place = np.arange(len(answers))
            return Verdicts((place % 2 == 0) & (place % 3 > 0), place % 3 > 0)

    rollouts = train(
        tmp_path, small_settings(), micro_checkpoint, micro_questions, verifier=Hesitant(VerifierSettings())
    )
    place = np.arange(len(rollouts))
    assert rollouts["decided"].tolist() == (place % 3 > 0).tolist()
    assert rollouts["correct"].tolist() == ((place % 2 == 0) & (place % 3 > 0)).tolist()
    assert rollouts["reward_task"].tolist() == rollouts["correct"].astype(float).tolist()
    assert rollouts["exact_match"].isna().all()


@pytest.mark.parametrize("tied", [False, True])
def test_stages_keep_the_number_format_of_the_base(tmp_path, micro_checkpoint, micro_questions, tied):
    """Training is float32; what a bfloat16 base becomes is bfloat16, and weights that are tied are stored once."""
    base = in_bfloat16(micro_checkpoint, tmp_path / "base")
    model = load_policy(base, dtype=torch.bfloat16).model
    model.config.tie_word_embeddings = tied
    model.tie_weights()
    model.save_pretrained(base)
    train(tmp_path, small_settings(), base, micro_questions)
    before, after = (load_file(folder / "model.safetensors") for folder in (base, tmp_path / "step-1"))
    assert ("lm_head.weight" in before) == (not tied)
    assert before.keys() == after.keys()
    assert {tensor.dtype for tensor in after.values()} == {torch.bfloat16}
    assert read_config(tmp_path / "step-1").dtype == torch.bfloat16
    load_policy(tmp_path / "step-1")


def test_rows_stay_in_their_update(trainer, rows, monkeypatch):
    """Two updates a step: sorting by length must not carry a row from one to the other."""
    one = trainer(small_settings(updates_per_step=1, micro_batch=2))
    one.args.gradient_accumulation_steps, one.args.steps_per_generation = 3, 6
    batches = [{key: value[2 * k : 2 * k + 2] for key, value in rows.items() if value.dim()} for k in range(6)]
    for k, batch in enumerate(batches):
        batch["advantages"] = torch.tensor([2.0 * k, 2.0 * k + 1])

    def prepared(self, generation_batch):
        self._buffered_inputs = list(batches)
        return batches[0]

    monkeypatch.setattr(GRPOTrainer, "_prepare_inputs", prepared)
    one._buffered_inputs, one._step = None, 0
    one._prepare_inputs({})
    places = [
        sorted(int(a) for batch in part for a in batch["advantages"])
        for part in (one._buffered_inputs[:3], one._buffered_inputs[3:])
    ]
    assert places == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]


def test_seconds_of_a_step_are_those_of_all_its_updates(monkeypatch, tmp_path):
    clock = iter([10.0, 11.0, 20.0, 23.0, 30.0, 30.5, 40.0, 47.0])
    monkeypatch.setattr(training.time, "monotonic", lambda: next(clock))
    seconds = StepSeconds(tmp_path / "seconds.json")
    owner = SimpleNamespace(accelerator=SimpleNamespace(is_main_process=False), states_seconds=0.0, summary="")
    owner._policy, owner._recorder = SimpleNamespace(updates_per_step=2), SimpleNamespace(seconds=seconds)
    owner._stages, owner.agreement = {}, Agreement(0.1)
    callback = training.StepCallback(owner)
    state = SimpleNamespace(global_step=0, max_steps=4)
    callback.on_train_begin(None, state, None)
    for update in range(1, 5):
        callback.on_step_begin(None, state, None)
        state.global_step = update
        owner.states_seconds += 0.25 * (update > 2)  # the second step reads states for half a second
        callback.on_step_end(None, state, SimpleNamespace())
    assert read_document(tmp_path / "seconds.json") == {"1": [4.0, 0.0], "2": [7.0, 0.5]}


def test_states_are_read_in_the_precision_of_the_update(trainer, monkeypatch):
    """Whether or not the pass runs through what accelerate wraps."""
    one, precise = trainer(small_settings()), []
    one._layers = (0,)
    monkeypatch.setattr(one.accelerator, "autocast", lambda: torch.autocast("cpu", dtype=torch.bfloat16))
    one.model.model.layers[0].register_forward_hook(lambda *_: precise.append(torch.is_autocast_enabled("cpu")))
    states, logprobs = one._scored([[1, 30]], [[60, 2]], logprobs=False)
    assert precise == [True]
    assert np.isfinite(states[0]).all()
    assert logprobs is None
