"""slime's command line for the protocol of appendix A, and the paths of its files."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cocal.config.policy import Algorithm, PolicySettings
from cocal.errors import ConfigError
from cocal.policy.launch import on_each_node

_HOOKS = "cocal.integrations.slime.hooks"


@dataclass(frozen=True)
class SlimePaths:
    """Paths of a run's files.

    Attributes:
        base: Hugging Face checkpoint to start from.
        torch_dist: The same weights, converted by slime's tools/convert_hf_to_torch_dist.py.
        run: Working folder; absolute, since slime runs in a folder of its own.
    """

    base: Path
    torch_dist: Path
    run: Path

    @property
    def prompts(self) -> Path:
        """File of the questions, in the order of the schedule."""
        return self.run / "questions.jsonl"

    @property
    def hooks(self) -> Path:
        """File of the hooks' settings."""
        return self.run / "hooks.json"

    @property
    def dumps(self) -> Path:
        """Folder of the rollout dumps, one per step; 0.pt is step 1."""
        return self.run / "dump"

    def export(self, step: int) -> Path:
        """Hugging Face checkpoint of the policy after a step; its name is the rollout id, which counts from 0."""
        return self.run / "hf" / str(step - 1)


def slime_command(
    settings: PolicySettings, algorithm: Algorithm, paths: SlimePaths, model: Mapping[str, Any]
) -> list[str]:
    """`python3 train.py` with all its arguments.

    slime saves and exports the policy at every stage: rollout ids 39, 79 and 119 for the paper's steps 40, 80 and 120.
    A killed run resumes from its last save, since `--load` and `--save` name the same folder.

    Args:
        settings: Protocol and machine.
        algorithm: Algorithm of the training.
        paths: Paths of the run's files.
        model: Content of the checkpoint's config.json.

    Raises:
        ConfigError: if the model is not a dense Qwen3.
    """
    slime = settings.slime
    saves = str(paths.run / "checkpoints")
    arguments = {
        "--actor-num-nodes": slime.nodes,
        "--actor-num-gpus-per-node": slime.devices,
        "--colocate": None,
        **model_arguments(model),
        "--hf-checkpoint": paths.base,
        "--ref-load": paths.torch_dist,
        "--load": saves,
        "--save": saves,
        "--save-interval": math.gcd(*settings.stages),
        "--save-hf": paths.run / "hf" / "{rollout_id}",
        "--prompt-data": paths.prompts,
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
        "--lr-decay-style": "constant",
        "--adam-beta1": settings.adam_betas[0],
        "--adam-beta2": settings.adam_betas[1],
        "--weight-decay": settings.weight_decay,
        "--clip-grad": settings.max_gradient_norm,
        "--save-debug-rollout-data": paths.dumps / "{rollout_id}.pt",
    }
    if algorithm == "dcpo":
        arguments["--custom-advantage-function-path"] = f"{_HOOKS}.advantages"
    if settings.loss == "dapo":
        arguments["--calculate-per-token-loss"] = None
    if settings.kl_coefficient:
        arguments |= {"--use-kl-loss": None, "--kl-loss-coef": settings.kl_coefficient, "--kl-loss-type": "low_var_kl"}
    return ["python3", "train.py", *_words(arguments), *slime.arguments]


def model_arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """Megatron's description of a dense Qwen3, from its config.json.

    Raises:
        ConfigError: if it is another model.
    """
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


def environment(settings: PolicySettings, paths: SlimePaths, package: Path) -> dict[str, str]:
    """Environment variables by which slime's processes import Megatron, slime and this package and find the hooks."""
    return {
        "PYTHONPATH": f"{settings.slime.megatron}:{settings.slime.home}:{package}",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "COCAL_SLIME": str(paths.hooks),
    }


def read_config(checkpoint: Path) -> dict[str, Any]:
    """Content of a checkpoint's config.json."""
    return json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))


def _words(arguments: Mapping[str, Any]) -> list[str]:
    return [str(word) for flag, value in arguments.items() for word in ((flag,) if value is None else (flag, value))]
