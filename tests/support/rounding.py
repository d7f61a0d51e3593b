"""What tests of vLLM can ask of numbers: policies are float32 on a processor, and bfloat16 on a GPU."""

import numpy as np
import torch

GPU = torch.cuda.is_available()
INVARIANT = GPU and torch.cuda.get_device_capability() >= (9, 0)
"""Whether vLLM can make a response independent of the batch, which only newer GPUs need and can."""
REPEATS = INVARIANT or not GPU
"""Whether two engines give the same responses."""
ROUNDING = 0.1 if GPU else 1e-4
"""Of log-probabilities."""


def same_states(found: np.ndarray, expected: np.ndarray) -> None:
    """Compare states of two implementations."""
    np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max() if GPU else 1e-5)
