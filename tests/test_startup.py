"""The start of a process: what commands do not import, and the garbage collector, which they get back."""

import gc
import importlib.util
import subprocess
import sys

import pytest

from cocal.runtime.machine import fix_threads
from cocal.runtime.startup import begin_work, collect_less, importing_without

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
