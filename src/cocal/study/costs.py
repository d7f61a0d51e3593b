"""What parts of a study cost: wall-clock time, measured by the job that did the work, and the device it ran on."""

import json
import platform
from pathlib import Path
from typing import TypeVar

from pydantic import model_validator

from cocal.config.base import Count, Model, Name, Positive
from cocal.config.load import validate
from cocal.errors import ContractError
from cocal.store import write_text
from cocal.store.damage import unreadable

M = TypeVar("M", bound=Model)


class Cost(Model):
    """Time of one kind of work, start-up and loading excluded."""

    seconds: Positive
    """Wall-clock time."""
    items: Count
    """What was done in that time: rollout steps, responses or companions."""
    device: str
    """What it ran on."""


class TimeToConfidence(Model):
    """Mean time until one question of a set has a confidence (appendix F.4)."""

    dataset: Name
    pre_ms: Positive
    """Milliseconds of the pre-generation companion: prompt encoding and prediction."""
    post_s: Positive
    """Seconds of the post-generation companion: decoding, state of the response and prediction."""


class Latency(Model):
    """Inference times of a policy and its companions, loading and warm-up excluded (appendices E.2 and F.4)."""

    device: str
    """What it ran on."""
    questions: Count
    """Questions of each set whose time to confidence was measured, one after another."""
    engine: str
    """What generated the responses of a batch, and its version; the rest is measured in transformers."""
    generation_questions: Count
    """Questions whose responses were generated in one batch."""
    generation_seconds: Positive
    """Wall-clock time a question, one response each."""
    pool: Count
    """Responses a question that self-consistency compares."""
    pool_seconds: Positive
    """Wall-clock time a question, `pool` responses each."""
    predictions: Count
    """Predictions of a companion, one response each, that the next time is the mean of."""
    prediction_ms: Positive
    """Milliseconds of such a prediction."""
    time_to_confidence: tuple[TimeToConfidence, ...]

    @model_validator(mode="after")
    def _distinct_datasets(self) -> "Latency":
        if len({time.dataset for time in self.time_to_confidence}) != len(self.time_to_confidence):
            raise ValueError("time_to_confidence repeats a dataset")
        return self


def device_name() -> str:
    """The GPU's name, or the processor's with the number of compute threads."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    threads = torch.get_num_threads()
    return f"{_processor()}, {threads} thread{'s' * (threads > 1)}"


def write_cost(path: Path, cost: Model) -> None:
    """Write a cost as JSON, atomically."""
    write_text(path, cost.model_dump_json(indent=2) + "\n")


def read_cost(path: Path, model: type[M]) -> M:
    """The cost in a file.

    Raises:
        ContractError: if the file is missing or is not JSON.
        ConfigError: if it is not of this model.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise ContractError(unreadable(path, "JSON file", error)) from None
    return validate(model, content, str(path))


def _processor() -> str:
    """Model name of the processor where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
