"""An update of the policy by the formulas of the paper, from recorded rollouts alone."""

import numpy as np
import pandas as pd
import torch

import plain_grpo as plain


def normalised(rewards: np.ndarray, group: int) -> np.ndarray:
    """Equation 1 (n, 1)."""
    return plain.advantages(torch.from_numpy(rewards), group).numpy()[:, None]


def advantages(algorithm: str, rollouts: pd.DataFrame, decode, group: int, missing: float, weight: float) -> np.ndarray:
    """The advantage of each token, (responses, longest response), by appendix B.2.

    The responses of a group are consecutive rollouts; `decode` returns the text of token ids; `missing` is the
    confidence error of a response without a confidence, `weight` DCPO's weight of the group accuracy.
    """
    longest = rollouts["length"].max()
    correct = rollouts["correct"].to_numpy(dtype=float)
    confidence = rollouts["confidence"].to_numpy(dtype=float)
    stated = np.isfinite(confidence)
    if algorithm == "grpo":
        return np.tile(normalised(correct, group), longest)
    if algorithm == "rlcr":
        return np.tile(normalised(correct - np.where(stated, confidence - correct, missing) ** 2, group), longest)
    mean = correct.reshape(-1, group).mean(axis=1).repeat(group)
    target = (1 - weight) * correct + weight * mean
    calibration = normalised(-np.where(stated, np.abs(confidence - target), missing), group)
    found = np.tile(normalised(correct, group), longest)
    for row, (ids, text) in enumerate(zip(rollouts["response_ids"], rollouts["text"], strict=True)):
        statement = text.rfind("CONFIDENCE:")
        if statement > max(-1, text.rfind(r"\boxed")):  # after the answer; a malformed one is confidence text, too
            first = next(k for k in range(len(ids)) if len(decode(ids[: k + 1])) > statement)
            found[row, first:] = calibration[row]
    return found


def gradients(
    model, rollouts: pd.DataFrame, of_tokens: np.ndarray, loss: str, temperature: float, cut_teach: bool = True
) -> dict:
    """Gradient of the clipped loss at the policy that sampled the rollouts, by name of the parameter.

    Args:
        of_tokens: Advantages (responses, longest response).
        loss: "grpo", the mean over responses of the mean over tokens, or "dapo", the mean over all tokens.
        cut_teach: If false, cut rollouts have no loss, and none of their tokens counts among all tokens.
    """
    model.zero_grad()
    taught = rollouts["length"].where(cut_teach | ~rollouts["truncated"], 0).to_numpy()
    for row, (prompt, ids) in enumerate(zip(rollouts["prompt_ids"], rollouts["response_ids"], strict=True)):
        logprobs = plain.log_probabilities(model, list(prompt), list(ids), temperature)
        # the ratio to the policy that sampled is 1 at the first update, so that no clipping takes place
        gains = (logprobs * torch.as_tensor(of_tokens[row, : len(ids)], dtype=torch.float32))[: taught[row]].sum()
        (-gains / (len(ids) * len(rollouts) if loss == "grpo" else taught.sum())).backward()
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    return found
