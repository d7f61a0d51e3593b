"""The packages that scoring and companions do not import, and Ctrl-C while others are loaded."""

import importlib
import json
import os
import signal

import pytest

import started
from cocal.runtime.machine_errors import EXTRAS
from own_rollouts import run, write_lines

# A process of its own, since a second environment without these packages would take minutes to install.
_WITHOUT_EXTRAS = """
import json, sys
from cocal.cli import main

commands, hidden = map(json.loads, sys.argv[1:])
sys.modules.update(dict.fromkeys(hidden))  # None in place of a module stands for one that is not installed
for status, *words in commands:
    assert main(words) == status, words
"""


@pytest.mark.slow
def test_companions_score_and_decide_without_the_packages_of_extras(tmp_path, own):
    """Any other command says which extra it needs."""
    lines, scored, report, decided = (str(tmp_path / name) for name in ("lines.jsonl", "scored.jsonl", "report", "d"))
    decode = own.policy.tokenizer.decode
    texts = [decode(ids, skip_special_tokens=True) for ids in own.rollouts["response_ids"]]
    write_lines(tmp_path / "lines.jsonl", own.rollouts, own.texts, response=texts)
    of = ["--companion", str(own.companion), "--model", str(own.checkpoint)]
    commands = [
        [0, "score", *of, lines, scored],
        [0, "evaluate", scored, "--output", report, "--resamples", "20"],
        [0, "decide", "best-of-n", scored, "--output", f"{decided}-best.jsonl", "--resamples", "20"],
        [0, "decide", "vote", scored, "--output", f"{decided}-vote.jsonl", "--resamples", "20"],
        [0, "decide", "abstain", scored, "--output", f"{decided}-abstain.jsonl", "--threshold", "0.5"],
        [2, "fit", "--model", str(own.checkpoint), "--rollouts", lines, "--output", str(tmp_path / "none")],
    ]
    done = started.python(_WITHOUT_EXTRAS, json.dumps(commands), json.dumps([*EXTRAS]))
    assert done.returncode == 0, done.stderr[-3000:]
    sentence = "cocal fit: error: the package {} is not installed; `pip install '.[{}]'` in a checkout brings it"
    assert done.stderr.splitlines()[-1] in {sentence.format(*one) for one in EXTRAS.items()}


LIGHT = [
    pytest.param("import cocal", {"huggingface_hub", "numpy", "pandas", "torch"}, id="package"),
    pytest.param(  # a service imports it at its start
        "from cocal import Companion",
        {*EXTRAS, "huggingface_hub", "matplotlib", "pandas", "scipy", "transformers"},
        id="companion",
        marks=pytest.mark.slow,
    ),
    pytest.param("from cocal.companion.spec import read_spec", {"torch"}, id="spec"),
    pytest.param(  # trainings of other projects import it
        "import cocal.rewards",
        {"cocal.rollouts", "cocal.store", "cocal_study", "pandas", "pydantic", "torch", "trl"},
        id="rewards",
    ),
    pytest.param(
        "import argparse; from cocal.commands.catalogue import commands_with\n"
        "for command in commands_with(None).values():\n"
        "    callable(command.flags) or command.add_to(argparse.ArgumentParser())",
        {"numpy", "pandas", "pydantic", "torch", "yaml"},
        id="flags",
    ),
    pytest.param(  # not even the flags of the study's commands
        "from cocal.cli import main; main(['score', '--help'])",
        {"cocal_study.commands.catalogue.stages", "cocal_study.commands.catalogue.whole", "cocal_study.exhibits"},
        id="help",
    ),
    pytest.param(  # the workflow declares them before every plan, behind a module that declares a method
        "import cocal_study.methods.rlcr; from cocal_study.config.study import load_study\n"
        "from cocal_study.exhibits.base.registry import exhibits_of\n"
        "assert exhibits_of(load_study('config/paper.yaml'), {})",
        {"matplotlib", "sklearn", "torch"},
        id="exhibits",
        marks=pytest.mark.slow,
    ),
]
"""What is imported, and modules that it does not load, since they take seconds or need not be installed."""


@pytest.mark.parametrize(("code", "heavy"), LIGHT)
def test_imports_stay_light(code, heavy):
    done = started.python(f"import atexit, sys; atexit.register(lambda: print(*sys.modules))\n{code}")
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.splitlines()[-1].split()
    assert [module for module in loaded if module in heavy] == []


@pytest.mark.parametrize("command", ["fit", "score"])
def test_ctrl_c_waits_for_libraries_that_are_being_loaded(tmp_path, monkeypatch, capsys, command):
    loaded, load = [], importlib.import_module
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker of pytest-xdist ignores it

    def loading(name):
        os.kill(os.getpid(), signal.SIGINT)
        loaded.append(load(name))
        return loaded[-1]

    monkeypatch.setattr(importlib, "import_module", loading)
    of = {"fit": ("--rollouts", "in", "--output", "out"), "score": ("--companion", "of", "in.jsonl", "out.jsonl")}
    monkeypatch.chdir(tmp_path)
    try:
        assert run(command, "--model", "model", *of[command]) == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert loaded
    said = f"cocal {command}: interrupted; the same command begins anew, since nothing was finished yet\n"
    assert capsys.readouterr().err == said
