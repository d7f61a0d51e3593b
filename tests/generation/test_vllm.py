"""vLLM in its own process: repeats, deaths, clear errors, and the commands with it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from cocal import cli
from cocal.config.engine import VllmSettings
from cocal.errors import ConfigError, ContractError, EngineError
from cocal.features.forward import score
from cocal.features.store import open_features
from cocal.generation.engine import Sampling
from cocal.generation.engines import open_engine
from cocal.store import read_frame, read_provenance
from cocal.store.contracts import RESPONSES
from micro import own_copy

SAMPLING = Sampling(temperature=1.0, top_k=0, top_p=1.0, presence_penalty=0.0, max_tokens=40, samples=8)
PROMPTS = [[1, 30 + k, 40, 50] for k in range(20)]
SEEDS = [1000 * k for k in range(20)]


def workers() -> list[psutil.Process]:
    """vLLM's processes of this test that still run; the dead who wait for their parent, whoever it is, do not count."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # zombies among them
            if "worker.py" in " ".join(child.cmdline()):
                found.append(child)
    return found


def gone(process: psutil.Process, seconds: float = 10) -> bool:
    """Whether a process has ended, if need be after some seconds."""
    end = time.monotonic() + seconds
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


@pytest.fixture
def interpreter(tmp_path):
    """Stands in for an interpreter: a shell script that says and does what is planted."""

    def plant(script: str) -> str:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return plant


@pytest.fixture(scope="session")
def micro_checkpoint(micro_checkpoint, tmp_path_factory):
    """The micro policy as a user's own, which may be any stage of any training."""
    return own_copy(micro_checkpoint, tmp_path_factory.mktemp("own") / "base")


def open_with(python: str, micro_checkpoint, micro_policy, **settings):
    with open_engine(VllmSettings(kind="vllm", python=python, **settings), micro_checkpoint):
        pytest.fail("it opened")


@pytest.mark.vllm
def test_repeats_are_bitwise_identical(micro_checkpoint, micro_policy):
    """In two processes, and in one that answered something else before."""
    found = []
    for earlier in ([], PROMPTS[:3]):
        with open_engine(VllmSettings(kind="vllm"), micro_checkpoint) as engine:
            for prompt in earlier:
                engine.generate([prompt], SAMPLING, [5])
            found.append(engine.generate(PROMPTS, SAMPLING, SEEDS))
    first, second = ([completion for group in groups for completion in group] for groups in found)
    assert [c.token_ids for c in first] == [c.token_ids for c in second]
    assert len({tuple(c.token_ids) for c in first}) > 100
    for one, other in zip(first, second, strict=True):
        assert one.logprobs.tobytes() == other.logprobs.tobytes()


@pytest.mark.vllm
def test_requests_that_cannot_be_met_are_refused_and_leave_the_engine_at_work(micro_checkpoint, micro_policy):
    with open_engine(VllmSettings(kind="vllm", max_length=64), micro_checkpoint) as engine:
        (process,) = workers()
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
    assert gone(process, 0)


@pytest.mark.vllm
def test_batch_invariance_is_refused_where_no_gpu_has_it(micro_checkpoint, micro_policy):
    with pytest.raises(ConfigError, match=r"batch_invariant needs a GPU of compute capability 9\.0"):
        open_with(os.environ["COCAL_VLLM_PYTHON"], micro_checkpoint, micro_policy, batch_invariant=True)
    assert not workers()


@pytest.mark.vllm
def test_a_killed_process_is_an_error(micro_checkpoint, micro_policy):
    with open_engine(VllmSettings(kind="vllm"), micro_checkpoint) as engine:
        (process,) = workers()
        process.kill()
        with pytest.raises(EngineError, match=r"(?s)died at work, status -9; its last lines:\n.*\w"):
            engine.generate(PROMPTS, SAMPLING, SEEDS)
    assert not workers()


@pytest.mark.vllm
def test_the_process_goes_with_its_parent(micro_checkpoint):
    """A parent that is killed closes nothing; that it is gone is seen all the same, with work under way."""
    script = """
import sys
from pathlib import Path
from cocal.config.engine import VllmSettings
from cocal.generation.engine import Sampling
from cocal.generation.vllm_engine import open_vllm
with open_vllm(VllmSettings(kind="vllm"), Path(sys.argv[1])) as engine:
    print("open", flush=True)
    while True:
        engine.generate([[1, 30]], Sampling(1.0, 0, 1.0, 0.0, max_tokens=400, samples=256), [0])
"""
    command = [sys.executable, "-c", script, str(micro_checkpoint)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout.readline() == b"open\n"
        (process,) = workers()
        time.sleep(1)
        parent.send_signal(signal.SIGKILL)
    assert parent.returncode == -signal.SIGKILL, "it had ended before"
    assert gone(process)


@pytest.mark.vllm
def test_states_are_those_that_vllm_sees(micro_checkpoint, micro_policy, tmp_path):
    """Every block's output, the final one before the last norm, over prompt, response and EOS: two implementations."""
    model, tokenizer = micro_policy
    with open_engine(VllmSettings(kind="vllm"), micro_checkpoint) as engine:
        groups = engine.generate(PROMPTS, SAMPLING, SEEDS)
    rows = [(p, c.token_ids) for p, group in zip(PROMPTS, groups, strict=True) for c in group[:2]]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    script = Path(__file__).with_name("vllm_states.py")
    places = [str(micro_checkpoint), str(tmp_path / "rows.json"), str(tmp_path / "states.npy")]
    subprocess.run([os.environ["COCAL_VLLM_PYTHON"], str(script), *places], check=True)
    prompts, responses = zip(*rows, strict=True)
    (part,) = score(
        model,
        prompts,
        responses,
        [np.arange(len(rows))],
        layers=[0, 1],
        pad=tokenizer.pad_token_id,
        poolings=("last", "mean", "prompt"),
    )
    assert {ids[-1] == tokenizer.eos_token_id for ids in responses} == {True, False}
    assert np.ptp(part.features, axis=0).min() > 0.01  # states of other rows, layers or places would show
    np.testing.assert_allclose(np.load(tmp_path / "states.npy"), part.features, atol=1e-5)


@pytest.mark.vllm
def test_responses_command(micro_checkpoint, micro_questions, micro_policy, tmp_path):
    plan = {"sets": {"micro-eval": {"samples": 2, "sampled": 3, "max_response_length": 24, "p_true": True}}}

    def respond(output: Path):
        options = {
            "--settings": json.dumps({"engine": {"kind": "vllm"}}),
            "--plan": json.dumps(plan),
            "--prompt-format": "answer",
            "--prompts": "tiny",
            "--questions": micro_questions,
            "--checkpoint": micro_checkpoint,
            "--backbone": "micro",
            "--algorithm": "base",
            "--step": 0,
            "--run-folder": tmp_path / "run",
            "--output": output,
        }
        assert cli.main(["responses", *(f"{flag}={value}" for flag, value in options.items())]) == 0
        return (output / "micro-eval.parquet").read_bytes()

    assert respond(tmp_path / "one") == respond(tmp_path / "two")
    frame = read_frame(tmp_path / "one/micro-eval.parquet", RESPONSES)
    assert len(frame) == 27
    assert frame["p_true"].notna().sum() == 18
    assert read_provenance(tmp_path / "one/micro-eval.parquet")["engine"].startswith("vllm 0.")
    model, tokenizer = micro_policy
    prompts, responses = frame["prompt_ids"].tolist(), frame["response_ids"].tolist()
    batches = [np.arange(len(frame))]
    (part,) = score(model, prompts, responses, batches, layers=[1], pad=tokenizer.pad_token_id, logprobs=True)
    for found, expected in zip(frame["logprobs"], part.logprobs, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.vllm
def test_resample_command(micro_checkpoint, micro_questions, tmp_path):
    policy = {
        "dataset": "micro-train",
        "steps": 2,
        "stages": [2],
        "questions_per_step": 6,
        "responses_per_question": 4,
        "max_response_length": {"grpo": 16, "rlcr": 16, "dcpo": 16},
    }
    options = {
        "--policy": json.dumps(policy),
        "--engine": '{"kind": "vllm"}',
        "--checkpoint": micro_checkpoint,
        "--backbone": "micro",
        "--prompts": "tiny",
        "--questions": micro_questions / "micro-train.parquet",
        "--run-folder": tmp_path / "run",
        "--rollouts": tmp_path / "rollouts",
        "--output-features": tmp_path / "features.zarr",
    }
    assert cli.main(["resample", *(f"{flag}={value}" for flag, value in options.items())]) == 0
    frame = read_frame(tmp_path / "rollouts", RESPONSES)
    assert frame["step"].tolist() == [1] * 24 + [2] * 24
    assert frame.groupby(["step", "question_id"])["text"].nunique().max() > 1
    assert len(open_features(tmp_path / "features.zarr")) == 48


def test_an_interpreter_that_is_not_there_is_named(micro_checkpoint, micro_policy):
    with pytest.raises(ConfigError, match=r"/no/python cannot be run .*COCAL_VLLM_PYTHON.*envs/vllm\.yaml"):
        open_with("/no/python", micro_checkpoint, micro_policy)


def test_an_environment_without_vllm_is_named(monkeypatch, micro_checkpoint, micro_policy):
    """This one, which is the default."""
    monkeypatch.delenv("COCAL_VLLM_PYTHON", raising=False)
    with pytest.raises(ConfigError, match=rf"vLLM cannot be loaded by {sys.executable} .*make vllm"):
        open_with(None, micro_checkpoint, micro_policy)
    assert not workers()


def test_settings_come_before_the_environment_variable(monkeypatch, micro_checkpoint, micro_policy):
    monkeypatch.setenv("COCAL_VLLM_PYTHON", "/variable")
    with pytest.raises(ConfigError, match=r"engine\.python: /variable cannot"):
        open_with(None, micro_checkpoint, micro_policy)
    with pytest.raises(ConfigError, match=r"engine\.python: /settings cannot"):
        open_with("/settings", micro_checkpoint, micro_policy)


def test_last_words_of_a_process_that_dies(interpreter, micro_checkpoint, micro_policy, capfd):
    python = interpreter(
        "echo chatter; for k in $(seq 30); do echo line $k >&2; done; echo libcuda.so is broken >&2; exit 3"
    )
    with pytest.raises(EngineError, match=r"(?s)died starting, status 3; .*line 30\nlibcuda\.so is broken$") as error:
        open_with(python, micro_checkpoint, micro_policy)
    assert "line 10\n" not in str(error.value)
    assert "line 10\n" in capfd.readouterr().err  # the job's log holds everything


@pytest.mark.parametrize(
    "words",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
        "ValueError: Free memory on device cuda:0 (1/178 GiB) on startup is less than desired GPU memory utilization",
        "ValueError: 5.6 GiB KV cache is needed, which is larger than the available KV cache memory (1.0 GiB)",
    ],
)
def test_lack_of_memory_names_the_keys(interpreter, micro_checkpoint, micro_policy, words):
    with pytest.raises(ConfigError, match=r"short of memory; change engine\.memory_share"):
        open_with(interpreter(f"echo '{words}' >&2; exit 1"), micro_checkpoint, micro_policy)


def test_a_start_that_takes_too_long_is_ended(interpreter, micro_checkpoint, micro_policy):
    """The child too, which does not hear of the end of its parent."""
    python = interpreter(f"sh -c 'exec {sys.executable} -c \"import time; time.sleep(600)\" worker.py' & wait")
    with pytest.raises(EngineError, match=r"did not start within 0\.5 s; raise engine\.start_timeout"):
        open_with(python, micro_checkpoint, micro_policy, start_timeout=0.5)
    assert not workers()


def test_a_truncated_checkpoint_is_named_before_anything_starts(micro_checkpoint, micro_policy, tmp_path):
    cut = own_copy(micro_checkpoint, tmp_path / "cut")
    weights = cut / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    with pytest.raises(ContractError, match="not a complete checkpoint"):
        open_with("/no/python", cut, micro_policy)
    weights.unlink()
    with pytest.raises(ContractError, match=r"not a complete checkpoint \(no \.safetensors file\)"):
        open_with("/no/python", cut, micro_policy)
