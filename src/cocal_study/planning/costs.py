"""Measured costs of parts of a study: wall-clock time and device, recorded by the job that did the work."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from cocal.errors import ContractError
from cocal.runtime.numerics import processor
from cocal.settings.base import Count, Model, Name, Positive
from cocal.store import read_document, write_document
from cocal.store.damage import absent, unreadable
from cocal_study.config.parse import validate

M = TypeVar("M", bound=Model)


class Cost(Model):
    """Time of one kind of work, without start-up and loading."""

    seconds: Positive
    """Wall-clock time."""
    items: Count
    """Number of rollout steps, responses or companions that were computed in that time."""
    states_seconds: Positive | None = None
    """Wall-clock time of the passes that read the states of the responses, which `seconds` leaves out; None where no
    such pass was timed."""
    vllm_differences: tuple[tuple[float, float], ...] = ()
    """Mean and largest absolute difference between vLLM's and the trainer's log-probabilities of tokens, by step; empty
    where nothing was compared."""
    device: str
    """Device name."""


class TimeToConfidence(Model):
    """Mean time until one question of a set has a confidence (appendix F.4)."""

    dataset: Name
    pre_ms: Positive
    """Milliseconds of the pre-generation companion, for prompt encoding and prediction."""
    post_s: Positive
    """Seconds of the post-generation companion, for decoding, the response's hidden states and prediction."""


class Latency(Model):
    """Inference times of a policy and its companions, without loading and warm-up (appendices E.2 and F.4)."""

    device: str
    """Device name."""
    questions: Count
    """Number of questions of each set whose time to confidence was measured, one after another."""
    engine: str
    """Name and version of the engine that generated the batches; all other times are measured in transformers."""
    generation_dataset: Name
    """Question set whose questions were answered in one batch."""
    generation_questions: Count
    """Number of questions whose responses were generated in one batch."""
    generation_seconds: Positive
    """Wall-clock time per question, with one response each."""
    pool: Count
    """Number of responses per question that self-consistency compares."""
    pool_questions: Count | None = None
    """Number of questions whose pools were generated in one batch; None if all."""
    pool_seconds: Positive
    """Wall-clock time per question, with `pool` responses each."""
    predictions: Count
    """Number of companion predictions, each for one response, over which `prediction_ms` is averaged."""
    prediction_ms: Positive
    """Mean time of one prediction in milliseconds."""
    time_to_confidence: tuple[TimeToConfidence, ...]


def device_name() -> str:
    """The name of the GPU, or that of the processor with the number of compute threads."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    threads = torch.get_num_threads()
    return f"{processor()}, {threads} thread{'s' * (threads > 1)}"


def write_cost(path: Path, cost: Model, attributes: Mapping[str, str]) -> None:
    """Write a cost atomically as JSON with its provenance attributes."""
    write_document(path, cost.model_dump(mode="json"), attributes)


def read_cost(path: Path, model: type[M]) -> M:
    """The cost in a file. Raises ContractError if the file is missing, is not JSON, or has changed since it was
    written, and ConfigError if it does not fit the model."""
    return validate(model, read_document(path), str(path))


def job_seconds(path: Path) -> float:
    """Wall-clock seconds of a whole job, its start included, as Snakemake has measured them (the column `s` of its
    benchmark file). Of a job that was stopped and resumed, these are the seconds of its last run. Raises ContractError
    if the file is missing or holds no such number."""
    try:
        with path.open(newline="") as file:
            return float(next(csv.DictReader(file, delimiter="\t"))["s"])
    except FileNotFoundError:
        raise ContractError(absent(path)) from None
    except (StopIteration, KeyError, TypeError, ValueError) as error:
        raise ContractError(unreadable(path, "benchmark file", error)) from None
