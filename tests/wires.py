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

import yaml

ROOT = Path(__file__).resolve().parents[1]
TESTS = [
    "tests/study/planning/test_plan.py",
    "tests/study/planning/test_rules.py",
    "tests/study/planning/test_reruns.py",
    "-m",
    "not slow",
]
COPIED = ("src", "tests", "workflow", "config", "profiles", "envs", "docs", "Snakefile", "pyproject.toml", "README.md")

WIRES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
"""Each wire: the error in words, a file of `src/cocal_study/planning`, what stands there, and what is planted."""


def main(numbers: list[str]) -> int:
    """Prints for every wire the first test that fails; returns the number of wires that none notices."""
    assert not (failed := _first_failure()), f"without any wire, {failed} fails"
    unnoticed = 0
    for number in map(int, numbers or range(1, len(WIRES) + 1)):
        words, *wire = WIRES[number - 1].values()
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
