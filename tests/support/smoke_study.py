"""The smoke study through the real workflow: run once a session, planned as often as a test likes."""

import os
from itertools import takewhile

import yaml
from filelock import FileLock

import started
from started import ROOT

CONFIG = ROOT / "config/smoke.yaml"


def flags_of(folder, config=None):
    """How Snakemake is called in a folder."""
    flags = ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder), "--cores", "2"]
    flags += ["--workflow-profile", str(ROOT / "profiles/default"), "--executor", "cocal"]
    return flags if config is None else [*flags, "--configfile", str(config)]


def snakemake(folder, *flags, config=None, **environment):
    """Runs Snakemake from the checkout, in a folder."""
    return started.snakemake([*flags_of(folder, config), *flags], environment={**os.environ, **environment})


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
            assert done.returncode == 0, done.stderr[-5000:]
            (folder / "done").write_text(done.stdout)
    return folder


def rules_after(changes, folder, scratch):
    """Rules that would run in the folder of the finished study after `changes`: dotted key -> new value."""
    study = yaml.safe_load(CONFIG.read_text())
    for key, value in changes.items():
        *path, last = key.split(".")
        place = study
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    (scratch / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    done = snakemake(folder, "--dry-run", "--quiet", "rules", config=scratch / "study.yaml")
    text = done.stdout + done.stderr
    assert "Job stats:" in text or "Nothing to be done" in text, f"{changes}: {text[-3000:]}"
    return {*planned(text)} - {"all"}
