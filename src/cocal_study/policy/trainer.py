"""TRL's GRPO trainer with our sampling and advantages, which records every rollout with its pooled states."""

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate.utils import gather_object, set_seed
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOTrainer
from trl.models import unwrap_model_for_generation

from cocal.answers.judge import Verdicts
from cocal.models.text import plain_texts
from cocal.rewards import Rewards, confidence_start, stated_confidences
from cocal.rollouts.trl.capture import RolloutCapture
from cocal.runtime.numerics import half_precision
from cocal.runtime.progress import Progress
from cocal.settings.base import Algorithm
from cocal.store import label_folder, write_text
from cocal.store.run_folder import WriteBehind
from cocal_study.config.policy import PolicySettings
from cocal_study.generation.engines import Sampling
from cocal_study.generation.responses import sampling_seeds
from cocal_study.generation.transformers_engine import TransformersEngine
from cocal_study.policy.agreement import Agreement
from cocal_study.policy.objectives import OBJECTIVES, step_advantages, step_rewards
from cocal_study.policy.recorder import RolloutRecorder
from cocal_study.policy.resumable import make_room
from cocal_study.policy.update import HostAdamW, in_trimmed_batches, sorted_by_length

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class RecordingGRPOTrainer(RolloutCapture, GRPOTrainer):
    """Trains by GRPO, RLCR or DCPO and records the rollouts, on one CPU or several GPUs.

    The update is TRL's own; rewards and advantages come from `cocal_study.policy.objectives`. Rollouts and their
    log-probabilities come from our engine, except where TRL uses vLLM or the weights are sharded.

    Args:
        recorder: Writer of rollouts and step times in the main process; None in the others. The time of a step covers
            generation, recording and update, but no checkpoints; the passes over states are timed apart.
        layers: Zero-based indices of the blocks whose states are kept; empty if no companion learns from the rollouts.
        states_dtype: Number format in which these states are stored.
        stages, attributes: Checkpoint folder of each policy that is kept, and its provenance, by rollout step.
        dtype: Number format of the weights in these checkpoints.
        **kwargs: Arguments of GRPOTrainer. The data set must hold the scheduled questions in order, with columns
            `prompt` and `question_id`; the single reward function returns correctness.
    """

    _recorder: RolloutRecorder | Any

    def __init__(
        self,
        *,
        recorder: RolloutRecorder | None,
        layers: Sequence[int],
        states_dtype: torch.dtype = torch.float32,
        policy: PolicySettings,
        algorithm: Algorithm,
        stages: Mapping[int, Path],
        dtype: torch.dtype,
        attributes: Mapping[int, Mapping[str, str]],
        **kwargs,
    ):
        super().__init__(**kwargs)
        if self.use_vllm:  # TRL's set-up of vLLM has seeded every process with its rank alone
            set_seed(self.args.seed, device_specific=True)
        self._recorder = recorder
        self._layers = tuple(layers)
        self._states_dtype = states_dtype
        self._policy = policy
        self._algorithm: Algorithm = algorithm
        self._stages = stages
        self._stage_dtype = dtype
        self._stage_attributes = attributes
        self.summary = ""
        """Description of the last rollouts, for the progress line."""
        self._copy: PreTrainedModel | Any = None
        """The copy of the policy that samples, if there is one."""
        self.agreement = Agreement(policy.trl.vllm_difference)
        self.behind = WriteBehind()
        """Marks checkpoints as complete in the main process, while the training goes on."""
        self.remove_callback(PrinterCallback)  # it would print dictionaries
        self.add_callback(StepCallback(self))

    @property
    def _rollout_step(self) -> int:
        """Number of the present step, counted from 1."""
        return self.state.global_step // self._policy.updates_per_step + 1

    @property
    def _own_engine(self) -> bool:
        """True if our engine samples. Weights must not be sharded, since it does not keep the processes in step."""
        return not (self.use_vllm or self.is_fsdp_enabled or self.is_deepspeed_enabled)

    @property
    def _fused_head(self) -> bool:
        """True if TRL computes log-probabilities. Its method also computes the logits of the prompts, and computes all
        logits twice, to save memory that small models without a GPU do not need."""
        return self.accelerator.device.type != "cpu"

    @property
    def _trusts_vllm(self) -> bool:
        """True if vLLM's log-probabilities are taken as the policy's, which the first update of every step checks.
        False at temperatures other than 1, by which TRL's vLLM divides the logits."""
        return self.use_vllm and self._policy.temperature == 1

    def _given_logprobs(self, batch):
        return batch["sampling_per_token_logps"] if self._own_engine or self._trusts_vllm else None

    def create_optimizer(self, model=None):
        """TRL's optimiser, whose moments lie where the settings say."""
        if self._policy.trl.moments == "host":
            _, arguments = self.get_optimizer_cls_and_kwargs(self.args, model or self.model)
            self.optimizer_cls_and_kwargs = HostAdamW, arguments
        return super().create_optimizer(model)

    def _save_checkpoint(self, model, trial):
        """Save a checkpoint to resume from, which replaces the one before the last."""
        if self.accelerator.is_main_process:
            self.behind.wait()  # otherwise the previous checkpoint could be deleted before it is marked
            make_room(Path(self.args.output_dir))
        super()._save_checkpoint(model, trial)

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
        unchanged = {"top_k": 0, "top_p": 1.0, "presence_penalty": 0.0}
        sampling = Sampling(self.temperature, **unchanged, max_tokens=self.max_completion_length)
        with unwrap_model_for_generation(self.model_wrapped, self.accelerator) as model:
            engine = TransformersEngine(
                self._decoder(model), ends=self.eos_token_ids, pad=self._tokenizer.pad_token_id, batch_size=count
            )
            drawn = [group[0] for group in engine.generate(prompt_ids, sampling, seeds[first : first + count])]
        return [completion.token_ids for completion in drawn], [completion.logprobs.tolist() for completion in drawn]

    @torch.no_grad()
    def _decoder(self, model: "PreTrainedModel") -> "PreTrainedModel":
        """The model that samples: where updates compute in bfloat16 on a processor, a copy of the policy in this
        format, because decoding reads all weights for each token."""
        if not half_precision():
            return model
        if self._copy is None:
            self._copy = deepcopy(model)
        for own, of_policy in zip(self._copy.parameters(), model.parameters(), strict=True):
            own.data = of_policy.to(torch.bfloat16)  # buffers, such as the frequencies of positions, keep their format
        return self._copy

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

    def _get_per_token_logps_and_entropies(
        self, model, input_ids, attention_mask, logits_to_keep, batch_size=None, **options
    ):
        """Log-probabilities and entropies (rows, logits_to_keep), in TRL's definition. Where TRL asks for all rows of a
        step, as it does before several updates, its own method would pad them all to the longest."""
        if self._fused_head:
            plain = super()._get_per_token_logps_and_entropies
            if batch_size is not None:

                def compute(ids, mask, length):
                    return plain(model, ids, mask, length)[0]

                return in_trimmed_batches(compute, input_ids, attention_mask, logits_to_keep, batch_size), None, None
            computed = plain(model, input_ids, attention_mask, logits_to_keep, **options)
            self.agreement.latest = computed[0].detach()
            return computed
        output = model(
            input_ids=input_ids, attention_mask=attention_mask, logits_to_keep=logits_to_keep + 1, use_cache=False
        )
        logprobs = (output.logits[:, :-1] / self.temperature).log_softmax(dim=2)
        with torch.no_grad():
            entropies = -(logprobs.exp() * logprobs).sum(dim=2)
        chosen = logprobs.gather(2, input_ids[:, -logits_to_keep:, None])[..., 0]
        self.agreement.latest = chosen.detach()
        return chosen, entropies, None

    def _compute_loss(self, model, inputs):
        """TRL's loss. In the first update of a step, the policy is still the one that sampled, so vLLM must agree."""
        loss = super()._compute_loss(model, inputs)
        if self._trusts_vllm and self.state.global_step % self._policy.updates_per_step == 0:
            self.agreement.add(inputs["sampling_per_token_logps"], inputs["completion_mask"])
        return loss

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

    def _local_rows(self, inputs: list[dict], batch: dict[str, torch.Tensor]) -> list[dict]:
        """The record of each of this process's rollouts and, for DCPO, where its confidence statement starts."""
        rows = self._captured(batch)
        confidence = stated_confidences([row["text"] for row in rows], OBJECTIVES[self._algorithm].prompt_format)
        starts = [0] * len(rows)
        if OBJECTIVES[self._algorithm].by_token:
            starts = [
                confidence_start(row["completion"].token_ids, lambda part: plain_texts(self._tokenizer, [part])[0])
                for row in rows
            ]
        return [
            row | {"question_id": inputs[k]["question_id"], "confidence": confidence[k], "start": starts[k]}
            for k, row in enumerate(rows)
        ]

    def _record(self, rows: list[dict], verdicts: Verdicts, rewards: Rewards) -> None:
        objective = OBJECTIVES[self._algorithm]
        of_step = {"step": self._rollout_step, "dataset": self._policy.dataset}
        frame = self._recorded(rows, verdicts, rewards, **of_step, prompt_format=objective.prompt_format)
        self.summary = (
            f"reward {(frame['reward_task'] + frame['reward_calibration'].fillna(0)).mean():.3f}, "
            f"accuracy {verdicts.values.mean():.3f}, "
            f"length {frame['length'].mean():.1f}, "
            f"truncated {frame['truncated'].mean():.1%}"
        )
        if objective.calibration:
            stated = frame["confidence"]
            self.summary += f", confidence {stated.mean():.3f} of {stated.notna().mean():.0%}"


class StepCallback(TrainerCallback):
    """Records each rollout step's time, shows progress, and saves the policy of each stage as a checkpoint."""

    def __init__(self, trainer: RecordingGRPOTrainer):
        self._trainer = trainer
        self._updates = trainer._policy.updates_per_step
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
        trainer = self._trainer
        trainer.summary += trainer.agreement.compare((state.global_step - 1) // self._updates + 1, trainer.accelerator)
        self._spent += time.monotonic() - self._began
        if state.global_step % self._updates:
            return
        step = state.global_step // self._updates
        if trainer._recorder is not None:
            spent = self._spent - trainer.states_seconds
            trainer._recorder.seconds.record(step, spent, trainer.states_seconds, trainer.agreement.difference)
        self._spent = trainer.states_seconds = 0.0
        if self._progress is not None:
            self._progress.add(detail=trainer.summary)
        if step in trainer._stages:
            self._save(step, trainer._stages[step])
        if state.global_step >= state.max_steps:
            control.should_save = False  # after the last step, only the publication is left

    def _save(self, step: int, folder: Path) -> None:
        """Save unsharded weights in the number format of the stage, even if those to resume from are sharded."""
        trainer = self._trainer
        partial = folder.with_name(f".{folder.name}.partial")
        weights = trainer.accelerator.get_state_dict(trainer.model)  # every process takes part where they are sharded
        if trainer.accelerator.is_main_process:  # the others wait, so as few bytes as possible are written
            shutil.rmtree(partial, ignore_errors=True)  # a killed run may have left one
            tied, dtype = trainer.accelerator.unwrap_model(trainer.model).all_tied_weights_keys, trainer._stage_dtype
            weights = {name: tensor.to("cpu", dtype) for name, tensor in weights.items() if name not in tied}
            trainer._save(str(partial), state_dict=weights)
            config = json.loads((partial / "config.json").read_text(encoding="utf-8"))
            config["dtype"] = str(dtype).removeprefix("torch.")  # transformers states the model's
            write_text(partial / "config.json", json.dumps(config, indent=2) + "\n")
            label_folder(partial, trainer._stage_attributes[step])
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
        trainer.accelerator.wait_for_everyone()

    def on_save(self, args, state, control, **kwargs):
        self._trainer.accelerator.wait_for_everyone()  # each process writes a part
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            if self._trainer._recorder is not None:
                self._trainer._recorder.wait()  # a run that resumes after these rollouts does not sample them again
            self._trainer.behind.start(lambda: label_folder(folder, {}))
