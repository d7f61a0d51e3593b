"""What parts of a study cost: wall-clock time, measured by the job that did the work, and the device it ran on."""

import json
import platform
from pathlib import Path
from typing import TypeVar

from cocal.config.base import Count, Model, Positive
from cocal.config.load import validate
from cocal.errors import ContractError
from cocal.store import write_text

M = TypeVar("M", bound=Model)


class Cost(Model):
    """Time of one kind of work, start-up and loading excluded."""

    seconds: Positive
    """Wall-clock time."""
    items: Count
    """What was done in that time: rollout steps, responses or companions."""
    device: str
    """What it ran on."""


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
        raise ContractError(f"{path}: not a readable JSON file ({error}); delete it and rerun") from None
    return validate(model, content, str(path))


def _processor() -> str:
    """Model name of the processor where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
