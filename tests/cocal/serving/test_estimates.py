"""The confidences that a server makes of sums, which need no vLLM: they are those of the companion."""

import numpy as np
import pytest
import torch

from cocal import Companion
from cocal.companion.companions import Companions, build_model
from cocal.companion.settings import CompanionSettings
from cocal.companion.spec import CompanionSpec
from cocal.fitting.config import BaseModelInfo, CompanionConfig
from cocal.serving.estimates import Estimator

HIDDEN = 6


def made(tokens: bool, states: str) -> tuple[Companions, CompanionConfig]:
    """A companion of two targets and two seeds that has learnt nothing."""
    settings = CompanionSettings(widths=(5, 4, 4), seeds=(42, 137), targets=("binary", "group"))
    inputs = 2 * HIDDEN + 3 * tokens
    model = build_model(settings, inputs)
    model.initialise()
    with torch.no_grad():
        model.output.weight.add_(torch.arange(4.0)[:, None, None])  # members of one seed differ, too
    counts = {"training_responses": 1, "validation_responses": 1, "training_error_share": 0.5}
    steps = {"steps": 1, "validation_steps": 1, "order": "chronological", "shuffle_seed": None}
    of = {"settings": settings, "inputs": inputs, "layer": 1, "poolings": ("last", "mean"), "best_pass": (1,) * 4}
    base = BaseModelInfo(name="micro", model_type="qwen3", hidden=HIDDEN, blocks=2, vocabulary=9)
    config = CompanionConfig(
        spec=CompanionSpec(**of, **counts, **steps), base_model=base, states=states, token_probability=tokens
    )
    return Companions(config.spec, model.eval()), config


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("states", ["float32", "bfloat16"])
@pytest.mark.parametrize("target", [None, "group"])
def test_estimates_are_the_confidences_of_the_companion(tokens, states, target):
    """In a server, states come as (responses, blocks, poolings, width), and what the model gave the tokens beside them,
    which is not rounded."""
    draw = torch.Generator().manual_seed(0)
    found, given = torch.randn(7, 1, 2, HIDDEN, generator=draw), -torch.rand(7, 3, generator=draw)
    estimator = Estimator(*made(tokens, states), target, torch.device("cpu"))
    members = estimator.members(found, given if tokens else None).tolist()
    inputs = torch.cat([found[:, 0, 0], found[:, 0, 1], *([given] if tokens else [])], 1).numpy()
    expected = Companion(*made(tokens, states)).score_states(inputs, target=target)
    np.testing.assert_allclose([estimator.mean(one) for one in members], expected, rtol=0, atol=1e-6)
    assert np.ptp(np.array(members), axis=1).min() > 1e-3
