"""The additions that docs/architecture.md works through, tried as they are written there, all in one copy."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

import started
from cocal.metrics.settings import MetricSettings
from cocal_study.exhibits.base.inputs import READERS
from cocal_study.store.datasets import write_dataset
from sample_predictions import metric_cube, sample_predictions
from smoke_study import CONFIG, flags_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()
BLOCKS = dict(re.findall(r"^```(?:python|yaml)\n# ([^\n]+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
"""The blocks of code on the page, by their first lines."""
EXAMPLES = [*(ROOT / "docs/methods").glob("*.py")]
BLOCKS |= {f"src/cocal_study/methods/{file.name}": file.read_text() for file in EXAMPLES}
ENGINES = "src/cocal_study/config/engine.py"


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """A copy of the package with every file of the page."""
    copy = Path(shutil.copytree(ROOT / "src", tmp_path_factory.mktemp("copy") / "src"))
    for file, text in BLOCKS.items():
        if file.startswith("src/") and file != ENGINES:
            (copy.parent / file).write_text(text)
    settings = copy.parent / ENGINES
    added, union = BLOCKS[ENGINES].split("\n\n\n")
    text = re.sub(r"^EngineSettings = .*$", lambda _: f"{added}\n\n\n{union.strip()}", settings.read_text(), flags=re.M)
    settings.write_text(text)
    return copy


def run(package: Path, *words: object) -> str:
    """The output of a command that runs with the copy of the package."""
    done = started.run(words, ROOT, os.environ | {"PYTHONPATH": str(package)})
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr


def test_the_additions_are_in_the_style_of_the_repository(package):
    files = [package.parent / file for file in BLOCKS if file.startswith("src/")]
    for words in (["check"], ["format", "--diff"]):
        run(package, sys.executable, "-m", "ruff", *words, "--config", ROOT / "pyproject.toml", *files)


@pytest.mark.slow
def test_a_study_with_every_addition_is_planned(package, micro_checkpoint, tmp_path):
    study = yaml.safe_load((ROOT / "config/smoke.yaml").read_text())
    ((name, dataset),) = yaml.safe_load(BLOCKS["datasets of a study"]).items()
    dataset["source"]["path"] = str(tmp_path / "trivia.jsonl")
    pairs = [("Who wrote Faust?", "Goethe"), ("What is the capital of Peru?", "Lima")]
    lines = [json.dumps({"question": question, "answer": answer}) for question, answer in pairs]
    (tmp_path / "trivia.jsonl").write_text("\n".join(lines) + "\n")
    study["datasets"][name] = dataset
    ((name, backbone),) = yaml.safe_load(BLOCKS["backbones of a study"]).items()
    shape = json.loads((micro_checkpoint / "config.json").read_text())
    backbone |= {"path": str(micro_checkpoint), "depth": shape["num_hidden_layers"], "width": shape["hidden_size"]}
    study["backbones"] = {name: backbone}
    study["estimators"] = {"methods": ["brevity", "cocal-binary", "cocal-group"]}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    flags = ["--dry-run", "--directory", tmp_path, "--configfile", tmp_path / "study.yaml"]
    said = run(package, "snakemake", *flags)
    for words in ("existing_backbone", "figure_seeds", "questions trivia"):
        assert words in said


@pytest.mark.slow
def test_a_study_of_ones_own_is_planned(tmp_path):
    (tmp_path / "mine.yaml").write_text(BLOCKS["config/mine.yaml"])
    command = ["snakemake", "--directory", "studies/mine", "--configfile", "config/mine.yaml"]
    assert " ".join(command) in PAGE
    places = {"studies/mine": tmp_path, "config/mine.yaml": tmp_path / "mine.yaml"}
    said = run(ROOT / "src", *(places.get(word, word) for word in command), "--dry-run")
    for words in ("train_grpo", "table_main", "figure_reliability", "questions test"):
        assert words in said


def test_every_kind_of_input_is_described():
    rows = PAGE.partition("### What an exhibit may read")[2].partition("## Add")[0]
    kinds = re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in re.findall(r"^\| `.*", rows, re.MULTILINE)))
    assert {*kinds} == {*READERS}


def test_a_method_is_one_file_and_so_is_a_score_that_learns(package):
    """The latter is a baseline of a study at once, whose stage reads states."""
    code = """
import numpy as np, pandas as pd
from pathlib import Path
from cocal_study.config.study import load_study
from cocal_study.config.methods import METHODS
from cocal_study.exhibits.base.registry import exhibits_of
from cocal_study.methods import brevity, deepconf, nearest_centroid, states_and_tokens
from cocal_study.methods.base.responses import LabelledStates, Responses
from cocal_study.planning.baselines import BASELINES, baselines_of
study = load_study("config/smoke.yaml")
evaluated = pd.DataFrame({"length": [0, 100]})
(found,) = brevity.estimate([METHODS["brevity"]], Responses(Path(), "set", evaluated, evaluated), None).values()
print(found.tolist(), "brevity" in study.methods, "deepconf" in study.methods)
deepconf.WINDOW = 2
best = [-np.arange(6, dtype=np.float32), -np.array([1, 1, 9, 9, 0, 0, 0, 4], dtype=np.float32)]
table = pd.DataFrame({"length": [1, 4], "best_logprobs": best})
(found,) = deepconf.estimate([METHODS["deepconf"]], Responses(Path(), "set", table, table), None).values()
print(found.tolist())
states = np.array([[0, 0], [0, 2], [4, 1], [4, 9]], dtype=np.float32)
labelled = LabelledStates(states, np.array([True, True, False, False]), np.full(4, 0.5))
found = nearest_centroid.learn("binary", labelled, None)
print(found.apply(np.array([[0, 1], [0, 5], [4, 5], [1, 1]])).round(3).tolist(), found.model_dump_json())
table = pd.DataFrame({"step": [1, 2, 2, 3], "length": [5, 9, 6, 8], "mean_logprob": [-0.1, -0.2, -2, -3]})
given = labelled._replace(table=table.assign(logprobs=[[-0.5], [-0.4, -0.1], [-7], [-9, -1]]))
right, wrong = states_and_tokens.learn("binary", given, given).apply(states, given.table).reshape(2, 2)
print(right.min() > wrong.max())
compared = [one.name for one in baselines_of(study, "grpo")]
print("nearest-centroid" in compared, BASELINES["nearest-centroid"].reads_states)
places = {one.position: one.module for one in exhibits_of(study, {})}
taken = [f"{one.module} has the position of {places[one.position]}" for one in exhibits_of(study, {})
         if places[one.position] != one.module]
assert not taken, taken
"""
    assert run(package, sys.executable, "-c", code).splitlines() == [
        "[1.0, 0.5] True False",
        "[0.7142857142857143, 0.5]",
        '[1.0, 0.5, 0.0, 0.833] {"right":[0.0,1.0],"wrong":[4.0,5.0]}',
        "True",
        "True True",
    ]
    tried = run(package, "cocal", "try", "nearest-centroid", "states-and-tokens")
    assert tried.count("learns from random rollouts and scores others") == 2


@pytest.mark.long
def test_a_score_that_learns_is_compared_with_cocal_in_a_finished_study(package, smoke, tmp_path):
    folder = shutil.copytree(smoke, tmp_path / "study", symlinks=True)
    command = ("snakemake", "results/tables/recalibrated.tex", *flags_of(folder, CONFIG))
    baseline = package / "cocal_study/methods/states_and_tokens.py"
    text = baseline.read_text()
    baseline.write_text(text.replace('table["length"]', 'table["lenght"]'))
    with pytest.raises(AssertionError, match=r"states-and-tokens: fails on random rollouts: KeyError\('lenght'\)"):
        run(package, *command)
    baseline.write_text(text)
    run(package, *command)
    said = run(package, "cocal", "compare", "cocal-binary", "nearest-centroid", "--results", folder / "results")
    assert "A: cocal-binary   B: nearest-centroid" in said
    assert re.search(r"macro-factual +nearest-centroid +auroc +[+−]?[\d.]+ \[", said)


@pytest.mark.slow
def test_a_figure_is_one_file(package, tmp_path):
    methods = ("cocal-group", "cocal-binary")
    predictions = sample_predictions("amc23", "amc24", methods=methods)
    cube = metric_cube(predictions, MetricSettings(resamples=5), {"macro-mathematics": ["amc23", "amc24"]})
    write_dataset(tmp_path / "cube.nc", cube, {})
    layout = {"study": "smoke", "caption": "A sample.", "backbone_label": "Tiny A", "backbone": "tiny-a", "steps": [60]}
    layout = json.dumps(layout | {"methods": methods})
    output = tmp_path / "seeds.pdf"
    words = ["--input", "metrics", str(tmp_path / "cube.nc"), "--layout", layout, "--output", output]
    run(package, "cocal", "exhibit", "seeds", *words)
    assert output.stat().st_size > 1000
    assert output.with_suffix(".csv").read_text().count("\n") == 1 + 2 * 2
    code = """
import sys
import pandas as pd
from cocal.drawing.style import paper_style
from cocal_study.exhibits import seeds
sys.path.append(sys.argv[1])
from drawn_texts import assert_texts_apart
with paper_style():
    figure = seeds.draw(pd.read_csv(sys.argv[2]), seeds.Layout.model_validate_json(sys.argv[3]))
    assert_texts_apart(figure)
(ax,) = figure.axes
for line in ax.lines:
    seen, whole = line.get_window_extent(), ax.bbox
    assert whole.x0 <= seen.x0 and seen.x1 <= whole.x1 and whole.y0 <= seen.y0 and seen.y1 <= whole.y1, "marks are cut"
print([text.get_text() for text in ax.get_yticklabels()])
"""
    said = run(package, sys.executable, "-c", code, ROOT / "tests/support", output.with_suffix(".csv"), layout)
    assert said.strip() == "['CoCal (group)', 'CoCal (binary)']"


@pytest.mark.slow
def test_an_engine_is_its_settings_and_a_module(package, micro_checkpoint):
    code = """
import sys
from pathlib import Path
from cocal_study.config.engine import EngineChoice
from cocal_study.generation.engines import Sampling, open_engine
from cocal.models.loading import load_policy
checkpoint = Path(sys.argv[1])
policy = load_policy(checkpoint)
sampling = Sampling(1.0, 1, 1.0, 0.0, max_tokens=8)
prompts = [policy.tokenizer(text).input_ids for text in ("1 + 1 =", "2 + 2 =")]
found = []
for kind in ("greedy", "transformers"):
    with open_engine(EngineChoice({"kind": kind}).root, checkpoint, policy) as engine:
        ids = [one.token_ids for (one,) in engine.generate(prompts, sampling, [1, 2])]
        found.append((ids, engine.next_token_logprobs(prompts, [5, 6]).round(4).tolist()))
assert found[0] == found[1], found
"""
    run(package, sys.executable, "-c", code, micro_checkpoint)
