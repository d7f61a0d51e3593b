"""Features: the final block before the final RMSNorm, response tokens only, EOS included, exact token ids."""

import numpy as np
import pandas as pd
import pytest
import torch

from cocal.features.forward import capture, resolve_layers, score
from cocal.features.store import open_features
from cocal.models.text import batches_of_rows, batches_of_tokens
from cocal_study.config.features import FeatureSettings
from cocal_study.generation.evaluated import extract_features

PROMPTS = [[1, 30, 40, 50], [1, 31], [1, 32, 33, 34, 35, 36], [1, 40]]
RESPONSES = [[60, 61, 62, 2], [70, 2], [80, 81, 82, 83, 84], [90]]


@pytest.fixture(scope="module")
def model(micro_policy):
    return micro_policy[0]


def _score(model, prompts, responses, layers, batches=None, **options):
    return score(model, prompts, responses, batches or [np.arange(len(prompts))], layers=layers, pad=0, **options)


@torch.no_grad()
def _reference(model, prompt, response):
    """States before the final norm, by a plain forward pass of one unpadded sequence."""
    seen = []
    handle = model.model.norm.register_forward_pre_hook(lambda _m, inputs: seen.append(inputs[0]))
    output = model(torch.tensor([prompt + response]), output_hidden_states=True)
    handle.remove()
    return seen[0][0], output


def test_states_are_those_of_blocks_before_the_final_norm(model):
    """Last || mean over the response, the generated end of sequence included; blocks count from zero."""
    features, _ = _score(model, PROMPTS, RESPONSES, [0, 1])
    for prompt, response, found in zip(PROMPTS, RESPONSES, features, strict=True):
        states, output = _reference(model, prompt, response)
        of_response = states[len(prompt) :]
        np.testing.assert_allclose(found[1, 0], of_response[-1], atol=2e-5)
        np.testing.assert_allclose(found[1, 1], of_response.mean(dim=0), atol=2e-5)
        assert not np.allclose(found[1, 1], states.mean(dim=0), atol=1e-3), "the prompt would show"
        assert not np.allclose(found[1, 0], output.hidden_states[-1][0, -1], atol=1e-2), "the norm would show"
        after_first_block = output.hidden_states[1][0, -1].numpy()  # hidden_states[0] are the embeddings
        np.testing.assert_allclose(found[0, 0], after_first_block, atol=2e-5)
    (without_end,), _ = _score(model, PROMPTS[:1], [RESPONSES[0][:-1]], [1])
    assert not np.isclose(without_end, features[0][1:], atol=1e-3).all(axis=2).any(), "its absence would show"


def test_layers_are_named_by_their_index():
    assert resolve_layers("final", 36) == (35,)
    assert resolve_layers("all", 3) == (0, 1, 2)
    assert resolve_layers((30, 0), 36) == (0, 30, 35), "the final block is always there"
    with pytest.raises(ValueError, match="layer 36 does not exist"):
        resolve_layers((30, 36), 36)


def test_batches_and_padding_do_not_change_anything(model):
    together, logprobs = _score(model, PROMPTS, RESPONSES, [1], logprobs=True)
    for batches in ([np.array([i]) for i in range(4)], [np.array([3, 0]), np.array([2, 1])]):
        apart, other = _score(model, PROMPTS, RESPONSES, [1], batches, logprobs=True)
        for i in range(4):
            np.testing.assert_allclose(apart[i], together[i], atol=2e-5)
            np.testing.assert_allclose(other[i], logprobs[i], atol=2e-5)


def test_long_rows_are_summed_in_parts_and_log_probabilities_are_raw(model):
    """Rows of several hundred tokens beside a short one: as the reference, which sums once."""
    generator = np.random.default_rng(0)
    prompts = [generator.integers(3, 300, n).tolist() for n in (200, 20, 1)]
    responses = [generator.integers(3, 300, n).tolist() for n in (280, 300, 2)]
    features, logprobs = _score(model, prompts, responses, [1], logprobs=True)
    for prompt, response, found, values in zip(prompts, responses, features, logprobs, strict=True):
        states, output = _reference(model, prompt, response)
        np.testing.assert_allclose(found[0, 1], states[len(prompt) :].mean(dim=0), atol=1e-6)
        expected = output.logits[0, len(prompt) - 1 : -1].log_softmax(dim=1)[range(len(response)), response]
        np.testing.assert_allclose(values, expected, atol=2e-5)


def test_bfloat16_states_are_averaged_in_float32():
    """Planted: a sum in bfloat16 stops at 256 where every summand is 1."""

    class Block(torch.nn.Module):
        def forward(self, hidden):
            return hidden

    block = Block()
    hidden = torch.ones((2, 900, 4), dtype=torch.bfloat16)
    hidden[:, ::2] += torch.tensor(2.0**-7)
    with capture([block], [0], torch.tensor([1, 100]), torch.tensor([900, 700]), ["mean"]) as states:
        block(hidden)
    mean = states[0][:, 0]
    assert mean.dtype == torch.float32
    torch.testing.assert_close(mean[0], hidden[0, 1:].double().mean(dim=0).float(), rtol=1e-6, atol=0)
    torch.testing.assert_close(mean[1], hidden[1, 100:700].double().mean(dim=0).float(), rtol=1e-6, atol=0)


def test_batches_hold_every_row_once_within_their_limits():
    lengths = [5, 1, 9, 3, 3]
    for batches in (of_tokens := batches_of_tokens(lengths, 9), of_rows := batches_of_rows(lengths, 2)):
        assert sorted(i for batch in batches for i in batch) == [0, 1, 2, 3, 4]
    assert all(len(batch) * max(lengths[i] for i in batch) <= 9 for batch in of_tokens)
    assert [len(batch) for batch in of_rows] == [2, 2, 1]
    assert [len(batch) for batch in batches_of_tokens([50, 60], 9)] == [1, 1]


@pytest.mark.parametrize("rows_per_write", [2048, 3])
def test_extraction_writes_a_store_in_the_order_of_the_responses(micro_policy, tmp_path, monkeypatch, rows_per_write):
    rows = {"response_id": [7, 8, 20, 21], "question_id": ["a", "b", "c", "d"], "prompt_ids": PROMPTS}
    frame = pd.DataFrame(rows | {"response_ids": RESPONSES, "length": [len(r) for r in RESPONSES]})
    settings = FeatureSettings(layers="all", dtype="float32", batch_tokens=12)
    monkeypatch.setattr("cocal_study.generation.evaluated._ROWS_PER_WRITE", rows_per_write)
    extract_features(micro_policy, frame, settings, output=tmp_path / "f.zarr", attributes={"a": "b"})
    reader = open_features(tmp_path / "f.zarr")
    assert reader.response_id.tolist() == rows["response_id"]
    assert reader.length.tolist() == [4, 2, 5, 1]
    expected, _ = _score(micro_policy.model, PROMPTS, RESPONSES, [0, 1])
    for layer in (0, 1):
        np.testing.assert_allclose(reader.read(0, 4, layer=layer), [e[layer].ravel() for e in expected], atol=2e-5)


def test_the_prompt_state_is_that_of_the_last_prompt_token(model):
    """Appendix F.4: the same with a response behind it and without one."""
    last = model.config.num_hidden_layers - 1
    poolings = ("last", "mean", "prompt")
    features, _ = _score(model, PROMPTS, RESPONSES, [last], poolings=poolings)
    turned, _ = _score(model, PROMPTS, RESPONSES, [last], poolings=poolings[::-1])
    np.testing.assert_array_equal(turned[:, :, ::-1], features)
    without, _ = _score(model, PROMPTS, [[]] * len(PROMPTS), [last], poolings=("prompt",))
    for prompt, response, found, alone in zip(PROMPTS, RESPONSES, features, without, strict=True):
        states, _ = _reference(model, prompt, response)
        np.testing.assert_allclose(found[0, 2], states[len(prompt) - 1].numpy(), atol=2e-5)
        np.testing.assert_allclose(alone[0, 0], found[0, 2], atol=2e-5)
        assert not np.allclose(found[0, 2], states[len(prompt)].numpy(), atol=1e-2)


def test_means_stay_float32_where_the_pass_is_bfloat16(model):
    """Autocast takes a product of float32 states and weights in bfloat16."""
    seen = []
    handle = model.model.layers[-1].register_forward_hook(lambda _m, _i, output: seen.append(output))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (found,), _ = _score(model, PROMPTS[:1], RESPONSES[:1], [model.config.num_hidden_layers - 1])
    handle.remove()
    states = (seen[0][0] if isinstance(seen[0], tuple) else seen[0]).float()[0, len(PROMPTS[0]) :]
    np.testing.assert_allclose(found[0, 1], states.mean(dim=0).numpy(), rtol=1e-5, atol=1e-6)
