"""Hidden states of stored rollouts, from one teacher-forced pass over their exact token ids, step by step."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from cocal.config.evaluation import FeatureSettings
from cocal.errors import ContractError
from cocal.features.extract import pooled_states, stored_states
from cocal.features.forward import score
from cocal.features.readers import StepCheckpoints
from cocal.features.store import open_features
from cocal.features.writer import FeatureWriter, create_features
from cocal.models.batches import batches_of_tokens
from cocal.models.loading import Policy, load_policy
from cocal.runtime.progress import Progress
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.rows import numbered
from cocal.store.run_folder import RunFolder

_COLUMNS = ["response_id", "question_id", "prompt_ids", "response_ids", "length"]


def step_tables(folder: Path) -> dict[int, Path]:
    """Find the tables of rollouts by step; the steps count from 1 without gaps.

    Raises:
        ContractError: if the table of a step is missing.
    """
    found = numbered(folder, r"step-(\d+)\.parquet", "step-00001.parquet")
    missing = sorted({*range(1, max(found) + 1)} - {*found})
    if missing:
        raise ContractError(f"{folder}: the table of step {missing[0]} is missing")
    return found


def replay(
    checkpoints: StepCheckpoints,
    rollouts: Path,
    settings: FeatureSettings,
    *,
    run: RunFolder,
    output: Path,
    attributes: Mapping[str, str],
) -> None:
    """Write the feature store of rollout tables step by step; a killed run resumes at the first unfinished step.

    Args:
        checkpoints: Checkpoint of each step.
        rollouts: Folder of `step-00001.parquet` and so on (contract RESPONSES), all with the same number of rows.
        settings: Layers, number format and batch size.
        run: Working folder.
        output: Path of the new store; its row k belongs to row k of the tables.
        attributes: Provenance of the store.

    Raises:
        ContractError: if a table is missing or has another number of rows, or a checkpoint cannot be read.
    """
    tables = step_tables(rollouts)
    count = pq.read_metadata(tables[1]).num_rows
    writer: FeatureWriter | None = None
    done = np.zeros(0, dtype=bool)
    for checkpoint, steps in checkpoints.spans(max(tables)):
        if done.size and done[steps.start - 1 : steps.stop - 1].all():
            continue
        policy = load_policy(checkpoint)
        if writer is None:
            writer = create_features(
                run.path / "features.zarr",
                responses=max(tables) * count,
                rows_per_chunk=count,
                attributes=attributes,
                resume=run.resumed,
                **stored_states(policy, settings),
            )
            length = open_features(writer.path, allow_partial=True).length
            done = (length > 0).reshape(-1, count).all(axis=1)
            progress = Progress("step", max(tables), done=int(done.sum()))
        for step in steps:
            if done[step - 1]:
                continue
            started = time.monotonic()
            tokens = _replay_step(writer, tables[step], step, policy, settings.batch_tokens)
            rate = tokens / (time.monotonic() - started)
            progress.add(detail=f"by {checkpoint.name}, {rate:.0f} tokens/s")
    open_features(run.path / "features.zarr")  # raises an error if rows are missing
    run.publish({"features.zarr": output})


def _replay_step(writer: FeatureWriter, table: Path, step: int, policy: Policy, batch_tokens: int) -> int:
    """Write the states of one table, which fill one chunk of the store, and return the number of its tokens."""
    frame, count = read_frame(table, RESPONSES, _COLUMNS), writer.layout.rows_per_chunk
    if len(frame) != count:
        raise ContractError(f"{table}: holds {len(frame)} rollouts, but step 1 has {count}; all steps need as many")
    prompts, responses = frame["prompt_ids"].tolist(), frame["response_ids"].tolist()
    states = pooled_states(policy, writer.layout, prompts, responses, batch_tokens)
    writer.write_rows((step - 1) * count, frame, states)
    return sum(map(len, prompts)) + sum(map(len, responses))


class Rescorer:
    """Computes raw log-probabilities of rollouts with the checkpoints of their steps.

    Args:
        checkpoints: Checkpoint of each step.
        batch_tokens: Largest number of tokens in one forward pass, padding included.
    """

    def __init__(self, checkpoints: StepCheckpoints, batch_tokens: int):
        self._checkpoints = checkpoints
        self._batch_tokens = batch_tokens
        self._path: Path | None = None

    def __call__(self, step: int, prompts: list[Sequence[int]], responses: list[Sequence[int]]) -> list[np.ndarray]:
        """Return float32 (length,) log-probabilities of each response of a step; values rounded above 0 become 0."""
        path = self._checkpoints.of_step(step)
        if path != self._path:
            self._policy = load_policy(path)
            self._path = path
        lengths = [len(p) + len(r) for p, r in zip(prompts, responses, strict=True)]
        found: list = [None] * len(responses)
        batches = batches_of_tokens(lengths, self._batch_tokens)
        pad = self._policy.pad
        for part in score(self._policy.model, prompts, responses, batches, layers=(0,), pad=pad, logprobs=True):
            for place, values in zip(part.rows, part.logprobs, strict=True):
                found[place] = np.minimum(values, np.float32(0))
        return found
