"""Steps with a cache that keeps its place, beside those with one that grows; on a GPU, recorded ones."""

import pytest
import torch
from transformers import DynamicCache

from cocal_study.generation import decoding
from cocal_study.generation.decoding import Fixed, Growing, logits_of
from rounding import ROUNDING

PROMPTS = torch.tensor([[0, 0, 30, 40], [31, 32, 33, 34], [0, 35, 36, 37], [0, 0, 0, 38], [39, 41, 42, 43]])
KEPT = {3: [0, 2, 3, 4], 5: [1, 3], 9: [1]}
"""Rows that go on after some steps: more than half, half, and fewer."""


@torch.inference_mode()
def course(kind, model) -> list[torch.Tensor]:
    """The logits of 12 steps whose tokens depend on the row and on the step."""
    ids = PROMPTS.to(model.device)
    mask, rows = (ids != 0).long(), torch.arange(len(ids), device=model.device)
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    cache = DynamicCache(config=model.config)
    logits_of(model, ids, mask, positions, cache)
    steps, found = kind(model, cache, mask, positions[:, -1:]), []
    for step in range(12):
        if step in KEPT:
            kept = torch.tensor(KEPT[step], device=model.device)
            steps.keep(kept)
            rows = rows[kept]
        found.append(steps.next(50 + 7 * rows + step).float().cpu())
    return found


@pytest.mark.parametrize("room", [1, 4, 128])
def test_a_cache_that_keeps_its_place_gives_the_same_logits(micro_policy, monkeypatch, room):
    """Also where it is laid out anew in the course, and where rows have ended that it still holds."""
    monkeypatch.setattr(decoding, "ROOM", room)
    usual = micro_policy.model.config._attn_implementation
    for expected, found in zip(*(course(kind, micro_policy.model) for kind in (Growing, Fixed)), strict=True):
        torch.testing.assert_close(found, expected, rtol=ROUNDING, atol=ROUNDING)
    assert micro_policy.model.config._attn_implementation == usual


def test_it_is_for_blocks_that_attend_to_all_that_is_behind(micro_policy):
    cache = DynamicCache(config=micro_policy.model.config)
    assert Fixed.suits(micro_policy.model, cache)
    config = micro_policy.model.config.to_dict() | {"sliding_window": 4, "use_sliding_window": True}
    config |= {"layer_types": ["sliding_attention"] * config["num_hidden_layers"]}
    sliding = DynamicCache(config=type(micro_policy.model.config).from_dict(config))
    assert not Fixed.suits(micro_policy.model, sliding)
