"""The study's vLLM engine with the connector that keeps states for a server, so that tests compare them with a pass."""

from contextlib import contextmanager
from dataclasses import asdict
from functools import partial

import numpy as np
import pytest

from cocal.engines.states import FIRST_RUNNER, STATES, asking, engine_settings, implementation
from cocal_study.generation.engines import open_engine


@contextmanager
def open_reading(settings, checkpoint, layers, poolings):
    """Open a checkpoint with an engine that keeps the states of these blocks and poolings."""
    import vllm

    kept = engine_settings(layers, "cocal.engines.states_connector:StatesConnector", poolings=list(poolings))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in FIRST_RUNNER.items():
            patch.setenv(name, value)
        patch.setattr(vllm, "LLM", partial(vllm.LLM, model_impl=implementation(checkpoint), **kept))
        with open_engine(settings, checkpoint) as engine:
            yield engine


def sampled(engine, prompts, sampling, seeds):
    """Prompt, token ids and states, float32 (layers, poolings, hidden), of each response to each prompt."""
    settings = asdict(sampling)
    count, _ = settings.pop("samples"), settings.pop("best_logprobs")
    asked = {"stop_token_ids": engine._ends, "ignore_eos": True, "extra_args": asking(), **settings}
    parameters = [{"seed": seed + j, **asked} for seed in seeds for j in range(count)]
    rows = [prompt for prompt in prompts for _ in range(count)]
    outputs = zip(rows, engine._run(rows, parameters), strict=True)
    return [(row, list(one.outputs[0].token_ids), one.kv_transfer_params[STATES]) for row, one in outputs]


def read(engine, prompts, responses):
    """States of responses that exist, float32 (n, layers, poolings, hidden)."""
    rows = [[*prompt, *response] for prompt, response in zip(prompts, responses, strict=True)]
    parameters = [{"max_tokens": 1, "temperature": 0, "extra_args": asking(len(prompt))} for prompt in prompts]
    return np.stack([one.kv_transfer_params[STATES] for one in engine._run(rows, parameters)])
