"""The vLLM engine: what it asks of vLLM, told by a stand-in; and repeats, refusals and commands with the real one."""

import json
import os
import sys
import time
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np
import psutil
import pytest
import torch

from cocal import cli
from cocal.errors import ConfigError, ContractError, EngineError
from cocal.features.forward import score
from cocal.models.loading import read_vocabulary
from cocal.runtime.gpus import SECOND_RUNNER
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal_study.config.engine import VllmSettings
from cocal_study.config.study import load_study
from cocal_study.generation.engines import Sampling, open_engine
from micro import own_copy
from reading_engine import open_reading, read, sampled
from rounding import INVARIANT, REPEATS, ROUNDING, same_states

SAMPLING = Sampling(temperature=1.0, top_k=0, top_p=1.0, presence_penalty=0.0, max_tokens=40, samples=8)
PROMPTS = [[1, 30 + k, 40, 50] for k in range(20)]
SEEDS = [1000 * k for k in range(20)]
ENGINE = {"kind": "vllm", "batch_invariant": INVARIANT, "eager": True, "memory_share": 0.2}


class StandIn:
    """vLLM's `LLM` on a GPU: it writes down what it is asked, and answers request k by k + 1 tokens, every second one
    of which is cut."""

    model_config = SimpleNamespace(max_model_len=50)

    def __init__(self, model, **arguments):
        self.llm_engine = SimpleNamespace(engine_core=SimpleNamespace(shutdown=lambda: None))
        StandIn.arguments, StandIn.environment = arguments, dict(os.environ)

    def reset_prefix_cache(self):
        pass

    def generate(self, prompts, parameters, use_tqdm):
        StandIn.asked = [{**prompt, **vars(one)} for prompt, one in zip(prompts, parameters, strict=True)]
        return [self._answer(one, k) for k, one in enumerate(parameters)]

    def _answer(self, asked, k):
        ids = getattr(asked, "logprob_token_ids", range(k))
        count = (1 + len(ids)) * (1 + getattr(asked, "logprobs", 0))  # of the sampled token, then the largest, a token
        logprobs = SimpleNamespace(logprobs=[-1.0 - k - place / 8 for place in range(count)])
        reason = "length" if k % 2 else "stop"
        one = SimpleNamespace(token_ids=[70 + k, *ids], logprobs=logprobs, finish_reason=reason)
        return SimpleNamespace(outputs=[one])


@pytest.fixture
def vllm(monkeypatch):
    """A stand-in for the package; it returns its `LLM` class."""

    def plant(name, **content):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)

    monkeypatch.setattr(os, "environ", os.environ.copy())
    plant("vllm", __version__="0", LLM=StandIn, SamplingParams=SimpleNamespace, TokensPrompt=dict)
    platform = SimpleNamespace(is_cpu=lambda: False, has_device_capability=lambda number: True)
    plant("vllm.platforms", current_platform=platform)
    plant("vllm.distributed", cleanup_dist_env_and_memory=lambda: None)
    return StandIn


def test_every_setting_reaches_vllm_under_its_own_name(vllm, micro_checkpoint):
    settings = {"tensor_parallel": 3, "memory_share": 0.61, "max_length": 47, "max_sequences": 29}
    settings |= {"prefix_caching": False, "batch_invariant": True, "attention_backend": "FLASH_ATTN"}
    with open_engine(VllmSettings(kind="vllm", **settings), micro_checkpoint):
        pass
    expected = {"tensor_parallel_size": 3, "gpu_memory_utilization": 0.61, "max_model_len": 47, "max_num_seqs": 29}
    expected |= {"enable_prefix_caching": False, "attention_backend": "FLASH_ATTN", "seed": 0, "dtype": "bfloat16"}
    expected |= {"load_format": "safetensors", "generation_config": "vllm", "logprobs_mode": "raw_logprobs"}
    expected |= {"trust_remote_code": False}
    assert {name: vllm.arguments[name] for name in expected} == expected
    # FlashInfer compiles its sampler when vLLM warms up, and a node without nvcc cannot
    wanted = {"VLLM_BATCH_INVARIANT": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    assert wanted.items() <= vllm.environment.items()
    assert vllm.arguments["enforce_eager"] is False
    with open_engine(VllmSettings(kind="vllm", eager=True), micro_checkpoint):
        assert vllm.arguments["enforce_eager"] is True


@pytest.mark.parametrize(("given", "runner"), [(None, "first"), ("0", "first"), ("1", "second")])
def test_the_first_model_runner_is_chosen_unless_somebody_chooses_and_said(
    vllm, micro_checkpoint, caplog, given, runner
):
    """A GPU would take the second one since vLLM 0.29."""
    os.environ.pop(SECOND_RUNNER, None)
    if given is not None:
        os.environ[SECOND_RUNNER] = given
    with caplog.at_level("INFO"), open_engine(VllmSettings(**ENGINE), micro_checkpoint):
        pass
    assert StandIn.environment[SECOND_RUNNER] == (given or "0")
    assert f"vLLM with its {runner} model runner" in caplog.text


def test_inference_is_timed_without_prefix_caching(vllm, micro_checkpoint):
    """Appendix E.2; evaluation may share the encoding of a prompt, and vLLM chooses its own attention kernels."""
    with open_engine(VllmSettings(kind="vllm"), micro_checkpoint):
        assert (vllm.arguments["enable_prefix_caching"], vllm.arguments["attention_backend"]) == (True, None)
        assert vllm.environment["VLLM_BATCH_INVARIANT"] == "0"
    with open_engine(VllmSettings(kind="vllm").of_concurrency(64), micro_checkpoint):
        assert (vllm.arguments["enable_prefix_caching"], vllm.arguments["max_num_seqs"]) == (False, 64)


def test_every_sampling_parameter_and_seed_reaches_vllm_and_every_answer_comes_back(vllm, micro_checkpoint):
    sampling = Sampling(temperature=0.6, top_k=17, top_p=0.9, presence_penalty=1.5, max_tokens=7, samples=3)
    with open_engine(VllmSettings(kind="vllm"), micro_checkpoint) as one:
        found = one.generate([[5, 6], [8, 9, 10]], sampling, [100, 2**40 + 5])
        asked = vllm.asked
        logprobs = one.next_token_logprobs([[5], [6, 7]], [31, 33, 32])
        judged = vllm.asked
    assert [request["prompt_token_ids"] for request in asked] == [[5, 6]] * 3 + [[8, 9, 10]] * 3
    assert [request["seed"] for request in asked] == [100, 101, 102, 2**40 + 5, 2**40 + 6, 2**40 + 7]
    wanted = {"temperature": 0.6, "top_k": 17, "top_p": 0.9, "presence_penalty": 1.5, "max_tokens": 7, "logprobs": 0}
    wanted |= {"ignore_eos": True, "stop_token_ids": sorted(read_vocabulary(micro_checkpoint).ends)}
    for request in asked:
        assert {name: request[name] for name in wanted} == wanted
        assert "samples" not in request
    answers = [response for group in found for response in group]
    assert [len(group) for group in found] == [3, 3]
    assert [response.token_ids for response in answers] == [[70 + k, *range(k)] for k in range(6)]
    assert [response.finish_reason for response in answers] == ["stop", "length"] * 3
    assert [response.logprobs.tolist() for response in answers] == [
        [-1 - k - place / 8 for place in range(k + 1)] for k in range(6)
    ]
    assert [request["prompt_token_ids"] for request in judged] == [[5], [6, 7]]
    assert all(request["logprob_token_ids"] == [31, 33, 32] and request["max_tokens"] == 1 for request in judged)
    np.testing.assert_array_equal(logprobs, [[-1.125, -1.25, -1.375], [-2.125, -2.25, -2.375]])


def test_the_largest_log_probabilities_of_each_token_come_back_beside_its_own(vllm, micro_checkpoint):
    sampling = Sampling(0.6, top_k=17, top_p=0.9, presence_penalty=1.5, max_tokens=7, best_logprobs=2)
    with open_engine(VllmSettings(kind="vllm"), micro_checkpoint) as one:
        (_, (found,)) = one.generate([[5, 6], [8, 9]], sampling, [100, 200])
    assert [request["logprobs"] for request in vllm.asked] == [2, 2]
    assert all("best_logprobs" not in request for request in vllm.asked)
    assert found.logprobs.tolist() == [-2, -2.375]
    assert found.best.tolist() == [[-2.125, -2.25], [-2.5, -2.625]]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("No available memory for the cache blocks"), ConfigError, r"cache blocks; .*engine\.memory_share"),
        (RuntimeError("CUDA out of memory"), EngineError, r"failed starting.*engine\.memory_share.*CUDA out of mem"),
        (ImportError("libcuda.so is broken"), ConfigError, r"cannot be loaded by this Python \(libcuda"),
    ],
)
def test_failures_of_vllm_say_what_to_change(vllm, monkeypatch, micro_checkpoint, error, kind, message):
    def fail(self, *_, **__):
        raise error

    monkeypatch.setattr(vllm, "__init__", fail)
    with pytest.raises(kind, match=message), open_engine(VllmSettings(kind="vllm"), micro_checkpoint):
        pass


def test_a_start_that_takes_too_long_is_ended(vllm, monkeypatch, micro_checkpoint):
    monkeypatch.setattr(vllm, "__init__", lambda self, *_, **__: time.sleep(60))
    engine = open_engine(VllmSettings(kind="vllm", start_timeout=0.1), micro_checkpoint)
    with pytest.raises(EngineError, match=r"did not start within 0\.1 s; raise engine\.start_timeout"), engine:
        pass


def test_a_node_without_a_compiler_is_refused(vllm, monkeypatch, tmp_path, micro_checkpoint):
    """Triton would fail in the middle."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = open_engine(VllmSettings(kind="vllm"), micro_checkpoint)
    with pytest.raises(ConfigError, match=r"engine: vLLM's kernels need a C compiler .*envs/gpu\.yaml"), engine:
        pass


def test_an_incomplete_checkpoint_is_named_before_an_environment_without_vllm(monkeypatch, micro_checkpoint, tmp_path):
    monkeypatch.setattr("cocal_study.generation.vllm_engine.find_spec", lambda name: None)
    cut = own_copy(micro_checkpoint, tmp_path / "cut")
    (cut / "model.safetensors").write_bytes((cut / "model.safetensors").read_bytes()[:5000])
    for checkpoint, kind, message in (
        (cut, ContractError, "not a complete checkpoint"),
        (micro_checkpoint, ConfigError, r"vLLM is not installed for this Python: .*envs/gpu\.yaml"),
    ):
        engine = open_engine(VllmSettings(kind="vllm"), checkpoint)
        with pytest.raises(kind, match=message), engine:
            pass


def test_the_cache_holds_what_is_decoded_together(repository):
    """Keys and values of Qwen3-14B in bfloat16 (40 layers, 8 heads of 128) on a B200 of 180 GB: otherwise vLLM stops
    responses in the middle and computes their beginnings again."""
    study = load_study(repository / "config/paper.yaml")
    memory, weights, activations = 180e9, 29.5e9, 4e9
    prompt, rollout, factual = 150, 900, 250  # mean numbers of tokens
    token = 40 * 2 * 8 * 128 * 2
    rollouts = study.policy.questions_per_step * study.policy.responses_per_question / study.policy.trl.devices
    training = study.policy.trl.vllm_memory_share * memory - weights - activations
    assert rollouts * (prompt + rollout) * token < training
    sampling = study.generation.engine.memory_share * memory - weights - activations
    assert study.generation.engine.max_sequences * (prompt + factual) * token < sampling
    assert study.generation.engine.max_sequences >= 1024  # fewer leave most of the cache empty


@pytest.fixture(scope="session")
def own_checkpoint(micro_checkpoint, tmp_path_factory):
    """The micro policy as a user's own, which may be any stage of any training."""
    return own_copy(micro_checkpoint, tmp_path_factory.mktemp("own") / "base")


@pytest.mark.vllm
def test_repeats_are_bitwise_identical_and_memory_is_given_back(own_checkpoint):
    """In two engines, one of which answered something else before; a judge may follow a policy in one job."""
    gpu, process, found = torch.cuda.is_available(), psutil.Process(), []

    def taken() -> int:
        """Bytes of the GPU or, without one, of the process."""
        free, whole = torch.cuda.mem_get_info() if gpu else (0, process.memory_info().rss)
        return whole - free

    for earlier in ([], PROMPTS[:3]):
        with open_engine(VllmSettings(kind="vllm"), own_checkpoint) as engine:
            for prompt in earlier:
                engine.generate([prompt], SAMPLING, [5])
            found.append(engine.generate(PROMPTS, SAMPLING, SEEDS))
            while_open = taken()
        assert taken() < while_open - 2**29  # the cache takes 1 GiB, and more on a GPU
    first, second = ([completion for group in groups for completion in group] for groups in found)
    assert [c.token_ids for c in first] == [c.token_ids for c in second]
    assert len({tuple(c.token_ids) for c in first}) > 100
    for one, other in zip(first, second, strict=True):
        assert one.logprobs.tobytes() == other.logprobs.tobytes()


@pytest.mark.vllm
def test_requests_that_cannot_be_met_are_refused_and_leave_the_engine_at_work(own_checkpoint):
    with open_engine(VllmSettings(kind="vllm", max_length=64), own_checkpoint) as engine:
        with pytest.raises(ConfigError, match="a prompt of 4 tokens and a response of 61 do not fit into 64 tokens"):
            engine.generate(PROMPTS, Sampling(1.0, 0, 1.0, 0.0, max_tokens=61), SEEDS)
        with pytest.raises(ConfigError, match=r"presence_penalty must be in \[-2, 2\], got 3.0"):
            engine.generate(PROMPTS, Sampling(1.0, 0, 1.0, 3.0, max_tokens=4), SEEDS)
        with pytest.raises(ConfigError, match=r"temperature 0.001 is below vLLM's 0.01"):
            engine.generate(PROMPTS, Sampling(0.001, 0, 1.0, 0.0, max_tokens=4), SEEDS)
        with pytest.raises((ConfigError, EngineError), match="384"):  # beyond the vocabulary
            engine.generate([[1, 384]], Sampling(1.0, 0, 1.0, 0.0, max_tokens=4), [0])
        ((whole,),) = engine.generate(PROMPTS[:1], Sampling(1.0, 0, 1.0, 0.0, max_tokens=60), SEEDS[:1])
        assert len(whole.token_ids) <= 60
    if not INVARIANT:
        engine = open_engine(VllmSettings(kind="vllm", batch_invariant=True), own_checkpoint)
        with pytest.raises(ConfigError, match=r"batch_invariant needs a GPU of compute capability 9\.0"), engine:
            pass


@pytest.mark.vllm
def test_states_that_vllm_keeps_are_those_of_a_pass(own_checkpoint, micro_policy):
    """Every block's output, the final one before the last norm, over prompt, response and EOS: two implementations.
    Keeping them changes no response; some are cut, and some prompts and responses fill several blocks of the cache."""
    model, tokenizer = micro_policy
    layers, poolings = [0, 1], ("last", "mean", "prompt")
    prompts = [prompt + [20] * (17 * k % 50) for k, prompt in enumerate(PROMPTS)]
    settings = VllmSettings(kind="vllm", max_length=128, batch_invariant=INVARIANT, eager=True, memory_share=0.2)
    sampling = replace(SAMPLING, top_k=50)
    with open_engine(settings, own_checkpoint) as engine:
        plain = engine.generate(prompts, sampling, SEEDS)
        words = engine.next_token_logprobs(prompts, [31, 33, 32])
    with open_reading(settings, own_checkpoint, layers, poolings) as engine:
        kept = sampled(engine, prompts, sampling, SEEDS)
        begun = [ids[:1] for _, ids, _ in kept[:: sampling.samples]]
        shorter = read(engine, prompts, begun)
        np.testing.assert_allclose(engine.next_token_logprobs(prompts, [31, 33, 32]), words, atol=ROUNDING)
    if REPEATS:
        assert [ids for _, ids, _ in kept] == [one.token_ids for group in plain for one in group]
    asked, responses, states = zip(*kept, *zip(prompts, begun, shorter, strict=True), strict=True)
    options = {"layers": layers, "pad": tokenizer.pad_token_id, "poolings": poolings}
    expected = score(model, asked, responses, [np.arange(len(asked))], **options).features
    assert {ids[-1] == tokenizer.eos_token_id for ids in responses[: len(kept)]} == {True, False}
    assert np.ptp(expected, axis=0).min() > 0.01  # states of other rows, layers or places would show
    same_states(np.stack(states), expected)


@pytest.mark.vllm
def test_resample_command(own_checkpoint, micro_questions, tmp_path):
    policy = {"dataset": "micro-train", "steps": 2, "stages": [2], "questions_per_step": 6}
    policy |= {"responses_per_question": 4, "max_response_length": {"grpo": 16, "rlcr": 16, "dcpo": 16}}
    flags = [f"--policy={json.dumps(policy)}", f"--engine={json.dumps(ENGINE)}", f"--checkpoint={own_checkpoint}"]
    flags += [f"--questions={micro_questions / 'micro-train.parquet'}", "--prompts=tiny", "--backbone=micro"]
    flags += [f"--run-folder={tmp_path / 'run'}"]
    places = [f"--rollouts={tmp_path / 'rollouts'}", f"--output-features={tmp_path / 'states.zarr'}"]
    assert cli.main(["resample", *flags, *places]) == 0
    frame = read_frame(tmp_path / "rollouts", RESPONSES)
    assert frame["step"].tolist() == [1] * 24 + [2] * 24
    assert frame.groupby(["step", "question_id"])["text"].nunique().max() > 1
