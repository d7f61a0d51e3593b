"""The code and the prompt texts that each rule of the paper study says it depends on: an edit changes exactly those."""

import json
import os
import shutil
from pathlib import Path

import pytest

import started

ROOT = Path(__file__).resolve().parents[2]
PRINTED = """
include: "study.smk"
import json
from snakemake.iocontainers import Wildcards

def stated(rule):
    yield rule.name, [str(rule.params.get(name, "")) for name in ("code", "judge_texts")]
    texts = rule.params.get("texts", "")
    if not callable(texts):
        yield rule.name, texts
    elif rule.name in TRAINED:
        for algorithm in TRAINED[rule.name]:
            yield f"{rule.name} {algorithm}", texts(Wildcards(fromdict={"algorithm": algorithm}))
    elif rule.name != "import_rollouts":  # the study imports nothing
        for algorithm, step in plan.evaluated_cells(STUDY, MAIN):
            for prompt_format in plan.prompt_formats_of(STUDY, MAIN, algorithm, step):
                cell = dict(backbone=MAIN, algorithm=algorithm, step=str(step), prompt_format=prompt_format)
                yield f"{rule.name} {algorithm} {step} {prompt_format}", texts(Wildcards(fromdict=cell))

TRAINED = {"train": ["grpo"], "train_coupled": ["rlcr", "dcpo"], "slime": ["grpo", "rlcr", "dcpo"]}
found = {}
for rule in workflow.rules:
    if rule.name not in ("predictions", "all"):  # its code is that of a cell's methods
        for label, value in stated(rule):
            found.setdefault(label, []).append(value)
print(json.dumps(found))
"""
"""A Snakefile that shows the parameters of the rules of `study.smk`: by rule and, for texts, by what is asked for."""
SAMPLING = {"responses", "factual_responses", "resample", "latency"}
TRAINS = {"train", "train_coupled"}
OF_ANSWERS = {"backbone", "train grpo", "slime grpo", "resample", "latency"}
OF_ANSWERS |= {f"responses grpo {step} answer" for step in (40, 80, 120)}
OF_RLCR = {"backbone", "train_coupled rlcr", "slime rlcr"} | {f"responses rlcr {step} rlcr" for step in (40, 80, 120)}
OF_FACTS = {"backbone"} | {f"factual_responses dcpo {step} dcpo" for step in (40, 80, 120)}
EXHIBITS = object()
"""All tables and figures."""
EDITS = {
    "the engine of transformers": (
        "generation/transformers_engine.py",
        "_SCORING_TOKENS = 16384",
        "_SCORING_TOKENS = 16385",
        {"smoke": SAMPLING | TRAINS, "paper": TRAINS | {"latency"}},
    ),
    "the engine of vLLM": (
        "generation/vllm_engine.py",
        "TEMPERATURE = 0.01",
        "TEMPERATURE = 0.02",
        {"paper": SAMPLING},
    ),
    "vLLM's own process": ("generation/vllm_process/worker.py", "seed=0,", "seed=1,", {"paper": SAMPLING}),
    "slime's hooks": ("integrations/slime/hooks.py", '"acc": float(', '"acc": 1 - float(', {"paper": {"slime"}}),
    "an argument's default": ("companion/stepwise.py", "window: int = 1", "window: int = 2", {"paper": {"online"}}),
    "a reader of exhibits": ("exhibits/base/inputs.py", '"sample", "answer", ', '"answer", ', {"paper": EXHIBITS}),
    "the words of answers": ("prompts/qwen/answer.txt", "${question}", "Please. ${question}", {"paper": OF_ANSWERS}),
    "RLCR's words": ("prompts/qwen/rlcr.txt", "${question}", "Please. ${question}", {"paper": OF_RLCR}),
    "DCPO's words for facts": (
        "prompts/qwen/dcpo-factual.txt",
        "${question}",
        "Please. ${question}",
        {"paper": OF_FACTS},
    ),
    "the judge's words": (
        "prompts/judge/correctness.txt",
        "${question}",
        "Please. ${question}",
        {"paper": {"factual_responses"}},
    ),
}


@pytest.fixture(scope="module")
def stated(tmp_path_factory):
    """What the rules of a configured study state, with the package that lies in a folder."""
    root = tmp_path_factory.mktemp("workflow")
    for name in ("config", "workflow", "profiles", "envs"):
        (root / name).symlink_to(ROOT / name)
    (root / "study.smk").symlink_to(ROOT / "Snakefile")
    (root / "Snakefile").write_text(PRINTED)

    def run(study: str, source: Path) -> dict[str, list]:
        command = ["--snakefile", root / "Snakefile", "--configfile", root / f"config/{study}.yaml", "--list-rules"]
        done = started.snakemake([*command, "--directory", root], ROOT, {**os.environ, "PYTHONPATH": str(source)})
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[0])

    return run


@pytest.fixture(scope="module")
def before(stated):
    return {study: stated(study, ROOT / "src") for study in ("smoke", "paper")}


@pytest.mark.slow
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_changes_what_the_rules_that_use_it_state(stated, before, tmp_path, edit):
    file, old, new, expected = EDITS[edit]
    source = shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    path = source / "cocal" / file
    text = path.read_text()
    assert old in text, "the test edits what is no longer there"
    path.write_text(text.replace(old, new, 1))
    for study, labels in expected.items():
        after = stated(study, source)
        assert after.keys() == before[study].keys()
        shown = {name for name in after if name.startswith(("table_", "figure_"))} - {"table_all"}
        changed = {label for label, value in before[study].items() if after[label] != value}
        assert changed == (shown if labels is EXHIBITS else labels), study
