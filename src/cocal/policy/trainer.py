"""TRL's GRPO trainer, subclassed once: our advantages, and every rollout recorded with its policy's states."""

import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from accelerate.utils import gather_object
from transformers import TrainerCallback
from trl import GRPOTrainer

from cocal.config.policy import Algorithm, Policy
from cocal.features.forward import batches_of_rows, score
from cocal.policy.checkpoints import COMPLETE
from cocal.policy.objectives import confidence_start, step_advantages, step_rewards
from cocal.policy.recorder import RolloutRecorder, Rollouts
from cocal.policy.rewards import Rewards, group_accuracy
from cocal.store import label_folder
from cocal.verify.answers import extract_answer
from cocal.verify.confidence import parse_confidence

_PLAIN = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}


class RecordingGRPOTrainer(GRPOTrainer):
    """GRPO, RLCR and DCPO whose rollouts feed companions. Serves one CPU and several GPUs alike.

    Generation and update are TRL's own; rewards and advantages come from `cocal.policy.objectives`. After each
    generation, one teacher-forced pass over the exact token ids under the policy that produced them gives raw
    log-probabilities and pooled states; the main process writes them.

    Args:
        recorder: writes rollouts, in the main process; None in the others.
        layers: zero-based block indices whose states are kept.
        policy: settings of the training.
        algorithm: which objective; decides the advantages.
        stages: rollout step after which the policy is kept -> its checkpoint folder.
        attributes: provenance of the checkpoints.
        **kwargs: of GRPOTrainer. The data set must hold the scheduled questions in order, with columns
            `prompt` and `question_id`; the single reward function returns correctness.
    """

    def __init__(
        self,
        *,
        recorder: RolloutRecorder | None,
        layers: Sequence[int],
        policy: Policy,
        algorithm: Algorithm,
        stages: Mapping[int, Path],
        attributes: Mapping[str, str],
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._recorder = recorder
        self._layers = tuple(layers)
        self._policy = policy
        self._algorithm = algorithm
        self._rewards_of_step: torch.Tensor | None = None
        self.summary = ""
        """Of the last rollouts, for the progress line."""
        self.add_callback(_StepCallback(self, policy.updates_per_step, stages, attributes))

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        """TRL's rewards (all processes, functions), kept for the record."""
        self._rewards_of_step = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        return self._rewards_of_step

    def _generate_and_score_completions(self, inputs):
        """TRL's batch with the objective's advantages; records the rollouts on the way."""
        batch = super()._generate_and_score_completions(inputs)
        prompts = _unpadded(batch["prompt_ids"], batch["prompt_mask"])
        responses = _unpadded(batch["completion_ids"], batch["completion_mask"])
        features, logprobs = self._states(prompts, responses)
        ends = set(self.eos_token_ids)
        text = self._tokenizer.batch_decode(responses, **_PLAIN)
        local = [
            {
                "question_id": row["question_id"],
                "prompt_ids": prompt,
                "response_ids": response,
                "logprobs": logprob,
                "features": feature,
                "truncated": response[-1] not in ends,
                "text": said,
                "confidence": parse_confidence(said) if self._algorithm != "grpo" else None,
            }
            for row, prompt, response, logprob, feature, said in zip(
                inputs, prompts, responses, logprobs, features, text, strict=True
            )
        ]
        rows = gather_object(local)
        correct = self._rewards_of_step[:, 0].cpu().numpy() > 0.5
        confidence = np.array([row["confidence"] for row in rows], dtype=np.float64)
        rewards = step_rewards(self._policy, self._algorithm, correct, confidence)
        batch["advantages"] = self._advantages(rewards, rows, batch["completion_ids"])
        if self._recorder is not None:
            self._record(rows, correct, confidence, rewards)
        return batch

    def _advantages(self, rewards: Rewards, rows: list[dict], ids: torch.Tensor) -> torch.Tensor:
        """This process's part of the step's advantages: (responses,) or (responses, tokens)."""
        starts = np.zeros(len(rows), dtype=np.int64)
        if self._algorithm == "dcpo":
            starts[:] = [confidence_start(row["response_ids"], self._plain_text) for row in rows]
        advantages = step_advantages(self._policy, self._algorithm, rewards, starts, ids.shape[1])
        first = self.accelerator.process_index * len(ids)
        return torch.as_tensor(advantages[first : first + len(ids)], dtype=torch.float32, device=ids.device)

    def _plain_text(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, **_PLAIN)

    def _states(
        self, prompts: list[list[int]], responses: list[list[int]]
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Pooled states (layers, 2, hidden) and raw log-probabilities of each response of this process."""
        lengths = [len(p) + len(r) for p, r in zip(prompts, responses, strict=True)]
        # As many batches on every process, since sharded parameters are gathered in step; smaller than a micro-batch,
        # since short responses then do not pay for the longest one's padding.
        batches = batches_of_rows(lengths, max(1, self.args.per_device_train_batch_size // 4))
        features: list = [None] * len(responses)
        logprobs: list = [None] * len(responses)
        scored = score(
            self.model,
            prompts,
            responses,
            batches,
            layers=self._layers,
            pad=self._tokenizer.pad_token_id,
            unwrapped=self.accelerator.unwrap_model(self.model),
            logprobs=True,
        )
        for part in scored:
            for k, i in enumerate(part.rows):
                features[i], logprobs[i] = part.features[k], part.logprobs[k]
        return features, logprobs

    def _record(self, rows: list[dict], correct: np.ndarray, confidence: np.ndarray, rewards: Rewards) -> None:
        step = self.state.global_step // self._policy.updates_per_step + 1
        none = np.full(len(rows), np.nan)
        rollouts = Rollouts(
            question_id=[row["question_id"] for row in rows],
            prompt_ids=[row["prompt_ids"] for row in rows],
            response_ids=[row["response_ids"] for row in rows],
            logprobs=[row["logprobs"] for row in rows],
            text=[row["text"] for row in rows],
            truncated=np.array([row["truncated"] for row in rows]),
            answer=[extract_answer(row["text"]) for row in rows],
            correct=correct,
            group_accuracy=group_accuracy(correct, self.num_generations),
            reward_task=rewards.task,
            reward_calibration=none if rewards.calibration is None else rewards.calibration,
            confidence=confidence,
            features=np.stack([row["features"] for row in rows]),
        )
        self._recorder.write(step, rollouts)
        self.summary = (
            f"reward {np.mean(rewards.task + np.nan_to_num(rollouts.reward_calibration)):.3f}  "
            f"accuracy {correct.mean():.3f}  "
            f"length {np.mean([len(row['response_ids']) for row in rows]):.1f}  "
            f"truncated {rollouts.truncated.mean():.1%}"
        )
        if self._algorithm != "grpo":
            valid = ~np.isnan(confidence)
            self.summary += (
                f"  confidence {confidence[valid].mean() if valid.any() else np.nan:.3f} of {valid.mean():.0%}"
            )


class _StepCallback(TrainerCallback):
    """After each rollout step: progress, and at a stage the policy as a Hugging Face checkpoint."""

    def __init__(
        self,
        trainer: RecordingGRPOTrainer,
        updates_per_step: int,
        stages: Mapping[int, Path],
        attributes: Mapping[str, str],
    ):
        self._trainer = trainer
        self._updates = updates_per_step
        self._stages = stages
        self._attributes = attributes
        self._started = 0.0
        self._first = 0

    def on_train_begin(self, args, state, control, **kwargs):
        self._started, self._first = time.monotonic(), state.global_step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % self._updates:
            return
        step, steps = state.global_step // self._updates, state.max_steps // self._updates
        if self._trainer.accelerator.is_main_process:
            done = (state.global_step - self._first) // self._updates
            each = (time.monotonic() - self._started) / done
            left = each * (steps - step)
            logging.info("step %d/%d  %s  %.2f s a step, %.0f s left", step, steps, self._trainer.summary, each, left)
        if step in self._stages:
            self._save(self._stages[step])

    def _save(self, folder: Path) -> None:
        trainer = self._trainer
        partial = folder.with_name(f".{folder.name}.partial")
        trainer.save_model(str(partial))  # every process takes part: weights may be sharded
        trainer.accelerator.wait_for_everyone()
        if trainer.accelerator.is_main_process:
            label_folder(partial, self._attributes)
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
        trainer.accelerator.wait_for_everyone()

    def on_save(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE).touch()


def _unpadded(ids: torch.Tensor, mask: torch.Tensor) -> list[list[int]]:
    return [row[keep].tolist() for row, keep in zip(ids.cpu(), mask.bool().cpu(), strict=True)]
