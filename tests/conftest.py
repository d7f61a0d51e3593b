"""Shared test set-up: one thread a process, portable numerics, no network, a micro policy."""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

from cocal.runtime import numerics

# before any library that reads them is loaded, here and in the processes that tests start
os.environ.update(numerics.environment("portable"))

import pytest
from filelock import FileLock

import started
from cocal import cli
from cocal.models.loading import load_policy
from cocal.runtime.machine import fix_threads
from micro import MICRO_POLICY, MICRO_SETS
from smoke_study import CONFIG, ROOT, finished


def pytest_configure(config):
    """Tests that start Snakemake are left out with the slow ones."""
    started.slow_left_out = "not slow" in config.option.markexpr


def pytest_collection_modifyitems(items):
    """Whatever reads the finished smoke study is slow, since the first such test runs it."""
    for item in items:
        if "smoke" in item.fixturenames:
            item.add_marker("slow")


def pytest_runtest_setup(item):
    """Tests of the real vLLM say aloud that they were left out."""
    if item.get_closest_marker("vllm") and find_spec("vllm") is None:
        pytest.skip("no vLLM environment: make test-vllm")


@pytest.fixture(scope="session", autouse=True)
def _threads():
    """Every test computes as jobs do, whether or not one of them has run in its process before."""
    fix_threads()


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Path:
    """A folder of all parallel test processes."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def micro_questions(shared) -> Path:
    """Folder with the question sets micro-train and micro-eval."""
    return _made_once(shared / "micro-questions", "questions", "--settings", json.dumps(MICRO_SETS))


@pytest.fixture(scope="session")
def micro_checkpoint(shared, micro_questions) -> Path:
    """A Qwen3 policy of two blocks, pre-trained for a few steps: it ends most of its responses."""
    settings = ["--settings", json.dumps(MICRO_POLICY), "--prompts", "tiny"]
    questions = map(str, sorted(micro_questions.glob("*.parquet")))
    return _made_once(shared / "micro-policy" / "base", "backbone", *settings, "--questions", *questions)


def _made_once(folder: Path, *command: str, output: tuple[str, ...] = ("--output",)) -> Path:
    """The folder that a command writes; one test process runs it, others wait. `output` comes before its path."""
    folder.parent.mkdir(exist_ok=True)
    done = folder.with_name(f"{folder.name}-done")
    with FileLock(folder.with_name(f"{folder.name}-lock")):
        if not done.exists():
            assert cli.main([*command[:1], *output, str(folder), *command[1:]]) == 0
            done.touch()
    return folder


@pytest.fixture(scope="session")
def micro_policy(micro_checkpoint):
    """Model and tokenizer of the micro policy."""
    return load_policy(micro_checkpoint)


@pytest.fixture(scope="session")
def own(micro_checkpoint, micro_policy, micro_questions, tmp_path_factory):
    """The micro policy as somebody's own, with its rollouts."""
    from own_rollouts import OwnPolicy

    folder = tmp_path_factory.mktemp("own")
    return OwnPolicy(micro_checkpoint, micro_policy, micro_questions / "micro-train.parquet", folder)


@pytest.fixture(scope="session")
def smoke(shared) -> Path:
    """Folder of the finished smoke study; parallel test processes share one."""
    return finished(shared / "smoke-study")


@pytest.fixture(scope="session")
def published(smoke, shared) -> Path:
    """A bundle of the smoke study; parallel test processes share one."""
    flags = ["--study", str(CONFIG), "--results", str(smoke / "results"), "--snakefile", str(ROOT / "Snakefile")]
    return _made_once(shared / "published" / "bundle", "publish", *flags, output=())
