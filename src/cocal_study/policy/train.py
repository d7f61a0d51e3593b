"""Policy training, from the base checkpoint to published stages, rollouts and features."""

import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from trl import GRPOConfig

from cocal.answers.equivalence import Verifier
from cocal.answers.extraction import extract_answer
from cocal.errors import ConfigError
from cocal.features.forward import resolve_layers
from cocal.models.loading import load_policy, read_config
from cocal.runtime.numerics import half_precision
from cocal.settings.base import Algorithm
from cocal.store.run_folder import RunFolder
from cocal_study.config.features import FeatureSettings
from cocal_study.config.policy import PolicySettings, TrlSettings
from cocal_study.generation.vllm_engine import check_compiler, check_installed
from cocal_study.policy.objectives import OBJECTIVES
from cocal_study.policy.recorder import Outputs, open_recorder
from cocal_study.policy.resumable import last_resumable
from cocal_study.policy.schedule import question_schedule
from cocal_study.policy.trainer import RecordingGRPOTrainer
from cocal_study.questions.prompts import Prompts

_PATIENCE = timedelta(hours=2)
"""Time that a process waits for the others before the training ends; NCCL's own is ten minutes. The main process writes
the policy of a stage alone, tens of GB. TRL's `ddp_timeout` would hold only for a group of processes that TRL makes."""


def train_policy(
    settings: PolicySettings,
    algorithm: Algorithm,
    *,
    base: Path,
    questions: pd.DataFrame,
    prompts: Prompts,
    features: FeatureSettings,
    verifier: Verifier,
    run_folder: Path,
    run_digest: str,
    outputs: Outputs,
) -> None:
    """Train a policy, record every rollout, and publish. A killed run resumes from its last complete checkpoint. Raises
    ConfigError if this machine lacks vLLM or a GPU that the settings ask for, or if the processes cannot share the
    rollouts of a step evenly, and BusyError if another process still works in the run folder.

    The run folder holds rollouts, features and checkpoints until they are published. It is resumed only if
    `run_digest`, of everything that the run depends on, is the same.
    """
    if settings.trl.vllm:
        require_vllm()
    processes = PartialState(cpu=not torch.cuda.is_available(), timeout=_PATIENCE)
    policy = load_policy(base, training=True, sharded=settings.trl.shard)
    recorder = resume = None
    if processes.is_main_process:  # the others neither lock the folder nor delete anything in it
        run = RunFolder(run_folder, run_digest)
        resume = last_resumable(run.path)
        recorder = open_recorder(run, settings, policy.config, features, outputs)
        if resume:
            logging.info("resuming from %s", resume)
    (resume,) = broadcast_object_list([resume])
    schedule = question_schedule(len(questions), settings.steps, settings.questions_per_step, settings.seed)
    with opening_vllm(settings.trl):
        trainer = RecordingGRPOTrainer(
            recorder=recorder,
            layers=resolve_layers(features.layers, policy.blocks) if outputs.features else (),
            states_dtype=getattr(torch, features.dtype),
            policy=settings,
            algorithm=algorithm,
            stages={step: run_folder / f"step-{step}" for step in settings.stages},
            dtype=read_config(base).dtype or torch.float32,
            attributes={step: outputs.of(folder, step=str(step)) for step, folder in outputs.stages.items()},
            model=policy.model,
            processing_class=policy.tokenizer,
            reward_funcs=[correctness(verifier)],
            args=trl_arguments(settings, algorithm, run_folder),
            train_dataset=scheduled(questions, schedule.ravel(), prompts, OBJECTIVES[algorithm].prompt_format),
        )
    set_precision(trainer.accelerator, settings.trl)
    with recorder or nullcontext(), trainer.behind:
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    processes.wait_for_everyone()
    if recorder is not None:
        recorder.publish(outputs, items=settings.steps)


def trl_arguments(settings: PolicySettings, algorithm: Algorithm, folder: Path) -> GRPOConfig:
    """The settings as TRL's arguments. TRL counts optimiser updates where the paper counts rollout steps. Raises
    ConfigError if the processes cannot share the rollouts of a step evenly."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    rollouts = settings.questions_per_step * settings.responses_per_question
    if rollouts % (settings.micro_batch * processes * settings.updates_per_step):
        raise ConfigError(
            f"policy.micro_batch = {settings.micro_batch} on {processes} process(es) with "
            f"{settings.updates_per_step} update(s) per step does not divide the {rollouts} rollouts of a step"
        )
    batches = rollouts // (settings.micro_batch * processes)
    return GRPOConfig(
        output_dir=str(folder),
        trust_remote_code=False,  # for the reference model, which TRL loads
        seed=settings.seed,
        max_steps=settings.steps * settings.updates_per_step,
        num_generations=settings.responses_per_question,
        per_device_train_batch_size=settings.micro_batch,
        steps_per_generation=batches,
        gradient_accumulation_steps=batches // settings.updates_per_step,
        max_completion_length=settings.max_response_length[algorithm],
        temperature=settings.temperature,
        chat_template_kwargs={"enable_thinking": False},
        beta=settings.kl_coefficient,
        epsilon=settings.clip_low,
        epsilon_high=settings.clip_high,
        scale_rewards="group",
        loss_type=settings.loss,
        mask_truncated_completions=settings.mask_truncated,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="linear" if settings.rate_decay == "linear" else "constant_with_warmup",
        warmup_steps=math.ceil(settings.steps * settings.updates_per_step * settings.warm_up),
        adam_beta1=settings.adam_betas[0],
        adam_beta2=settings.adam_betas[1],
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_gradient_norm,
        bf16=torch.cuda.is_available() or half_precision(),
        gradient_checkpointing=settings.gradient_checkpointing,
        shuffle_dataset=False,  # the data set is in the order of the schedule
        save_strategy="steps",
        save_steps=settings.checkpoint_every * settings.updates_per_step,
        save_total_limit=None,  # `cocal_study.policy.resumable` deletes them
        logging_strategy="no",
        report_to="none",
        use_vllm=settings.trl.vllm,
        vllm_mode="colocate",
        vllm_gpu_memory_utilization=settings.trl.vllm_memory_share,
        vllm_max_model_length=settings.trl.vllm_max_length,
        vllm_enable_sleep_mode=settings.trl.vllm,
        generation_kwargs={"detokenize": False} if settings.trl.vllm else None,  # the recorder detokenises for vLLM
        vllm_importance_sampling_correction=False,  # the paper's engine, slime, has none
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        ddp_find_unused_parameters=False,
        # Sharded gradients are summed over the GPUs after every micro-batch. Otherwise each GPU would hold gradients
        # of all weights until the last one: in float32, 33 GB for Qwen3-8B and 59 GB for Qwen3-14B.
        accelerator_config={"gradient_accumulation_kwargs": {"sync_each_batch": True} if settings.trl.shard else {}},
        dataloader_pin_memory=torch.cuda.is_available(),
    )


def set_precision(accelerator: Accelerator, settings: TrlSettings) -> None:
    """Choose number formats before the model is sharded: that of sums over GPUs (`policy.trl.reduce_dtype`), and none
    for what the model returns, which keeps its own.

    Accelerate takes the format of the passes for both, and has no settings for them. In bfloat16, TRL's
    log-probabilities, which are computed in float32, would be rounded to three digits, and so the ratios of updates.
    """
    plugin = accelerator.state.fsdp_plugin if settings.shard else None
    if plugin is not None and plugin.mixed_precision_policy is not None:
        formats = {"reduce_dtype": getattr(torch, settings.reduce_dtype), "output_dtype": None}
        plugin.mixed_precision_policy = replace(plugin.mixed_precision_policy, **formats)


def scheduled(questions: pd.DataFrame, order: np.ndarray, prompts: Prompts, prompt_format: str) -> Dataset:
    """The questions of a training in their order, as TRL's data set with the columns prompt, question_id and golds."""
    rows = questions.iloc[order]
    return Dataset.from_dict(
        {
            "prompt": [[{"role": "user", "content": prompts.message(prompt_format, q)}] for q in rows["question"]],
            "question_id": rows["question_id"].tolist(),
            "golds": [[answer, *aliases] for answer, aliases in zip(rows["answer"], rows["aliases"], strict=True)],
        }
    )


def correctness(verifier: Verifier):
    """TRL's reward function: 1.0 for an accepted answer, 0.0 for another one, None where there is no verdict.

    TRL turns None into NaN, which the trainer counts as wrong.
    """

    def correctness(completions, golds, **_) -> list[float | None]:
        answers = [extract_answer(completion[0]["content"]) for completion in completions]
        verdicts = verifier.correct(golds, answers)
        return [float(value) if decided else None for value, decided in zip(*verdicts, strict=True)]

    return correctness


def require_vllm() -> None:
    """Raise ConfigError where vLLM cannot run in this process."""
    check_installed("policy.trl.vllm")
    if not torch.cuda.is_available():
        raise ConfigError("policy.trl.vllm: there is no GPU here; train on a node with GPUs, or switch vllm off")
    check_compiler("policy.trl.vllm")


@contextmanager
def opening_vllm(settings: TrlSettings) -> Iterator[None]:
    """Give the vLLM that TRL opens in this context what TRL has no arguments for.

    FlashInfer's sampler is off, as in `cocal_study.generation.vllm_engine`. The attention backend is that of the
    settings: TRL passes no such argument on, so the name `LLM` in TRL's module is bound to it while the context lasts.
    """
    if not settings.vllm:
        yield
        return
    from trl.generation import vllm_generation

    os.environ["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
    plain = vllm_generation.LLM
    vllm_generation.LLM = partial(plain, attention_backend=settings.vllm_attention_backend)
    try:
        yield
    finally:
        vllm_generation.LLM = plain
