"""The smoke study through the real workflow: run once a session, planned as often as a test likes."""

import os
import subprocess
import sys
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from itertools import takewhile
from pathlib import Path

import yaml
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "config/smoke.yaml"


def flags_of(folder, config=None):
    """How Snakemake is called in a folder."""
    flags = ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder), "--cores", "2"]
    flags += ["--workflow-profile", str(ROOT / "profiles/default")]
    return flags if config is None else [*flags, "--configfile", str(config)]


def snakemake(folder, *flags, config=None, **environment):
    """Runs Snakemake as a user does."""
    command = ["snakemake", *flags_of(folder, config), *flags]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}
    )


def planned(output):
    """Jobs per rule of a dry-run's table; none where there is nothing to be done."""
    if "Nothing to be done" in output:
        return {}
    _, _, *lines = output.split("Job stats:\n")[1].splitlines()
    rows = takewhile(lambda row: row[0] != "total", (line.split() for line in lines))
    return {rule: int(jobs) for rule, jobs in rows}


def finished(folder):
    """The smoke study, run in `folder` unless it has been run there; one process does, others wait for it."""
    with FileLock(folder.with_suffix(".lock")):
        if not (folder / "done").exists():
            folder.mkdir(exist_ok=True)
            done = snakemake(folder, config=CONFIG)
            assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
            (folder / "done").touch()
    return folder


class Planner:
    """Plans variants of the smoke study over its finished files, each in a fork of a process that has loaded
    Snakemake: a second each instead of several.

    Args:
        folder: of the finished study.
        scratch: for configuration and output.
    """

    def __init__(self, folder, scratch):
        self._folder, self._scratch = folder, scratch
        self._content = yaml.safe_load(CONFIG.read_text())

    def rules(self, changes):
        """Rules that would run after `changes`: dotted key -> new value."""
        study = deepcopy(self._content)
        for key, value in changes.items():
            *path, last = key.split(".")
            place = study
            for part in path:
                place = place.setdefault(part, {})
            place[last] = value
        config, output = self._scratch / "study.yaml", self._scratch / "output.txt"
        config.write_text(yaml.safe_dump(study, sort_keys=False))
        with _forked(output) as child:
            if child:
                from snakemake.cli import main

                main([*flags_of(self._folder, config), "--dry-run", "--quiet", "rules"])
        text = output.read_text()
        assert "Job stats:" in text or "Nothing to be done" in text, f"{changes}: {text[-3000:]}"
        return {*planned(text)} - {"all"}


@cache
def _load():
    """What every plan needs, once, in the parent."""
    import snakemake.cli  # noqa: F401

    import cocal.judging.prompts
    import cocal.policy.launch
    import cocal.policy.objectives
    import cocal.questions.registry
    import cocal.store.owner  # noqa: F401
    from cocal.config import load_study
    from cocal.exhibits.base.registry import exhibit_code, exhibits_of
    from cocal.store.code import code_digest

    study = load_study(CONFIG)
    for exhibit in exhibits_of(study, {}):
        exhibit_code(exhibit)
    for file in (ROOT / "src/cocal/commands").glob("[!_]*.py"):
        code_digest(f"cocal.commands.{file.stem}")


@contextmanager
def _forked(output):
    """True in a child whose output goes to a file, and which ends with the block; False in the parent, which waits."""
    _load()
    sys.stdout.flush()
    if child := os.fork():
        yield False
        os.waitpid(child, 0)
        return
    try:
        file = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")  # not those that pytest reads
        os.chdir(ROOT)
        yield True
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
