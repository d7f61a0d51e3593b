"""Wrong wires: errors in the plan of jobs that no tool for mutants plants, and the tests that notice them.

    python tests/wires.py [NUMBER ...]       plants all of them, or these, one at a time in a copy of the checkout

A wire is a place where one file, step, setting or text would be taken for another. Every result would still be made.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = [
    "tests/study/planning/test_plan.py",
    "tests/study/planning/test_rules.py",
    "tests/study/planning/test_reruns.py",
    "-m",
    "not slow",
]
COPIED = ("src", "tests", "workflow", "config", "profiles", "envs", "docs", "Snakefile", "pyproject.toml", "README.md")

WIRES = [
    (
        "PostCal's companions learn from GRPO's rollouts",
        "variants.py",
        'learnt_from = "postcal" if experience == "resampled" else "grpo"',
        'learnt_from = "grpo"',
    ),
    (
        "companions of prompts read the states of responses",
        "variants.py",
        '"prompts" if experience == "prompts" else "rollouts"',
        '"rollouts"',
    ),
    (
        "PostCal's responses are not shuffled",
        "variants.py",
        '{"order": "shuffled", "shuffle_seed": study.postcal.shuffle_seed}',
        "chronological",
    ),
    (
        "the predictions of a stage apply the final companions",
        "comparisons.py",
        "{experience: [plan.restricted(step)] for",
        "{experience: [plan.restricted(study.policy.steps)] for",
    ),
    (
        "factual questions are left out of the predictions",
        "comparisons.py",
        "domains=plan.domains_of(study, backbone, algorithm, step)",
        'domains=["mathematics"]',
    ),
    (
        "matched budgets are read from the sweep",
        "comparisons.py",
        'Cube("-budgets", "-budgets"',
        'Cube("-budgets", "-sweep"',
    ),
    (
        "methods are compared across policies on different responses",
        "comparisons.py",
        '{"common_responses": True}',
        "{}",
    ),
    ("GRPO's policy is among the coupled ones", "comparisons.py", '("rlcr", "dcpo"))', '("rlcr", "grpo"))'),
    (
        "CoCal reads GRPO's states on every policy",
        "../stages/confidence_rules.py",
        "results.features_folder(*cell, kind) for kind in read",
        'results.features_folder(cell[0], "grpo", cell[2], kind) for kind in read',
    ),
    (
        "times are those of the base policy",
        "../stages/confidence_rules.py",
        'results.policy_folder(backbone, "grpo", self._final)',
        'results.policy_folder(backbone, "base", 0)',
    ),
    (
        "PostCal resamples from the base policy",
        "../stages/policy_rules.py",
        'results.policy_folder(backbone, "grpo", self._final)',
        'results.policy_folder(backbone, "base", 0)',
    ),
    (
        "PostCal answers the questions of RLCR's rollouts",
        "../stages/policy_rules.py",
        'like=results.rollouts_folder(backbone, "grpo")',
        'like=results.rollouts_folder(backbone, "rlcr")',
    ),
    ("states are kept of RLCR's training", "../stages/policy_rules.py", '== ("trl", "grpo")', '== ("trl", "rlcr")'),
    (
        "a change of RLCR's prompt reruns no training",
        "../stages/policy_rules.py",
        "**features, **made)\n        return self._job(stage, texts=self._texts(self._formats[algorithm]))",
        '**features, **made)\n        return self._job(stage, texts=self._texts("answer"))',
    ),
    (
        "states of prompts are read from all layers",
        "../stages/policy_rules.py",
        'plan.pass_features(self.study).model_copy(update={"layers": "final"})',
        "plan.pass_features(self.study)",
    ),
    (
        "a change of the judge's texts judges nothing anew",
        "../stages/evaluation_rules.py",
        ' + f" {self._judge_texts}" * judged',
        "",
    ),
    (
        "another judge samples mathematics again",
        "../stages/evaluation_rules.py",
        'study.judge if judged else {"kind": "exact-match"}',
        "study.judge",
    ),
    (
        "responses come from GRPO's policy whatever the algorithm",
        "../stages/evaluation_rules.py",
        "checkpoint=results.policy_folder(backbone, algorithm, step),\n            questions",
        'checkpoint=results.policy_folder(backbone, "grpo", step),\n            questions',
    ),
    (
        "states of RLCR's responses end after the reason",
        "../stages/evaluation_rules.py",
        'if prompt_format == "rlcr":',
        'if prompt_format == "none":',
    ),
    (
        "states are those of the mathematical responses",
        "../stages/evaluation_rules.py",
        "samples=samples_of(study, [domain])",
        'samples=samples_of(study, ["mathematics"])',
    ),
]
"""Each wire: the error in words, a file of `src/cocal_study/planning`, what stands there, and what is planted."""


def main(numbers: list[str]) -> int:
    """Prints for every wire the first test that fails; returns the number of wires that none notices."""
    assert not (failed := _first_failure()), f"without any wire, {failed} fails"
    unnoticed = 0
    for number in map(int, numbers or range(1, len(WIRES) + 1)):
        words, *wire = WIRES[number - 1]
        failed = _first_failure(*wire)
        unnoticed += not failed
        print(f"{number:2} {words}: {failed or 'NO TEST NOTICES'}", flush=True)
    return unnoticed


def _first_failure(file: str = "plan.py", right: str = "", wrong: str = "") -> str | None:
    """Name of the first test that fails in a copy of the checkout; None if all pass."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)
        source = copy / "src/cocal_study/planning" / file
        text = source.read_text()
        assert not right or text.count(right) == 1, f"{file} has {text.count(right)} times: {right}"
        source.write_text(text.replace(right, wrong) if right else text)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS]
        environment = os.environ | {"PYTHONPATH": str(copy / "src")}
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=copy, env=environment)
    assert done.returncode in (0, 1), done.stdout[-3000:] + done.stderr[-3000:]
    failed = re.search(r"^_+ (\S.*?) _+$", done.stdout, re.MULTILINE)
    return failed[1] if failed else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
