"""What TRL's trainers sampled, captured for recording: a mixin for `GRPOTrainer`."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cocal.answers.judge import Verdicts
from cocal.engines.engine import Completion, Reason
from cocal.errors import ContractError
from cocal.features.forward import Pooled, score
from cocal.models.text import batches_of_rows, plain_texts
from cocal.rewards import Rewards
from cocal.rollouts.recorded import StepWriter, rollout_rows, sampled_rows

if TYPE_CHECKING:
    import pandas as pd
    from trl import GRPOTrainer

    from cocal.companion.stepwise import OnlineLearner


class RolloutCapture(GRPOTrainer if TYPE_CHECKING else object):
    """Mixin for TRL's `GRPOTrainer`, which it precedes among the bases of a class.

    If `_layers` names blocks, one teacher-forced pass over the exact token ids, under the policy that produced them and
    in the precision of its update, gives the pooled states of the rollouts. The main process writes them.
    """

    _layers: tuple[int, ...] = ()
    """Zero-based indices of the blocks whose states are captured."""
    _states_dtype: torch.dtype = torch.float32
    """Number format in which these states will be stored."""
    _generated: tuple[list, list | None] = ([], None)
    """Response ids of this process's last rollouts, and masks of the policy's own tokens, if there are tools."""
    _rewards_of_step: torch.Tensor | Any = None
    _recorder: StepWriter | Any = None
    """Writer of rollouts and states in the main process; None in the others."""
    online: "OnlineLearner | None" = None
    """Companions that learn from the rollouts of each step, in the main process; otherwise None."""
    states_seconds: float = 0.0
    """Seconds of the passes over states, and of companions that learn from them, since somebody set this to 0."""

    def _given_logprobs(self, batch: dict[str, torch.Tensor]) -> torch.Tensor | None:
        """Raw log-probabilities (rows, length) that came with the rollouts; None if a pass has to give them."""

    def _generate(self, prompts):
        """TRL's rollouts. Their ids and masks are kept, since a batch with `mask_truncated_completions` lacks them."""
        generated = super()._generate(prompts)
        self._generated = [list(ids) for ids in generated[1]], generated[2]
        return generated

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        """TRL's rewards (rollouts of all processes, functions), which are kept for recording."""
        self._rewards_of_step = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        return self._rewards_of_step

    def _gathered(self, rows: list[dict]) -> list[dict]:
        """All rollouts in the main process, and none in the others."""
        count = self.accelerator.num_processes
        if count == 1:
            return rows
        # States travel as they are stored: those of a step of Qwen3-8B, all layers, take 1.2 GB in bfloat16.
        if self._layers:
            form = {"dtype": self._states_dtype, "copy": True}  # without a copy, each row would carry the states of all
            rows = [row | {"states": torch.from_numpy(row["states"]).to(**form)} for row in rows]
        parts = [None] * count if self.accelerator.is_main_process else None
        torch.distributed.gather_object(rows, parts, dst=0)
        gathered = [row for part in parts or () for row in part]
        if self._layers:
            gathered = [row | {"states": row["states"].float().numpy()} for row in gathered]
        return gathered

    def _recorded(
        self, rows: list[dict], verdicts: Verdicts, rewards: Rewards, step: int, dataset: str, prompt_format="answer"
    ) -> "pd.DataFrame":
        """Begin to write the table of a step's gathered rollouts, let companions learn from it, and return it."""
        sampled = sampled_rows(
            [row["completion"] for row in rows],
            [row["text"] for row in rows],
            prompt_format,
            dataset=dataset,
            question_ids=[row["question_id"] for row in rows],
            prompt_ids=[row["prompt_ids"] for row in rows],
            group_size=self.num_generations,
            step=step,
            first=(step - 1) * len(rows),
        )
        frame = rollout_rows(sampled, verdicts, rewards, self.num_generations)
        states = np.stack([row["states"] for row in rows]) if self._layers else None
        self._recorder.write(frame, states)
        if self.online is not None:
            began = time.monotonic()
            self.online.learn(frame, states)  # pyright: ignore[reportArgumentType] (whoever learns has layers)
            self.states_seconds += time.monotonic() - began
        return frame

    def _captured(self, batch: dict[str, torch.Tensor]) -> list[dict[str, Any]]:
        """The prompt_ids, completion, states and text of each of this process's rollouts in TRL's batch."""
        if "num_images" in batch:
            raise ContractError("the prompts have images, which the recording cannot read; train without the recording")
        rows = zip(batch["prompt_ids"].cpu(), batch["prompt_mask"].bool().cpu(), strict=True)
        prompts = [row[keep].tolist() for row, keep in rows]
        responses, masks = self._generated
        given = self._given_logprobs(batch)
        states: Any = None
        logprobs: Any = None
        if self._layers or given is None:
            began = time.monotonic()
            states, logprobs = self._scored(prompts, responses, logprobs=given is None)
            self.states_seconds += time.monotonic() - began
        if given is not None:
            logprobs = [row[: len(ids)] for row, ids in zip(given.float().cpu().numpy(), responses, strict=True)]
        ends = set(self.eos_token_ids)
        reasons: list[Reason] = ["stop" if ids[-1] in ends else "length" for ids in responses]
        if masks is not None:
            reasons = [reason if all(mask) else "tool_calls" for reason, mask in zip(reasons, masks, strict=True)]
        return [
            {
                "prompt_ids": prompts[k],
                "completion": Completion(ids, logprobs[k], reasons[k]),
                "states": states[k] if self._layers else None,
                "text": text,
            }
            for k, (ids, text) in enumerate(zip(responses, plain_texts(self._tokenizer, responses), strict=True))
        ]

    def _scored(self, prompts: list[list[int]], responses: list[list[int]], logprobs: bool) -> Pooled:
        lengths = [len(p) + len(r) for p, r in zip(prompts, responses, strict=True)]
        with self.accelerator.autocast():  # the update's precision, which accelerate sets for the whole model only
            return score(
                self.model,
                prompts,
                responses,
                # Every process takes the same number of batches, since sharded parameters are gathered in step.
                batches_of_rows(lengths, self.args.per_device_train_batch_size),
                layers=self._layers or (0,),
                pad=self._tokenizer.pad_token_id,
                unwrapped=self.accelerator.unwrap_model(self.model),
                logprobs=logprobs,
            )
