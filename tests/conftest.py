"""Shared test set-up: one thread a process, no network, a micro policy."""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

import pytest

from cocal import cli
from smoke_study import finished

MICRO_SETS = {
    "datasets": {
        "micro-train": {
            "label": "Micro-Train",
            "role": "training",
            "domain": "mathematics",
            "source": {"kind": "synthetic-mathematics", "questions": 24, "levels": {1: 1, 2: 1}},
        },
        "micro-eval": {
            "label": "Micro-Eval",
            "role": "evaluation",
            "domain": "mathematics",
            "source": {"kind": "synthetic-mathematics", "questions": 9, "levels": {1: 1}},
            "samples": 2,
            "max_response_length": 24,
        },
    },
    "world": {"people": 20},
}
MICRO_POLICY = {
    "source": "pretraining",
    "label": "Micro",
    "architecture": {
        "hidden_size": 32,
        "layers": 2,
        "heads": 2,
        "key_value_heads": 1,
        "intermediate_size": 64,
        "vocabulary": 384,
    },
    # short direct answers are learnt in seconds; the worked ones run into the length limit
    "corpus": {"facts": 0.0, "worksheets": 0.0, "direct_answers": 0.4},
    "learning_rate": 1e-2,
    "steps": 150,
    "batch_size": 16,
}


def pytest_runtest_setup(item):
    """Tests of the real vLLM say aloud that they were left out."""
    if item.get_closest_marker("vllm") and "COCAL_VLLM_PYTHON" not in os.environ:
        pytest.skip("no vLLM environment: make test-vllm")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def micro_questions(tmp_path_factory) -> Path:
    """Folder with the question sets micro-train and micro-eval."""
    folder = tmp_path_factory.mktemp("questions")
    assert cli.main(["questions", "--settings", json.dumps(MICRO_SETS), "--output", str(folder)]) == 0
    return folder


@pytest.fixture(scope="session")
def micro_checkpoint(tmp_path_factory, micro_questions) -> Path:
    """A Qwen3 policy of two blocks, pre-trained for a few steps: it ends most of its responses."""
    folder = tmp_path_factory.mktemp("policy") / "base"
    command = [
        "backbone",
        "--settings",
        json.dumps(MICRO_POLICY),
        "--prompts",
        "tiny",
        "--output",
        str(folder),
        "--questions",
    ]
    assert cli.main([*command, *map(str, micro_questions.glob("*.parquet"))]) == 0
    return folder


@pytest.fixture(scope="session")
def micro_policy(micro_checkpoint):
    """Model and tokenizer of the micro policy."""
    from cocal.checkpoints.loading import load_policy

    return load_policy(micro_checkpoint)


@pytest.fixture(scope="session")
def smoke(tmp_path_factory) -> Path:
    """Folder of the finished smoke study; parallel test processes share one."""
    base = tmp_path_factory.getbasetemp()
    return finished((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "smoke-study")
