"""Training with slime: its command, the run, and the import of its dumps and checkpoints."""

import json
import logging
import math
import os
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

import cocal
from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
from cocal.errors import ConfigError, ContractError
from cocal.models.loading import read_vocabulary
from cocal.runtime import lock
from cocal.settings.base import Algorithm
from cocal.store import write_text
from cocal.store.run_folder import RunFolder
from cocal_study.backbones.importing import import_checkpoint
from cocal_study.config.backbone import BackboneSettings
from cocal_study.config.policy import PolicySettings
from cocal_study.policy.importing import FORMATS, StepTables, dump_files, import_rollouts
from cocal_study.policy.launch import on_each_node
from cocal_study.policy.objectives import PROMPT_FORMATS
from cocal_study.policy.recorder import Outputs, RolloutRecorder, StepSeconds
from cocal_study.policy.schedule import question_schedule
from cocal_study.questions.prompts import Prompts
from cocal_study.slime.hooks import ENVIRONMENT, HookSettings

_HOOKS = "cocal_study.slime.hooks"
_HOOK_SETTINGS = "hooks.json"
"""File of the settings of the hooks in a run's folder."""
_QUESTIONS = "questions.jsonl"
"""File of the questions in a run's folder, in the order of the schedule."""
_DUMPS = "dump"
"""Folder of the rollout dumps in a run's folder, one file for each step; 0.pt is step 1."""


def exported(run: Path, step: int) -> Path:
    """Hugging Face checkpoint of the policy after a step, in a run's folder; its name is the rollout id, which counts
    from 0."""
    return run / "hf" / str(step - 1)


def slime_command(
    settings: PolicySettings, algorithm: Algorithm, model: Mapping[str, Any], *, base: Path, converted: Path, run: Path
) -> list[str]:
    """`python3 train.py` with all its arguments, for a model with this content of its config.json; for the paths see
    `train_with_slime`.

    slime saves and exports the policy at every stage: rollout ids 39, 79 and 119 for the paper's steps 40, 80 and 120.
    A killed run resumes from its last save, since `--load` and `--save` name the same folder. Raises ConfigError if the
    model is not a dense Qwen3.
    """
    slime = settings.slime
    saves = str(run / "checkpoints")
    arguments = {
        "--actor-num-nodes": slime.nodes,
        "--actor-num-gpus-per-node": slime.devices,
        "--colocate": None,
        **model_arguments(model),
        "--hf-checkpoint": base,
        "--ref-load": converted,
        "--load": saves,
        "--save": saves,
        "--save-interval": math.gcd(*settings.stages),
        "--save-hf": run / "hf" / "{rollout_id}",
        "--prompt-data": run / _QUESTIONS,
        "--input-key": "prompt",
        "--label-key": "label",
        "--metadata-key": "metadata",
        "--apply-chat-template": None,
        "--apply-chat-template-kwargs": '{"enable_thinking":false}',
        "--custom-rm-path": f"{_HOOKS}.reward",
        "--reward-key": "acc",
        "--custom-reward-post-process-path": f"{_HOOKS}.normalised",
        "--num-rollout": settings.steps,
        "--rollout-batch-size": settings.questions_per_step,
        "--n-samples-per-prompt": settings.responses_per_question,
        "--rollout-max-response-len": settings.max_response_length[algorithm],
        "--rollout-temperature": settings.temperature,
        "--rollout-seed": settings.seed,
        "--num-steps-per-rollout": settings.updates_per_step,
        "--advantage-estimator": "grpo",
        "--eps-clip": settings.clip_low,
        "--eps-clip-high": settings.clip_high,
        "--entropy-coef": 0.0,
        "--optimizer": "adam",
        "--lr": settings.learning_rate,
        "--lr-decay-style": "linear" if settings.rate_decay == "linear" else "constant",
        "--adam-beta1": settings.adam_betas[0],
        "--adam-beta2": settings.adam_betas[1],
        "--weight-decay": settings.weight_decay,
        "--clip-grad": settings.max_gradient_norm,
        "--save-debug-rollout-data": run / _DUMPS / "{rollout_id}.pt",
    }
    if algorithm == "dcpo":
        arguments["--custom-advantage-function-path"] = f"{_HOOKS}.advantages"
    if settings.warm_up:
        arguments["--lr-warmup-fraction"] = settings.warm_up
    if settings.loss == "dapo":
        arguments["--calculate-per-token-loss"] = None
    if settings.kl_coefficient:
        arguments |= {"--use-kl-loss": None, "--kl-loss-coef": settings.kl_coefficient, "--kl-loss-type": "low_var_kl"}
    words = (word for flag, value in arguments.items() for word in ((flag,) if value is None else (flag, value)))
    return ["python3", "train.py", *map(str, words), *slime.arguments]


def model_arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """Megatron's description of a dense Qwen3, from its config.json. Raises ConfigError if it is another model."""
    if config.get("model_type") != "qwen3":
        raise ConfigError(
            f"policy.engine: slime's arguments are known only for dense Qwen3, not for {config.get('model_type')}"
        )
    base = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    arguments = {
        "--swiglu": None,
        "--num-layers": config["num_hidden_layers"],
        "--hidden-size": config["hidden_size"],
        "--ffn-hidden-size": config["intermediate_size"],
        "--num-attention-heads": config["num_attention_heads"],
        "--group-query-attention": None,
        "--num-query-groups": config["num_key_value_heads"],
        "--use-rotary-position-embeddings": None,
        "--disable-bias-linear": None,
        "--normalization": "RMSNorm",
        "--norm-epsilon": config["rms_norm_eps"],
        "--rotary-base": int(base),
        "--vocab-size": config["vocab_size"],
        "--kv-channels": config["head_dim"],
        "--qk-layernorm": None,
    }
    untied = {} if config.get("tie_word_embeddings") else {"--untie-embeddings-and-output-weights": None}
    return arguments | untied


def launch_command(settings: PolicySettings, command: list[str], per_node: str) -> list[str]:
    """The command on one node; on several, SLURM starts the script `per_node` on each, which joins them by Ray."""
    slime = settings.slime
    inside = [*slime.start, "env", "-C", slime.home]
    if slime.nodes == 1:
        return [*inside, *command]
    start = on_each_node(slime.nodes, per_node)
    return [*start, *inside, "bash", per_node, str(slime.nodes), str(slime.devices), *command]


def train_with_slime(
    settings: PolicySettings,
    algorithm: Algorithm,
    *,
    backbone: BackboneSettings,
    base: Path,
    converted: Path,
    questions: pd.DataFrame,
    prompts: Prompts,
    verifier: VerifierSettings,
    per_node: str,
    run: RunFolder,
    outputs: Outputs,
) -> None:
    """Train to the end, import slime's dumps and checkpoints, and publish. A killed run resumes.

    Args:
        backbone: For the depth and width that the checkpoints must have.
        base: Hugging Face checkpoint to start from.
        converted: The same weights, converted by slime's tools/convert_hf_to_torch_dist.py.
        questions: Training set (cocal_study.store.contracts.QUESTIONS).
        per_node: Script that joins several nodes.
        run: Working folder; absolute, since slime runs in a folder of its own.
        outputs: Places of stages, rollouts and the time of all attempts, and their provenance.

    Raises:
        ContractError: if slime fails, or if its results break the protocol.
    """
    _write_questions(settings, algorithm, questions, prompts, run.path / _QUESTIONS)
    policy = settings.rollout_settings(algorithm)
    hooks = HookSettings(policy=policy, algorithm=algorithm, verifier=verifier)
    write_text(run.path / _HOOK_SETTINGS, hooks.model_dump_json())
    if not _finished(settings, run.path):
        model = json.loads((base / "config.json").read_text(encoding="utf-8"))
        command = slime_command(settings, algorithm, model, base=base, converted=converted, run=run.path)
        _run_slime(settings, launch_command(settings, command, per_node), run.path)
    for step in outputs.stages:
        import_checkpoint(
            exported(run.path, step),
            run.path / f"step-{step}",
            depth=backbone.depth,
            width=backbone.width,
            attributes=outputs.of(outputs.stages[step], step=str(step)),
            base=base,
        )
    with Verifier(verifier) as judge:
        tables = StepTables(policy, algorithm, questions=questions, vocabulary=read_vocabulary(base), judge=judge)
        dumps = dump_files("slime", run.path / _DUMPS, settings.steps)
        imported = Outputs({}, run.path / "rollouts", attributes=outputs.attributes)
        import_rollouts("slime", dumps, "acc", tables, RunFolder(run.path / "import", run.settings_digest), imported)
    RolloutRecorder(run, settings.steps, outputs.attributes).publish(outputs, items=settings.steps)


def _run_slime(settings: PolicySettings, command: list[str], run: Path) -> None:
    """Run slime's command to the end, from its last save if there is one."""
    write_text(run / "command.sh", shlex.join(command) + "\n")
    # by these slime's processes import Megatron, slime and this package, and find the hooks
    environment = {
        "PYTHONPATH": f"{settings.slime.megatron}:{settings.slime.home}:{Path(cocal.__file__).parents[1]}",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        ENVIRONMENT: str(run / _HOOK_SETTINGS),
    }
    logging.info("slime in %s: %s", settings.slime.home, shlex.join(command))
    seconds, attempt, began = StepSeconds(run / "seconds.json"), time.time_ns(), time.monotonic()
    # slime writes into the run folder too: where it outlives this process, it keeps the folder's lock
    writer = lock.held(run)
    done = subprocess.run(command, check=False, env={**os.environ, **environment}, pass_fds=writer)
    seconds.record(attempt, time.monotonic() - began)
    if done.returncode:
        raise ContractError(
            f"{run}: slime ended with status {done.returncode}; see its messages above. The same command resumes "
            "from its last save"
        )
    if not _finished(settings, run):
        raise ContractError(f"{run}: slime ended without the dumps of all steps or the checkpoint of the last")


def _write_questions(
    settings: PolicySettings, algorithm: Algorithm, questions: pd.DataFrame, prompts: Prompts, path: Path
) -> None:
    """Write one line per question in the order of the schedule; slime reads them without shuffling."""
    schedule = question_schedule(len(questions), settings.steps, settings.questions_per_step, settings.seed)
    lines = []
    for row in questions.iloc[schedule.ravel()].itertuples():
        message = prompts.message(PROMPT_FORMATS[algorithm], row.question)
        metadata = {"question_id": row.question_id, "golds": [row.answer, *row.aliases]}
        entry = {"prompt": [{"role": "user", "content": message}], "label": row.answer, "metadata": metadata}
        lines.append(json.dumps(entry, ensure_ascii=False) + "\n")
    write_text(path, "".join(lines))


def _finished(settings: PolicySettings, run: Path) -> bool:
    """True if all dumps and the last checkpoint are there."""
    if not (run / _DUMPS).is_dir() or not (exported(run, settings.steps) / "config.json").exists():
        return False
    return {*range(1, settings.steps + 1)} <= {*FORMATS["slime"].files(run / _DUMPS)}
