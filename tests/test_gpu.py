"""What runs otherwise on a GPU than on a processor: features on the device, passes that overlap.

The results are compared with those of the processor, which the other tests hold against references.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from cocal.companion.dropout import Dropout
from cocal.companion.single import SingleMember
from cocal.features.forward import score
from companion_run import SETTINGS, Run, final_features, small_run

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

GPU, CPU = torch.device("cuda"), torch.device("cpu")
# Without dropout, whose stream is the device's own.
STILL = SETTINGS.model_copy(update={"dropout": ()})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return small_run(tmp_path).write()


@pytest.mark.parametrize("memory", [None, 0])
@pytest.mark.parametrize(("order", "shuffle_seed"), [("chronological", None), ("shuffled", 7)])
def test_fits_are_those_of_the_processor(run: Run, order: str, shuffle_seed: int | None, memory: int | None):
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


def test_features_held_and_streamed_give_the_same_fit(run: Run):
    """With dropout, whose masks are drawn anew for every batch."""
    held, streamed = (run.fit(settings=SETTINGS, device=GPU, memory=memory)[0] for memory in (None, 0))
    for name, weight in held.model.state_dict().items():
        torch.testing.assert_close(streamed.model.state_dict()[name], weight, rtol=1e-4, atol=1e-5)


def test_masks_change_from_batch_to_batch_at_their_rate():
    dropout = Dropout([torch.Generator().manual_seed(seed) for seed in (1, 2)], (512,), (0.25,), GPU)
    first, second = (dropout.draw(512)[0] for _ in range(2))
    for mask in (first, second):
        assert mask.unique().tolist() == pytest.approx([0, 1 / 0.75])
        assert mask.mean().item() == pytest.approx(1, abs=0.01)
        assert not torch.equal(mask[0], mask[1])
    assert not torch.equal(first, second)


def test_one_response_at_a_time_is_predicted_as_many(run: Run):
    companions, _ = run.fit(settings=STILL, device=CPU)
    features = final_features(run)[:8]
    expected = companions.predict(features)[1]
    alone = SingleMember(companions, 1, GPU)
    found = [alone.predict(torch.from_numpy(row[None])) for row in features]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("logprobs", [True, False])
def test_overlapping_passes_keep_their_rows(micro_policy, logprobs: bool):
    model = micro_policy[0]
    draw = np.random.default_rng(0)
    prompts, responses = ([draw.integers(3, 300, n).tolist() for n in draw.integers(1, 40, 24)] for _ in range(2))
    batches = np.array_split(draw.permutation(24), 9)
    options = {"layers": [0, 1], "pad": 0, "logprobs": logprobs}
    before = model.device, model.dtype
    try:
        expected, found = (
            list(score(model.to(device, torch.float32), prompts, responses, batches, **options))
            for device in (CPU, GPU)
        )
    finally:
        model.to(*before)
    for one, other in zip(expected, found, strict=True):
        assert one.rows.tolist() == other.rows.tolist()
        np.testing.assert_allclose(other.features, one.features, atol=1e-3)
        for mine, theirs in zip(other.logprobs or [], one.logprobs or [], strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-3)
