"""From the token ids of responses to their hidden states, and from these to confidences."""

from collections.abc import Sequence

import numpy as np

from cocal.companion.companions import Companions
from cocal.config.evaluation import CompanionSettings, Target
from cocal.errors import ConfigError
from cocal.features.extract import pooled_states
from cocal.features.store import Layout, decoded, encoded
from cocal.models.loading import Policy
from cocal.own_policy.about import About
from cocal.own_policy.encoding import Encoded

BLOCK = 2048
"""Number of responses whose states are computed together, as `cocal features` does."""
ROWS = 4096
"""Number of responses that are scored together, as `cocal predictions` does; a multiple of `BLOCK`. With the same
numbers the same responses get the same confidences, to the last bit."""


def states_of(policy: Policy, about: About, rows: Sequence[Encoded], batch_tokens: int) -> np.ndarray:
    """Pooled states of responses, float32 (n, inputs), from teacher-forced passes over `BLOCK` of them at a time."""
    spec, found = about.spec, [np.empty((0, about.spec.inputs), dtype=np.float32)]
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        layout = Layout(len(block), (spec.layer,), spec.poolings, policy.hidden, len(block), about.states)
        prompts, responses = [row.prompt for row in block], [row.response for row in block]
        found.append(pooled_states(policy, layout, prompts, responses, batch_tokens).reshape(len(block), -1))
    return np.concatenate(found)


def confidences(
    companions: Companions, about: About, states: np.ndarray, target: Target | None = None, seed: int | None = None
) -> np.ndarray:
    """Confidences of responses, float64 (n,): the mean over the seeds of one target, or those of one seed.

    Raises:
        ConfigError: if there is no such target or seed.
        ContractError: if the states have another width.
    """
    targets, seeds = about.spec.settings.targets, about.spec.settings.seeds
    target = target or default_target(about.spec.settings)
    if target not in targets:
        raise ConfigError(f"the companion has no target {target!r}; it was fitted for {', '.join(targets)}")
    if seed is not None and seed not in seeds:
        raise ConfigError(f"the companion has no seed {seed}; it has {', '.join(map(str, seeds))}")
    chosen = [k for k, member in enumerate(companions.members) if member[0] == target and seed in (None, member[1])]
    states = np.ascontiguousarray(states, dtype=np.float32)
    rounded = decoded(encoded(states, about.states), about.states)
    parts = [companions.predict(rounded[k : k + ROWS])[chosen] for k in range(0, len(rounded), ROWS)]
    return np.concatenate([np.empty((len(chosen), 0)), *parts], axis=1).mean(axis=0)


def default_target(settings: CompanionSettings) -> Target:
    """The target that is scored where none is named: binary, if it was fitted."""
    return "binary" if "binary" in settings.targets else settings.targets[0]
