"""Hidden states of stored rollouts and of their prompts, from passes over their exact token ids, step by step."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from cocal.errors import ConfigError, ContractError
from cocal.features.extract import pooled_states
from cocal.features.forward import PROMPT, score
from cocal.features.store import create_features, open_features
from cocal.models.loading import load_policy, read_config, text_config
from cocal.models.text import batches_of_tokens
from cocal.runtime.progress import Progress
from cocal.store import atomic_path, read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.rows import numbered
from cocal.store.run_folder import RunFolder, file_states
from cocal_study.config.features import FeatureSettings
from cocal_study.generation.evaluated import stored_states

if TYPE_CHECKING:
    from transformers import PretrainedConfig

_NAME = re.compile(r"(weight_v|step-)(\d+)")
_COLUMNS = ["response_id", "question_id", "prompt_ids", "response_ids", "length"]
Rescorer = Callable[[int, list[Sequence[int]], list[Sequence[int]]], list[np.ndarray]]
"""Function from rollout step, prompt ids and response ids to each response's log-probabilities, float32 (length,)."""


class StepCheckpoints:
    """Checkpoints in place of the policies that sampled the rollouts.

    The paper's approximation (appendix F.4) uses, for the steps after one stage and up to the next, the next stage's
    checkpoint. If the weights of every step were kept, each step uses the policy that sampled it. Raises ConfigError if
    a stage has another name, or neither stages nor exact weights are given, and ContractError if there is no such
    folder of exact weights.

    Args:
        stages: Policies of the stages in folders named step-N, the step after which they were saved.
        exact: Folder with the weights of every step, if they were kept. `weight_v000001` holds the weights that sampled
            step 1 (slime's `--update-weight-disk-dir`), and so does `step-0`.
    """

    def __init__(self, stages: Sequence[Path], exact: Path | None = None):
        self._exact = exact
        checkpoints: dict[int, Path] = {}
        for path in stages if exact is None else sorted(exact.glob("*")):
            match = _NAME.fullmatch(path.name)
            if exact is None and (match is None or match[1] != "step-"):
                raise ConfigError(f"--checkpoints: {path} is not named step-N")
            if match:
                checkpoints[int(match[2]) + (exact is not None and match[1] == "step-")] = path
        if not checkpoints and exact is None:
            raise ConfigError("--checkpoints: give the checkpoints of the stages, or weights of every step (--exact)")
        if not checkpoints:
            raise ContractError(f"{exact}: there is no such folder with the weights of every step")
        self._found = dict(sorted(checkpoints.items()))

    def of_step(self, step: int) -> Path:
        """The checkpoint of a rollout step, counted from 1. Raises ContractError if there is none."""
        later = [path for stage, path in self._found.items() if (stage == step if self._exact else stage >= step)]
        if later:
            return later[0]
        if self._exact:
            raise ContractError(f"{self._exact}: no weights of the policy that sampled step {step}")
        raise ContractError(f"no checkpoint is of step {step} or later; the last one is of step {self.last}")

    def spans(self, steps: int) -> Iterator[tuple[Path, range]]:
        """Yield each checkpoint with the range of steps among 1 to `steps` that it is used for."""
        for checkpoint, group in groupby(range(1, steps + 1), self.of_step):
            first, *later = group
            yield checkpoint, range(first, first + 1 + len(later))

    @property
    def config(self) -> "PretrainedConfig":
        """The configuration of the first policy (`cocal.models.loading.text_config`), whose shape all share."""
        return text_config(read_config(self.of_step(1)))

    @property
    def last(self) -> int:
        """The last step that has a checkpoint."""
        return max(self._found)

    @property
    def folders(self) -> list[Path]:
        """The checkpoints, in the order of their steps."""
        return list(self._found.values())

    def state(self) -> dict[str, tuple[int, int]]:
        """The file states of all weight files, which identify the set of policies."""
        return file_states(file for folder in self.folders for file in sorted(folder.glob("*.safetensors")))


def step_tables(folder: Path) -> dict[int, Path]:
    """Find the tables of rollouts by step; the steps count from 1 without gaps. Raises ContractError if the table of
    a step is missing."""
    tables = numbered(folder, r"step-(\d+)\.parquet", "step-00001.parquet")
    missing = sorted({*range(1, max(tables) + 1)} - {*tables})
    if missing:
        raise ContractError(f"{folder}: the table of step {missing[0]} is missing")
    return tables


def replay(
    checkpoints: StepCheckpoints,
    rollouts: Path,
    settings: FeatureSettings,
    *,
    run: RunFolder,
    output: Path,
    attributes: Mapping[str, str],
) -> None:
    """Write the feature store of rollouts step by step; a killed run resumes at the first unfinished step.

    Row k belongs to row k of the tables `step-00001.parquet` and so on (contract RESPONSES). Raises ContractError if
    one is missing or has another number of rows than the first, or if a checkpoint cannot be read.
    """
    tables = step_tables(rollouts)
    count = pq.read_metadata(tables[1]).num_rows
    writer = create_features(
        run.path / "features.zarr",
        responses=max(tables) * count,
        rows_per_chunk=count,
        attributes=attributes,
        resume=run.resumed,
        **stored_states(checkpoints.config, settings),
    )
    done = (open_features(writer.path, allow_partial=True).length > 0).reshape(-1, count).all(axis=1)
    todo = {*tables} - {int(place) + 1 for place in np.flatnonzero(done)}
    progress = Progress("step", max(tables), done=int(done.sum()))
    for checkpoint, steps in checkpoints.spans(max(tables)):
        if not todo.intersection(steps):
            continue
        policy = load_policy(checkpoint)
        for step in sorted(todo.intersection(steps)):
            started, table = time.monotonic(), tables[step]
            frame = read_frame(table, RESPONSES, _COLUMNS)
            if len(frame) != count:
                raise ContractError(
                    f"{table}: holds {len(frame)} rollouts, but step 1 has {count}; all steps need as many"
                )
            ids = frame["prompt_ids"].tolist(), frame["response_ids"].tolist()
            writer.write((step - 1) * count, frame, pooled_states(policy, writer.layout, *ids, settings.batch_tokens))
            rate = sum(len(tokens) for part in ids for tokens in part) / (time.monotonic() - started)
            progress.add(detail=f"by {checkpoint.name}, {rate:.0f} tokens/s")
    open_features(run.path / "features.zarr")  # raises an error if rows are missing
    run.publish({"features.zarr": output})


def extract_prompts(
    checkpoints: StepCheckpoints,
    rollouts: pd.DataFrame,
    settings: FeatureSettings,
    *,
    output: Path,
    attributes: Mapping[str, str],
) -> None:
    """Write the states of the last prompt token atomically, one row for each group of rollouts (appendix F.4): row k
    belongs to row k of `cocal_study.generation.labels.read_prompts`. The rollouts are in chronological order, and hold
    at least the first response of each group, with the columns step, dataset, question_id, prompt_ids and sample."""
    groups = rollouts[rollouts["sample"] == 0].reset_index(drop=True)
    groups = groups.assign(response_id=groups.index, length=1)
    with atomic_path(output) as partial:
        writer = create_features(
            partial,
            responses=len(groups),
            rows_per_chunk=int((groups["step"] == 1).sum()),
            attributes=attributes,
            poolings=(PROMPT,),
            **stored_states(checkpoints.config, settings),
        )
        for checkpoint, steps in checkpoints.spans(int(groups["step"].max())):
            rows, policy = groups[groups["step"].isin(steps)], load_policy(checkpoint)
            prompts, what = rows["prompt_ids"].tolist(), f"{checkpoint.name}: prompt"
            states = pooled_states(policy, writer.layout, prompts, [()] * len(prompts), settings.batch_tokens, what)
            writer.write(int((groups["step"] < steps.start).sum()), rows, states)


def rescorer(checkpoints: StepCheckpoints, batch_tokens: int) -> Rescorer:
    """A function that computes raw log-probabilities of rollouts with the checkpoints of their steps, in passes of at
    most `batch_tokens` tokens, padding included."""
    policy_of = lru_cache(maxsize=1)(load_policy)

    def rescore(step: int, prompts: list[Sequence[int]], responses: list[Sequence[int]]) -> list[np.ndarray]:
        policy = policy_of(checkpoints.of_step(step))
        lengths = [len(p) + len(r) for p, r in zip(prompts, responses, strict=True)]
        batches = batches_of_tokens(lengths, batch_tokens)
        raw = score(policy.model, prompts, responses, batches, layers=(0,), pad=policy.pad, logprobs=True).logprobs
        return [np.minimum(values, np.float32(0)) for values in raw or ()]

    return rescore
