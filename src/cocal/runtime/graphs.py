"""Work on a GPU that is repeated with tensors of the same form: it is recorded once and replayed."""

import os
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_WARM_UP = 3
"""Calls before the recording, in which libraries set themselves up."""


def recorded() -> bool:
    """Whether work on a GPU is recorded: where COCAL_CUDA_GRAPHS is 1, as `make card` and `make gpu` set it. No GPU has
    run a recording yet; once one has, this function goes."""
    return os.environ.get("COCAL_CUDA_GRAPHS") == "1"


class Recorded:
    """A function of tensors on a GPU as a CUDA graph, all kernels of which are started at once. A processor takes some
    five microseconds to start each of them otherwise, which is longer than small ones run.

    The first calls compute as usual. Every call has to be given the same function, with tensors of the same shapes and
    formats; only what it does on the device is repeated, and the graph keeps the memory that it takes. The device's
    generators that it draws from go on as they would without a recording.
    """

    def __init__(self, generators: Sequence[torch.Generator] = ()):
        self._generators = generators
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._given: list[Tensor] = []
        self._found = torch.empty(0)

    def __call__(self, function: Callable[..., Tensor], *given: Tensor) -> Tensor:
        """The function's result, a tensor of its own."""
        self._calls += 1
        if self._calls <= _WARM_UP:  # on a stream of its own, as PyTorch wants it
            usual, own = torch.cuda.current_stream(), torch.cuda.Stream()
            own.wait_stream(usual)
            with torch.cuda.stream(own):
                output = function(*given)
            usual.wait_stream(own)
            return output
        if self._graph is None:
            self._given = [tensor.clone() for tensor in given]
            self._graph = torch.cuda.CUDAGraph()
            for generator in self._generators:
                self._graph.register_generator_state(generator)
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):  # other threads may use the device
                self._found = function(*self._given)
        for own, tensor in zip(self._given, given, strict=True):
            own.copy_(tensor)
        self._graph.replay()
        return self._found.clone()
