"""A subclass of TRL's GRPO trainer that uses our sampling and advantages and records every rollout."""

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from accelerate.utils import gather_object, set_seed
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOTrainer
from trl.models import unwrap_model_for_generation

from cocal.answers.judge import Verdicts
from cocal.checkpoints.loading import cast_weights
from cocal.checkpoints.resumable import COMPLETE
from cocal.checkpoints.text import plain_texts
from cocal.config.policy import Algorithm, PolicySettings
from cocal.features.forward import batches_of_rows, score
from cocal.generation.engine import Completion, Sampling
from cocal.generation.responses import sampling_seeds
from cocal.generation.rows import sampled_rows, stated_confidences
from cocal.generation.transformers_engine import TransformersEngine
from cocal.policy.micro_batches import sorted_by_length
from cocal.policy.objectives import PROMPT_FORMATS, confidence_start, step_advantages, step_rewards
from cocal.policy.recorder import RolloutRecorder, rollout_rows
from cocal.policy.rewards import Rewards
from cocal.policy.seconds import StepSeconds
from cocal.runtime.progress import Progress
from cocal.store import label_folder


class RecordingGRPOTrainer(GRPOTrainer):
    """Trains by GRPO, RLCR or DCPO and records the rollouts, on one CPU or several GPUs.

    The update is TRL's own; rewards and advantages come from `cocal.policy.objectives`. Rollouts and their
    log-probabilities come from our engine, except where TRL uses vLLM or the weights are sharded. Where companions
    learn from the rollouts, one teacher-forced pass over the exact token ids, under the policy that produced them,
    gives the pooled states. The main process writes everything.

    Args:
        recorder: Writer of rollouts and step times in the main process; None in the others. The time of a step covers
            generation, recording and update, but no checkpoints.
        layers: Zero-based indices of the blocks whose states are kept; empty if no companion learns from the rollouts.
        policy: Settings of the training.
        algorithm: Algorithm of the training.
        stages: Checkpoint folder of each policy that is kept, by rollout step.
        dtype: Number format of the weights in these checkpoints.
        attributes: Provenance of the checkpoints.
        **kwargs: Arguments of GRPOTrainer. The data set must hold the scheduled questions in order, with columns
            `prompt` and `question_id`; the single reward function returns correctness.
    """

    def __init__(
        self,
        *,
        recorder: RolloutRecorder | None,
        layers: Sequence[int],
        policy: PolicySettings,
        algorithm: Algorithm,
        stages: Mapping[int, Path],
        dtype: torch.dtype,
        attributes: Mapping[str, str],
        **kwargs,
    ):
        super().__init__(**kwargs)
        if self.use_vllm:  # TRL's set-up of vLLM has seeded every process with its rank alone
            set_seed(self.args.seed, device_specific=True)
        self._recorder = recorder
        self._layers = tuple(layers)
        self._policy = policy
        self._algorithm = algorithm
        self._rewards_of_step: torch.Tensor | None = None
        self.summary = ""
        """Description of the last rollouts, for the progress line."""
        self.remove_callback(PrinterCallback)  # it would print dictionaries
        seconds = None if recorder is None else recorder.seconds
        self.add_callback(_StepCallback(self, policy.updates_per_step, seconds, stages, dtype, attributes))

    @property
    def _rollout_step(self) -> int:
        """Number of the present rollout step, counted from 1."""
        return self.state.global_step // self._policy.updates_per_step + 1

    @property
    def _own_engine(self) -> bool:
        """Whether our engine samples. Sharded weights rule it out: it does not keep the processes in step."""
        return not (self.use_vllm or self.is_fsdp_enabled or self.is_deepspeed_enabled)

    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, num_generations, has_tool_images=False):
        """Completions and their log-probabilities; our engine's depend only on seed, step and place in the step."""
        if not self._own_engine:
            return super()._generate_single_turn(
                prompt_ids, images, multimodal_fields, num_generations, has_tool_images
            )
        count = len(prompt_ids)
        identity = f"{self._algorithm}/{self._rollout_step}"
        seeds = sampling_seeds(identity, self._policy.seed, count * self.accelerator.num_processes, samples=1)
        first = count * self.accelerator.process_index
        sampling = Sampling(
            self.temperature, top_k=0, top_p=1.0, presence_penalty=0.0, max_tokens=self.max_completion_length
        )
        with unwrap_model_for_generation(self.model_wrapped, self.accelerator) as model:
            engine = TransformersEngine(
                model, ends=self.eos_token_ids, pad=self._tokenizer.pad_token_id, batch_size=count
            )
            drawn = [group[0] for group in engine.generate(prompt_ids, sampling, seeds[first : first + count])]
        return [one.token_ids for one in drawn], [one.logprobs.tolist() for one in drawn]

    def _prepare_inputs(self, generation_batch):
        """The next micro-batch, as TRL takes it, from an update's rows sorted by length to need little padding."""
        held = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if self._buffered_inputs is held:
            return inputs
        size = self.args.gradient_accumulation_steps
        updates = [self._buffered_inputs[k : k + size] for k in range(0, len(self._buffered_inputs), size)]
        self._buffered_inputs = [batch for update in updates for batch in sorted_by_length(update)]
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    def _get_per_token_logps_and_entropies(self, model, input_ids, attention_mask, logits_to_keep, **options):
        """Log-probabilities and entropies (rows, logits_to_keep), in TRL's definition.

        This replaces TRL's fused head where there is no GPU. The fused head also computes the logits of the prompts,
        and computes all logits twice, to save memory that small models do not need.
        """
        if self.accelerator.device.type != "cpu":
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, **options
            )
        output = model(
            input_ids=input_ids, attention_mask=attention_mask, logits_to_keep=logits_to_keep + 1, use_cache=False
        )
        logprobs = (output.logits[:, :-1] / self.temperature).log_softmax(dim=2)
        with torch.no_grad():
            entropies = -(logprobs.exp() * logprobs).sum(dim=2)
        return logprobs.gather(2, input_ids[:, -logits_to_keep:, None])[..., 0], entropies, None

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        """TRL's rewards (rollouts of all processes, functions), which are kept for recording."""
        self._rewards_of_step = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        return self._rewards_of_step

    def _generate_and_score_completions(self, inputs):
        """Return TRL's batch with the advantages of our objectives, and record the rollouts."""
        batch = super()._generate_and_score_completions(inputs)
        rows = self._local_rows(inputs, batch)
        confidence, starts = np.array(gather_object([(row["confidence"], row["start"]) for row in rows])).T
        scored = self._rewards_of_step[:, 0].cpu().numpy()
        verdicts = Verdicts(scored > 0.5, ~np.isnan(scored))  # an undecided answer counts as wrong
        rewards = step_rewards(self._policy, self._algorithm, verdicts.values, confidence)
        ids = batch["completion_ids"]
        advantages = step_advantages(self._policy, self._algorithm, rewards, starts, ids.shape[1])
        first = self.accelerator.process_index * len(ids)
        batch["advantages"] = torch.as_tensor(
            advantages[first : first + len(ids)], dtype=torch.float32, device=ids.device
        )
        rows = self._gathered(rows)
        if self._recorder is not None:
            self._record(rows, verdicts, rewards)
        return batch

    def _gathered(self, rows: list[dict]) -> list[dict]:
        """All rollouts in the main process, and none in the others."""
        count = self.accelerator.num_processes
        if count == 1:
            return rows
        parts = [None] * count if self.accelerator.is_main_process else None
        torch.distributed.gather_object(rows, parts, dst=0)
        return [row for part in parts or () for row in part]

    def _local_rows(self, inputs: list[dict], batch: dict[str, torch.Tensor]) -> list[dict]:
        """What is recorded of this process's rollouts and, for DCPO, where their confidence statements start."""
        prompts = _unpadded(batch["prompt_ids"], batch["prompt_mask"])
        responses = _unpadded(batch["completion_ids"], batch["completion_mask"])
        states = logprobs = [None] * len(inputs)
        if self._layers or not self._own_engine:
            states, logprobs = self._scored(prompts, responses)
        if self._own_engine:
            values = _unpadded(batch["sampling_per_token_logps"], batch["completion_mask"])
            logprobs = [np.array(row, dtype=np.float32) for row in values]
        texts = plain_texts(self._tokenizer, responses)
        confidence = stated_confidences(texts, PROMPT_FORMATS[self._algorithm])
        starts = [0] * len(inputs)
        if self._algorithm == "dcpo":
            starts = [confidence_start(ids, lambda part: plain_texts(self._tokenizer, [part])[0]) for ids in responses]
        ends = set(self.eos_token_ids)
        return [
            {
                "question_id": inputs[k]["question_id"],
                "prompt_ids": prompts[k],
                "completion": Completion(ids, logprobs[k], "stop" if ids[-1] in ends else "length"),
                "states": states[k],
                "text": texts[k],
                "confidence": confidence[k],
                "start": starts[k],
            }
            for k, ids in enumerate(responses)
        ]

    def _scored(
        self, prompts: list[list[int]], responses: list[list[int]]
    ) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
        """Each response's pooled states (layers, 2, hidden), and log-probabilities unless our engine has given them."""
        lengths = [len(p) + len(r) for p, r in zip(prompts, responses, strict=True)]
        # Every process takes the same number of batches, since sharded parameters are gathered in step.
        batches = batches_of_rows(lengths, self.args.per_device_train_batch_size)
        states: list = [None] * len(responses)
        logprobs: list = [None] * len(responses)
        scored = score(
            self.model,
            prompts,
            responses,
            batches,
            layers=self._layers or (0,),
            pad=self._tokenizer.pad_token_id,
            unwrapped=self.accelerator.unwrap_model(self.model),
            logprobs=not self._own_engine,
        )
        with self.accelerator.autocast():  # the update's precision, which accelerate sets for the whole model only
            for part in scored:
                for k, i in enumerate(part.rows):
                    states[i] = part.features[k]
                    if part.logprobs is not None:
                        logprobs[i] = part.logprobs[k]
        return states, logprobs

    def _record(self, rows: list[dict], verdicts: Verdicts, rewards: Rewards) -> None:
        sampled = sampled_rows(
            [row["completion"] for row in rows],
            [row["text"] for row in rows],
            PROMPT_FORMATS[self._algorithm],
            dataset=self._policy.dataset,
            question_ids=[row["question_id"] for row in rows],
            prompt_ids=[row["prompt_ids"] for row in rows],
            group_size=self.num_generations,
            step=self._rollout_step,
            first=(self._rollout_step - 1) * len(rows),
        )
        frame = rollout_rows(sampled, verdicts, rewards, self.num_generations)
        self._recorder.write(frame, np.stack([row["states"] for row in rows]) if self._layers else None)
        self.summary = (
            f"reward {(frame['reward_task'] + frame['reward_calibration'].fillna(0)).mean():.3f}, "
            f"accuracy {verdicts.values.mean():.3f}, "
            f"length {frame['length'].mean():.1f}, "
            f"truncated {frame['truncated'].mean():.1%}"
        )
        if self._algorithm != "grpo":
            stated = frame["confidence"]
            self.summary += f", confidence {stated.mean():.3f} of {stated.notna().mean():.0%}"


class _StepCallback(TrainerCallback):
    """Records each rollout step's time, shows progress, and saves the policy of each stage as a checkpoint."""

    def __init__(
        self,
        trainer: RecordingGRPOTrainer,
        updates_per_step: int,
        seconds: StepSeconds | None,
        stages: Mapping[int, Path],
        dtype: torch.dtype,
        attributes: Mapping[str, str],
    ):
        self._trainer = trainer
        self._updates = updates_per_step
        self._seconds = seconds
        self._stages = stages
        self._dtype = dtype
        self._attributes = attributes
        self._progress: Progress | None = None
        self._began = 0.0
        self._spent = 0.0

    def on_train_begin(self, args, state, control, **kwargs):
        if self._trainer.accelerator.is_main_process:
            done, steps = state.global_step // self._updates, state.max_steps // self._updates
            self._progress = Progress("step", steps, done=done)

    def on_step_begin(self, args, state, control, **kwargs):
        self._began = time.monotonic()

    def on_step_end(self, args, state, control, **kwargs):
        self._spent += time.monotonic() - self._began
        if state.global_step % self._updates:
            return
        step = state.global_step // self._updates
        if self._seconds is not None:
            self._seconds.record(step, self._spent)
        self._spent = 0.0
        if self._progress is not None:
            self._progress.add(detail=self._trainer.summary)
        if step in self._stages:
            self._save(self._stages[step])

    def _save(self, folder: Path) -> None:
        trainer = self._trainer
        partial = folder.with_name(f".{folder.name}.partial")
        trainer.save_model(str(partial))  # every process takes part: weights may be sharded
        trainer.accelerator.wait_for_everyone()
        if trainer.accelerator.is_main_process:
            if self._dtype != torch.float32:
                cast_weights(partial, self._dtype)
            label_folder(partial, self._attributes)
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
        trainer.accelerator.wait_for_everyone()

    def on_save(self, args, state, control, **kwargs):
        self._trainer.accelerator.wait_for_everyone()  # each process writes a part
        if state.is_world_process_zero:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE).touch()


def _unpadded(values: torch.Tensor, mask: torch.Tensor) -> list[list]:
    return [row[keep].tolist() for row, keep in zip(values.cpu(), mask.bool().cpu(), strict=True)]
