"""The start of a process: what commands do not import, and the garbage collector, which they get back."""

import gc
import importlib.util
import json
import subprocess
import sys

import pytest

from cocal.runtime.extras import EXTRAS
from cocal.runtime.machine import fix_threads
from cocal.runtime.startup import begin_work, collect_less, importing_without
from own_rollouts import write_lines

_IN_A_PROCESS = """
import sys
from cocal.runtime.startup import import_transformers

import_transformers()
import torch
import transformers.masking_utils
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, Qwen3ForCausalLM

weights = torch.nn.Parameter(torch.ones(2, 2))
for optimiser in (torch.optim.AdamW([weights]), torch.optim.Muon([weights])):
    weights.square().sum().backward()
    optimiser.step()
    optimiser.zero_grad()
print(*sorted({"scipy", "sklearn", "torch._dynamo.convert_frame"} & sys.modules.keys()), "loaded")

from transformers.utils import is_scipy_available, is_sklearn_available

assert is_scipy_available() and is_sklearn_available()
from sklearn.isotonic import IsotonicRegression
from scipy.stats import binom

print("found")
with transformers.masking_utils.TransformGetItemToIndex() as mode:
    print(type(mode).__name__)
doubled = torch.compile(lambda numbers: 2 * numbers, backend="eager")
print(doubled(torch.ones(2)).tolist(), sys.modules["torch._dynamo"].__file__.endswith("_dynamo/__init__.py"))
"""


_WITHOUT_EXTRAS = """
import json, sys
from cocal.cli import main

commands, hidden = map(json.loads, sys.argv[1:])
sys.modules.update(dict.fromkeys(hidden))  # None in place of a module stands for one that is not installed
for status, *words in commands:
    assert main(words) == status, words
"""


def test_companions_score_and_decide_without_the_packages_of_extras(tmp_path, own):
    """Any other command says which extra it needs."""
    lines, scored, report, decided = (str(tmp_path / name) for name in ("lines.jsonl", "scored.jsonl", "report", "d"))
    write_lines(tmp_path / "lines.jsonl", own.rollouts, own.texts, response=[r"\boxed{3}"] * len(own.rollouts))
    of = ["--companion", str(own.companion), "--model", str(own.checkpoint)]
    commands = [
        [0, "score", *of, lines, scored],
        [0, "evaluate", scored, "--output", report, "--resamples", "20"],
        [0, "decide", "best-of-n", scored, "--output", f"{decided}-best.jsonl", "--resamples", "20"],
        [0, "decide", "vote", scored, "--output", f"{decided}-vote.jsonl", "--resamples", "20"],
        [0, "decide", "abstain", scored, "--output", f"{decided}-abstain.jsonl", "--threshold", "0.5"],
        [2, "metrics", "--predictions", "none", "--settings", "{}", "--output", "none.nc"],
    ]
    command = [sys.executable, "-c", _WITHOUT_EXTRAS, json.dumps(commands), json.dumps([*EXTRAS])]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    sentence = "cocal metrics: error: the package {} is not installed; `pip install 'cocal[{}]'` brings it"
    assert done.stderr.splitlines()[-1] in {sentence.format(*one) for one in EXTRAS.items()}


def test_a_companion_is_imported_with_torch_alone():
    """A service imports it at its start; the others are imported by what uses them."""
    text = "import sys; from cocal import Companion; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "torch" in loaded
    assert not loaded & {*EXTRAS, "huggingface_hub", "matplotlib", "pandas", "scipy", "transformers"}


def test_a_policy_is_loaded_without_libraries_that_it_does_not_need():
    done = subprocess.run([sys.executable, "-c", _IN_A_PROCESS], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["loaded", "found", "TransformGetItemToIndex", "[2.0, 2.0] True"]


def test_a_hidden_package_is_missing_for_a_while(tmp_path, monkeypatch):
    (tmp_path / "seen_by_chance.py").write_text("LOADED = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    with importing_without("seen_by_chance"):
        assert importlib.util.find_spec("seen_by_chance") is None
        with pytest.raises(ImportError):
            import seen_by_chance
    import seen_by_chance

    assert seen_by_chance.LOADED
    with importing_without("seen_by_chance"):
        assert importlib.import_module("seen_by_chance") is seen_by_chance  # what is loaded stays
    assert sys.modules.pop("seen_by_chance") is seen_by_chance


def test_a_package_is_found_again_after_an_import_that_failed():
    with pytest.raises(RuntimeError), importing_without("no_such_package"):
        raise RuntimeError
    assert "no_such_package" not in sys.modules


def test_computing_commands_collect_garbage_as_often_as_usual():
    begin_work()  # what earlier commands of this process have left
    usual = gc.get_threshold()
    collect_less()
    assert gc.get_threshold()[0] > usual[0]
    fix_threads()
    assert gc.get_threshold() == usual
