"""Settings of policy training in TRL's terms, the schedule of its questions, and the command that starts it."""

import os
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin
from trl.generation import vllm_generation

from cocal import cli
from cocal.errors import ConfigError
from cocal_study.config.policy import OwnSettings, PolicySettings, TrlSettings
from cocal_study.policy.launch import train_command
from cocal_study.policy.schedule import question_schedule
from cocal_study.policy.train import opening_vllm, set_precision, trl_arguments
from micro_trainer import train_words
from planned_jobs import study_of

SHARDED = {"shard": True, "vllm": True}


def test_every_setting_reaches_trl_under_its_own_name(tmp_path):
    """No two of these values are the same, and none is the default."""
    lengths = {"grpo": 301, "rlcr": 302, "dcpo": 303}
    settings = PolicySettings(
        **{"dataset": "deepscaler", "seed": 1234, "steps": 9, "stages": (4, 9), "checkpoint_every": 3},
        **{"questions_per_step": 15, "responses_per_question": 6, "micro_batch": 5, "updates_per_step": 2},
        **{"max_response_length": lengths, "temperature": 0.7, "clip_low": 0.11, "clip_high": 0.37, "loss": "dapo"},
        **{"kl_coefficient": 0.013, "learning_rate": 3e-5, "adam_betas": (0.81, 0.97), "weight_decay": 0.023},
        **{"max_gradient_norm": 1.7, "gradient_checkpointing": True, "warm_up": 0.3, "rate_decay": "linear"},
        **{"mask_truncated": True, "trl": SHARDED | {"vllm_memory_share": 0.4, "vllm_max_length": 99}},
    )
    expected = {"seed": 1234, "max_steps": 18, "save_steps": 6, "steps_per_generation": 18, "num_generations": 6}
    expected |= {"per_device_train_batch_size": 5, "gradient_accumulation_steps": 9, "loss_type": "dapo"}
    expected |= {"temperature": 0.7, "epsilon": 0.11, "epsilon_high": 0.37, "beta": 0.013, "learning_rate": 3e-5}
    expected |= {"adam_beta1": 0.81, "adam_beta2": 0.97, "weight_decay": 0.023, "max_grad_norm": 1.7}
    expected |= {"warmup_steps": 6, "lr_scheduler_type": "linear", "mask_truncated_completions": True}
    expected |= {"gradient_checkpointing": True, "shuffle_dataset": False, "output_dir": str(tmp_path)}
    expected |= {"scale_rewards": "group", "generation_batch_size": 15 * 6}
    expected |= {"chat_template_kwargs": {"enable_thinking": False}}
    expected |= {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.4}
    expected |= {"vllm_max_model_length": 99, "generation_kwargs": {"detokenize": False}}
    expected |= {"vllm_importance_sampling_correction": False}  # slime has none
    for algorithm, length in lengths.items():
        found = trl_arguments(settings, algorithm, tmp_path)
        assert {name: getattr(found, name) for name in expected} == expected
        assert found.max_completion_length == length
        # or each GPU would hold the gradients of all weights
        assert found.accelerator_config.gradient_accumulation_kwargs == {"sync_each_batch": True}
    plain = trl_arguments(PolicySettings(dataset="deepscaler"), "grpo", tmp_path)
    assert (plain.use_vllm, plain.generation_kwargs) == (False, None)
    assert plain.accelerator_config.gradient_accumulation_kwargs == {}


def test_an_algorithm_trains_with_its_own_settings(tmp_path):
    """The original settings of RLCR and DCPO are those of the paper study."""
    study = study_of("paper").policy
    for algorithm, rate, updates in (("grpo", 1e-6, 1), ("rlcr", 5e-6, 1), ("dcpo", 2e-6, 4)):
        arguments = trl_arguments(study.for_training(algorithm), algorithm, tmp_path)
        assert (arguments.learning_rate, arguments.max_steps) == (rate, 120 * updates)
    with pytest.raises(ValueError, match="updates_per_step = 3 must divide the 2048 rollouts"):
        PolicySettings(dataset="deepscaler", own={"dcpo": {"updates_per_step": 3}})
    plain = PolicySettings(dataset="deepscaler")
    with_own = plain.model_copy(update={"own": {"rlcr": OwnSettings(learning_rate=5e-6)}})
    assert with_own.for_training("grpo") == plain.for_training("grpo"), "others do not depend on them"


@pytest.mark.parametrize(("batch", "updates"), [(24, 1), (512, 4), (1024, 1)])
def test_a_batch_that_does_not_divide_the_rollouts_is_refused_when_the_study_is_read(batch, updates):
    """64 questions a step: before anything is pre-trained for them."""
    keys = {"dataset": "train", "questions_per_step": 64, "responses_per_question": 8, "updates_per_step": updates}
    assert PolicySettings(**keys, micro_batch=128 // updates)
    with pytest.raises(ValueError, match=f"micro_batch = {batch} with {updates} update.* must divide the 512 rollouts"):
        PolicySettings(**keys, micro_batch=batch)


def test_trls_vllm_gets_what_trl_has_no_arguments_for(monkeypatch):
    """TRL 1.16 passes neither the attention kernels nor the sampler on; its name for vLLM is bound for a while."""
    calls = []
    monkeypatch.delenv("VLLM_USE_FLASHINFER_SAMPLER", raising=False)
    monkeypatch.setattr(vllm_generation, "LLM", lambda **arguments: calls.append(arguments), raising=False)
    plain = vllm_generation.LLM
    with opening_vllm(TrlSettings(vllm=True, vllm_attention_backend="FLASH_ATTN")):
        vllm_generation.LLM(model="m", seed=3)
    assert calls == [{"model": "m", "seed": 3, "attention_backend": "FLASH_ATTN"}]
    assert os.environ["VLLM_USE_FLASHINFER_SAMPLER"] == "0"
    assert vllm_generation.LLM is plain
    with opening_vllm(TrlSettings()):
        assert vllm_generation.LLM is plain


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed beside this Python")
def test_vllm_that_is_not_here_stops_the_training_before_it_begins(tmp_path, micro_checkpoint, micro_questions, capsys):
    words = train_words(tmp_path, {"trl": {"vllm": True}}, micro_checkpoint, micro_questions / "micro-train.parquet")
    assert cli.main(["train", *words]) == 2
    assert "vLLM is not installed for this Python: run with --sdm conda" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_command_of_one_process_of_a_node_and_of_several():
    assert train_command(TrlSettings(), "per_node.sh") == ["cocal", "train"]
    common = "--mixed_precision no --dynamo_backend no"
    node = f"accelerate launch --main_process_port 0 --num_machines 1 --num_processes 8 {common} --multi_gpu"
    assert " ".join(train_command(TrlSettings(devices=8), "per_node.sh")) == f"{node} --module cocal train"
    nodes = " ".join(train_command(TrlSettings(nodes=2, devices=8, shard=True, vllm=True), "per_node.sh"))
    start = "bash each_node.sh 2 bash per_node.sh --num_machines 2 --num_processes 16"
    assert nodes.startswith(f"{start} {common} --use_fsdp --fsdp_version 2 ")
    assert "--fsdp_cpu_ram_efficient_loading false " in nodes
    assert nodes.endswith(" --fsdp_state_dict_type SHARDED_STATE_DICT --module cocal train")
    with pytest.raises(ValueError, match="shard needs vllm"):
        TrlSettings(devices=8, shard=True)


def test_a_step_must_divide_evenly(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ConfigError, match=r"policy\.micro_batch = 8.*3 process.*2048 rollouts"):
        trl_arguments(PolicySettings(dataset="deepscaler"), "grpo", tmp_path)


def test_schedule_permutes_every_epoch():
    schedule = question_schedule(10, steps=7, per_step=4, seed=1)
    assert schedule.shape == (7, 4)
    order = schedule.ravel()
    assert sorted(order[:10]) == sorted(order[10:20]) == list(range(10))
    assert order[:10].tolist() != order[10:20].tolist()
    np.testing.assert_array_equal(schedule[:3], question_schedule(10, 3, 4, 1)[:3])
    assert schedule.tolist() != question_schedule(10, steps=7, per_step=4, seed=2).tolist()
    with pytest.raises(ValueError, match="fewer than the 4"):
        question_schedule(3, 1, 4, 1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_are_summed_in_the_format_of_the_key(dtype):
    """Accelerate's own policy is bfloat16 for everything."""
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2)
    plugin.set_mixed_precision("bf16")
    accelerator = SimpleNamespace(state=SimpleNamespace(fsdp_plugin=plugin))
    set_precision(accelerator, TrlSettings(reduce_dtype=dtype, **SHARDED))
    assert plugin.mixed_precision_policy.reduce_dtype == getattr(torch, dtype)
    assert plugin.mixed_precision_policy.param_dtype == torch.bfloat16
    assert plugin.mixed_precision_policy.output_dtype is None, "log-probabilities stay float32"
    set_precision(Accelerator(cpu=True), TrlSettings())  # nothing is summed without sharding
