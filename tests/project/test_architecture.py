"""The additions that docs/architecture.md works through, tried as they are written there."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cocal.config.evaluation import MetricSettings
from cocal.metrics.cube import metric_cube
from cocal.store import write_dataset
from sample_predictions import sample_predictions

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()
BLOCKS = dict(re.findall(r"^```(?:python|yaml)\n# ([^\n]+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
"""What stands on the page, by the first line of each block."""


@pytest.fixture
def package(tmp_path) -> Path:
    """A copy of the package."""
    return Path(shutil.copytree(ROOT / "src", tmp_path / "src"))


def add(package: Path, file: str) -> None:
    """Write a block of the page into the copy."""
    target = package.parent / file
    assert not target.exists()
    target.write_text(BLOCKS[file])
    lint(target)


def lint(file: Path) -> None:
    """Ask for the style of this repository, which `make lint` asks of every file."""
    for words in (["check"], ["format", "--diff"]):
        command = [sys.executable, "-m", "ruff", *words, "--config", str(ROOT / "pyproject.toml"), str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr


def run(package: Path, *words: str) -> str:
    """Run `cocal` with the copy of the package, or Python if the first word is its flag."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(package), str(ROOT / "tests")])}
    command = [sys.executable, *words] if words[0] == "-c" else ["cocal", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def plan(package: Path, study: dict) -> str:
    """The dry-run of a study."""
    file = package.parent / "study.yaml"
    file.write_text(yaml.safe_dump(study, sort_keys=False))
    flags = ["--dry-run", "--quiet", "rules", "--directory", str(package.parent), "--configfile", str(file)]
    return run(package, "snakemake", *flags)


def smoke_study() -> dict:
    return yaml.safe_load((ROOT / "config/smoke.yaml").read_text())


def test_the_map_names_every_room():
    page = PAGE.partition("## The rooms")[2].partition("## Add")[0]
    rooms = {path.name for path in (ROOT / "src/cocal").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms - {"commands"} == set(re.findall(r"^\| `(\w+)/`", page, re.MULTILINE)) - {"commands"}
    assert rooms <= set(re.findall(r"`(\w+)/`", page))


def test_a_method_is_one_file(package):
    add(package, "src/cocal/methods/brevity.py")
    code = (
        "import numpy as np, pandas as pd\n"
        "from pathlib import Path\n"
        "from cocal.config.load import load_study\n"
        "from cocal.config.methods import METHODS\n"
        "from cocal.methods.brevity import estimate\n"
        "from cocal.methods.responses import Responses\n"
        "evaluated = pd.DataFrame({'length': [0, 100]})\n"
        "found = estimate([METHODS['brevity']], Responses(Path(), 'set', evaluated, evaluated), None)\n"
        "print([value.tolist() for value in found.values()])\n"
        "print('brevity' in load_study('config/smoke.yaml').estimators.methods)\n"
    )
    assert run(package, "-c", code).split("\n")[:2] == ["[[1.0, 0.5]]", "True"]
    study = smoke_study()
    study["estimators"] = {"methods": ["brevity", "cocal-binary"]}
    assert "predictions" in plan(package, study)


def test_a_figure_is_one_file(package, tmp_path):
    add(package, "src/cocal/exhibits/seeds.py")
    assert "figure_seeds" in plan(package, smoke_study())
    code = (
        "from cocal.config import load_study\n"
        "from cocal.exhibits.base.registry import exhibits_of\n"
        "positions = [one.position for one in exhibits_of(load_study('config/smoke.yaml'), {})]\n"
        "print(len(positions) - len(set(positions)), 'reused')\n"
    )
    assert run(package, "-c", code) == "0 reused\n"
    cube = metric_cube(
        sample_predictions("amc23", "amc24", methods=("cocal-group", "cocal-binary")),
        MetricSettings(resamples=5),
        {"macro-mathematics": ["amc23", "amc24"]},
    )
    write_dataset(tmp_path / "cube.nc", cube, {})
    layout = {"study": "smoke", "caption": "A sample.", "backbone_label": "Tiny A", "backbone": "tiny-a", "steps": [60]}
    layout["methods"] = ["cocal-group", "cocal-binary"]
    output = tmp_path / "seeds.pdf"
    command = ["exhibit", "seeds", "--input", f"metrics={tmp_path / 'cube.nc'}", "--layout", json.dumps(layout)]
    run(package, *command, "--output", str(output))
    assert output.stat().st_size > 1000
    assert output.with_suffix(".csv").read_text().count("\n") == 1 + 2 * 2


def test_a_data_set_is_a_file(package, tmp_path):
    study = smoke_study()
    (added,) = yaml.safe_load(BLOCKS["datasets of a study"]).items()
    name, settings = added
    settings["source"]["path"] = str(tmp_path / "trivia.jsonl")
    lines = [
        {"question": "Who wrote Faust?", "answer": "Goethe"},
        {"question": "What is the capital of Peru?", "answer": "Lima"},
    ]
    (tmp_path / "trivia.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    study["datasets"][name] = settings
    assert "questions" in plan(package, study)


def test_a_backbone_is_a_checkpoint(package, micro_checkpoint):
    study = smoke_study()
    ((name, settings),) = yaml.safe_load(BLOCKS["backbones of a study"]).items()
    shape = json.loads((micro_checkpoint / "config.json").read_text())
    settings |= {"path": str(micro_checkpoint), "depth": shape["num_hidden_layers"], "width": shape["hidden_size"]}
    study["backbones"] = {name: settings}
    assert "existing_backbone" in plan(package, study)
    command = ["backbone", "--settings", json.dumps(settings), "--output", str(package.parent / "base")]
    run(package, *command)
    assert (package.parent / "base/model.safetensors").exists()


def test_an_engine_is_its_settings_and_a_module(package, micro_checkpoint):
    add(package, "src/cocal/generation/greedy_engine.py")
    settings = package / "cocal/config/engine.py"
    added, union = BLOCKS["src/cocal/config/engine.py"].split("\n\n\n")
    text = re.sub(r"^EngineSettings = .*$", lambda _: f"{added}\n\n\n{union.strip()}", settings.read_text(), flags=re.M)
    assert "GreedySettings" in text
    settings.write_text(text)
    lint(settings)
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from cocal.config.engine import EngineChoice\n"
        "from cocal.generation.engine import Sampling\n"
        "from cocal.generation.engines import open_engine\n"
        "from cocal.models.loading import load_policy\n"
        "checkpoint = Path(sys.argv[1])\n"
        "policy = load_policy(checkpoint)\n"
        "sampling = Sampling(1.0, 1, 1.0, 0.0, max_tokens=8)\n"
        "prompts = [policy.tokenizer('1 + 1 =').input_ids, policy.tokenizer('2 + 2 =').input_ids]\n"
        "found = []\n"
        "for kind in ('greedy', 'transformers'):\n"
        "    with open_engine(EngineChoice({'kind': kind}).root, checkpoint, policy) as engine:\n"
        "        found.append([one.token_ids for (one,) in engine.generate(prompts, sampling, [1, 2])])\n"
        "        found.append(engine.next_token_logprobs(prompts, [5, 6]).round(4).tolist())\n"
        "assert found[0] == found[2] and found[1] == found[3], found\n"
    )
    run(package, "-c", code, str(micro_checkpoint))
