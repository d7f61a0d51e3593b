"""What runs otherwise on a GPU than on a processor: features on the device, passes that overlap.

The results are compared with those of the processor, which the other tests hold against references.
"""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from cocal.companion.companions import build_model
from cocal.companion.model import Dropout, Training, matmul_precision
from cocal.features.forward import score
from cocal.models.loading import load_policy
from cocal_study.generation.latency import SingleMember
from cocal_study.policy.update import HostAdamW
from companion_run import SETTINGS, Run, final_features, small_run
from micro_trainer import micro_trainer, small_settings

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

GPU, CPU = torch.device("cuda"), torch.device("cpu")
# Without dropout, whose stream is the device's own.
STILL = SETTINGS.model_copy(update={"dropout": ()})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return small_run(tmp_path).write()


@pytest.mark.parametrize(
    ("order", "shuffle_seed", "dtype"),
    [("chronological", None, "float32"), ("shuffled", 7, "float32"), ("chronological", None, "bfloat16")],
)
@pytest.mark.parametrize("memory", [None, 0])
def test_fits_are_those_of_the_processor(tmp_path, order, shuffle_seed, dtype, memory):
    """Features are held on the device or streamed; bfloat16 ones are made float32 batch by batch."""
    run = small_run(tmp_path).write(dtype)
    options = {"settings": STILL, "order": order, "shuffle_seed": shuffle_seed, "memory": memory}
    fits = zip(*(run.fits([2, 3], device=device, **options) for device in (CPU, GPU)), strict=True)
    for (expected, history), (found, on_gpu) in fits:
        assert found.spec.training_responses % STILL.batch_size  # the last batch is a short one
        assert found.model.device == CPU
        np.testing.assert_allclose(on_gpu["train_loss"], history["train_loss"], atol=1e-4)
        np.testing.assert_allclose(on_gpu["validation_mse"], history["validation_mse"], atol=1e-4)
        predicted = expected.predict(final_features(run))
        np.testing.assert_allclose(found.predict(final_features(run)), predicted, atol=1e-3)
        np.testing.assert_allclose(found.to(GPU).predict(final_features(run)), predicted, atol=1e-3)


def test_products_in_tf32_are_near_those_in_float32(run: Run):
    """`companion.matmul` of the paper study. A product shows that the device takes the setting."""
    draw = torch.Generator(GPU).manual_seed(0)
    factors = torch.randn(2, 512, 512, device=GPU, generator=draw)
    exact = factors[0].double() @ factors[1].double()
    errors = []
    for precision in ("float32", "tf32"):
        with matmul_precision(precision):
            errors.append((factors[0] @ factors[1] - exact).norm().item() / exact.norm().item())
    assert errors[0] < 1e-5 < errors[1] < 1e-2
    fits = (run.fit(settings=STILL.model_copy(update={"matmul": m}), device=GPU) for m in ("float32", "tf32"))
    (_, expected), (_, found) = fits
    np.testing.assert_allclose(found["train_loss"], expected["train_loss"], atol=1e-2)
    np.testing.assert_allclose(found["validation_mse"], expected["validation_mse"], atol=1e-2)


def test_masks_change_from_batch_to_batch_at_their_rate():
    dropout = Dropout([torch.Generator().manual_seed(seed) for seed in (1, 2)], (512,), (0.25,), GPU)
    first, second = (dropout.draw(512)[0] for _ in range(2))
    for mask in (first, second):
        assert mask.unique().tolist() == pytest.approx([0, 1 / 0.75])
        assert mask.mean().item() == pytest.approx(1, abs=0.01)
        assert not torch.equal(mask[0], mask[1])
    assert not torch.equal(first, second)


def test_recorded_steps_are_those_taken_one_by_one():
    """With dropout, whose stream goes on, with a short batch in between, and after a resumption."""
    settings = SETTINGS.model_copy(update={"batch_size": 16, "learning_rate": 0.01})
    draw = torch.Generator().manual_seed(0)
    batches = [
        (torch.randn(n, 9, generator=draw), torch.rand(2, 1, n, generator=draw)) for n in (16,) * 6 + (5,) + (16,) * 5
    ]
    found = []
    for size in (16, 17):  # no batch is whole in the second, so that none of its steps is recorded
        given = settings.model_copy(update={"batch_size": size})
        model = build_model(given, 9).to(GPU)
        training = Training(model, given)
        for place, (features, wanted) in enumerate(batches):
            if place == 9:
                training.restore(training.state())
            training.step(features.to(GPU), wanted.to(GPU))
        found.append([parameter.detach().cpu() for parameter in model.parameters()])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_one_response_at_a_time_is_predicted_as_many(run: Run):
    companions, _ = run.fit(settings=STILL, device=CPU)
    features = final_features(run)[:8]
    expected = companions.predict(features)[1]
    alone = SingleMember(companions, 1, GPU)
    found = [alone.predict(torch.from_numpy(row[None])) for row in features]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_moments_in_the_host_update_as_those_beside_the_weights():
    """One parameter's moments at a time are on the GPU, also after a resumption; the bytes are Adam's."""
    draw = torch.Generator().manual_seed(0)
    start = [torch.randn(2**20, generator=draw) for _ in range(4)]
    kinds = (torch.optim.AdamW, HostAdamW)
    weights = [[one.to(GPU, copy=True).requires_grad_() for one in start] for _ in kinds]
    plain, ours = (kind(one, lr=0.1, fused=True) for kind, one in zip(kinds, weights, strict=True))
    for update in range(4):
        if update == 2:
            state, ours = ours.state_dict(), HostAdamW(weights[1], lr=0.1, fused=True)
            ours.load_state_dict(state)
        for one, other in zip(*weights, strict=True):
            one.grad = torch.randn(one.shape, generator=draw).to(GPU)
            other.grad = one.grad.clone()
        plain.step()
        ours.step()
    assert all(torch.equal(one, other) for one, other in zip(*weights, strict=True))
    assert {value.device.type for state in ours.state.values() for value in state.values()} == {"cpu"}


def test_the_fused_head_of_trl_gives_our_log_probabilities(tmp_path, micro_checkpoint):
    """On a GPU, training takes TRL's own method, within its bfloat16 passes; elsewhere ours."""
    settings = small_settings(max_response_length={"grpo": 9}, temperature=0.7)
    trainer = micro_trainer(tmp_path, micro_checkpoint, settings)
    assert trainer.accelerator.device.type == "cuda"
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(3, 300, (12, 16), generator=draw)
    mask = (torch.arange(16) < torch.randint(8, 17, (12, 1), generator=draw)).long()
    with torch.no_grad():
        found, entropies, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids.to(GPU), mask.to(GPU), 9, compute_entropy=True
        )
        trimmed, *_ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids.to(GPU), mask.to(GPU), 9, batch_size=5
        )
        plain = load_policy(micro_checkpoint).model.to(CPU, torch.float32)
        whole = plain(input_ids=ids, attention_mask=mask).logits[:, 6:-1] / 0.7
    expected = whole.log_softmax(dim=2)
    kept = mask[:, -9:].bool()
    wanted = expected.gather(2, ids[:, -9:, None])[..., 0]
    for one in (found, trimmed):
        torch.testing.assert_close(one.cpu().float()[kept], wanted[kept], atol=0.1, rtol=0.02)
    spread = -(expected.exp() * expected).sum(dim=2)
    torch.testing.assert_close(entropies.cpu().float()[kept], spread[kept], atol=0.1, rtol=0.02)


def drawn_texts() -> list[list[list[int]]]:
    """Prompts and responses, 24 of each."""
    draw = np.random.default_rng(0)
    return [[draw.integers(3, 300, n).tolist() for n in draw.integers(1, 40, 24)] for _ in range(2)]


def test_states_of_bfloat16_weights_are_those_of_the_processor(micro_policy):
    """Evaluation on a GPU holds bfloat16 weights; the means of pooled states are taken in float32 on both."""
    model, batches = copy.deepcopy(micro_policy.model), np.array_split(np.arange(24), 4)
    expected, found = (
        score(one, *drawn_texts(), batches, layers=[1], pad=0).features
        for one in (model.to(device, torch.bfloat16) for device in (CPU, GPU))
    )
    assert np.linalg.norm(found - expected) / np.linalg.norm(expected) < 0.02


@pytest.mark.parametrize("logprobs", [True, False])
def test_overlapping_passes_keep_their_rows(micro_policy, logprobs: bool):
    model, batches = copy.deepcopy(micro_policy.model), np.array_split(np.random.default_rng(0).permutation(24), 9)
    options = {"layers": [0, 1], "pad": 0, "logprobs": logprobs}
    expected, found = (
        score(one, *drawn_texts(), batches, **options)
        for one in (model.to(device, torch.float32) for device in (CPU, GPU))
    )
    np.testing.assert_allclose(found.features, expected.features, atol=1e-3)
    for mine, theirs in zip(found.logprobs or [], expected.logprobs or [], strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-3)
