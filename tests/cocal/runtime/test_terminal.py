"""Snakemake's terminal with our logger plugin: one line an event, with job, and how many have ended."""

import logging
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from snakemake.settings.types import OutputSettings
from snakemake_interface_logger_plugins.common import LogEvent

import started
from snakemake_logger_plugin_cocal import VERDICT, LogHandler

SNAKEFILE = """
import json
rule all:
    input: expand("results/{n}.txt", n=["a", "b"])
rule work:
    output: "results/{n}.txt"
    log: "logs/{n}.log"
    params: json.dumps(config.get("words", {}))
    shell:
        "for k in $(seq 40); do echo line $k of {wildcards.n}; done > {log};"
        " touch {output}; test ! -e fail-{wildcards.n}"
"""


@pytest.fixture
def folder(tmp_path, repository) -> Path:
    """A workflow of three jobs with the repository's profile."""
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    shutil.copytree(repository / "profiles/default", tmp_path / "profile")
    return tmp_path


def _snakemake(folder: Path, *flags: str) -> subprocess.CompletedProcess:
    return started.snakemake(["--workflow-profile", "profile", "--cores", "2", *flags], folder)


def test_a_run_is_a_line_a_job_event(folder):
    done = _snakemake(folder)
    assert done.returncode == 0, done.stderr
    _, planned, *lines = done.stderr.splitlines()
    assert planned == "3 job(s), 2 at a time"
    events = [line for line in lines if re.match(r"\d\d:\d\d:\d\d  work [ab] +", line)]
    others = [line for line in lines if line not in events and not line.startswith(("Complete log", "Elapsed"))]
    assert [re.sub(r"\d+ s", "a while", line) for line in others] == [
        "Done in a while: 2 files and folders are in results."
    ]
    for line, ended in zip(events, ("1 of 3 jobs", "2 of 3 jobs"), strict=True):
        assert re.search(rf" work [ab] +done in \d+ s +{ended}$", line)
    assert {line.split()[2] for line in events} == {"a", "b"}
    (log,) = (folder / ".snakemake/log").iterdir()
    assert "Missing output files: results/a.txt" in log.read_text(), "Snakemake's own log stays whole"
    assert "Nothing to be done" in _snakemake(folder).stderr
    again = _snakemake(folder, "--dry-run", "--config", 'words={"passes": 3, "seed": 1}')
    assert re.search(r"^work a +Params have changed since last execution", again.stdout, re.MULTILINE)
    assert "Nothing to be done" in _snakemake(folder, "--dry-run").stdout


def test_a_failure_shows_job_log_and_its_end(folder):
    (folder / "fail-a").touch()
    done = _snakemake(folder, "--keep-going", "--retries", "1")
    assert done.returncode == 1
    assert done.stderr.count("FAILED after") == 2
    assert "Trying to restart job" in done.stderr
    assert "    log: logs/a.log\n    | ...\n" in done.stderr
    assert "    | line 40 of a\n" in done.stderr
    assert "line 10 of a\n" not in done.stderr
    assert "seq 40" not in done.stderr, "a command is kilobytes of settings"
    assert "the command returned non-zero exit status 1" in done.stderr
    assert re.search(r"1 job\(s\) failed; their logs:\n  work a +logs/a\.log\n", done.stderr)


def test_a_quiet_run_ends_jobs_of_which_nothing_was_said(folder):
    (folder / "fail-a").touch()
    done = _snakemake(folder, "--keep-going", "--quiet", "rules")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "work b" not in done.stderr
    assert "the command returned non-zero exit status 1" in done.stderr


def test_the_lock_of_a_killed_run_is_told_with_the_command_that_removes_it(folder):
    (folder / ".snakemake/locks").mkdir(parents=True)
    (folder / ".snakemake/locks/0.output.lock").write_text("results/a.txt\n")
    said = _snakemake(folder).stderr
    assert "\nAfter a kill: snakemake --workflow-profile profile --cores 2 --unlock\n" in said
    assert _snakemake(folder, "--unlock").returncode == _snakemake(folder).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "words"),
    [(signal.SIGINT, "the jobs that run are ended"), (signal.SIGTERM, "no further job begins")],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_stopping_is_no_failure(folder, end, words):
    """A signal reaches Snakemake and its jobs, whose end is not listed as an error."""
    # `: >` is no process of its own: a shell whose command ends well at the signal would go on with its next one
    (folder / "Snakefile").write_text(SNAKEFILE.replace("touch {output}", ": > begun; sleep 60; touch {output}"))
    # a shell's background jobs ignore the signal, and so may this process; one job, since a second might begin after it
    command = ["env", "--default-signal=INT", "snakemake", "--workflow-profile", "profile", "--cores", "1"]
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=folder, start_new_session=True, **streams) as process:
        while not (folder / "begun").exists():
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, end)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert f"Stopping: {words}.\nStopped. The same command goes on where this run has ended." in said
    assert "FAILED" not in said
    assert "Exception" not in said


@pytest.mark.parametrize(
    ("addition", "target", "words"),
    [
        ("rule broken:\n    output 'a'\n", "all", "SyntaxError in file"),
        ("raise ValueError('bad study')\n", "all", "bad study"),
        ("rule c:\n    input: 'nowhere'\n    output: 'c'\n", "c", "nowhere"),
    ],
)
def test_errors_of_the_workflow_itself_are_printed(folder, addition, target, words):
    (folder / "Snakefile").write_text(f"{SNAKEFILE}\n{addition}")
    done = _snakemake(folder, target)
    assert done.returncode == 1
    assert words in done.stderr


def _record(text: str | None, **facts) -> logging.LogRecord:
    record = logging.LogRecord("snakemake", logging.INFO, __file__, 1, text, (), None)
    record.__dict__.update(facts)
    return record


def test_lines_of_a_cluster_name_jobs_by_rule_and_wildcards(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / VERDICT).write_text("Does it reproduce? In 95 % of all cases - no.\nOf 37 families ...\n")
    handler = LogHandler(OutputSettings(), None)
    job = {"rule_name": "train", "wildcards": {"backbone": "tiny"}, "shellcmd": "touch", "reason": "Forced execution"}
    job |= {"output": ["results/tables/main.html", VERDICT], "log": []}
    handler.handle(_record(None, event=LogEvent.RESOURCES_INFO, nodes=16))
    handler.handle(_record("Job stats", event=LogEvent.RUN_INFO, stats={"train": 1, "metrics": 160, "total": 161}))
    handler.handle(_record(None, event=LogEvent.JOB_INFO, jobid=5, **job))
    handler.handle(_record("Job 5 has been submitted with SLURM jobid 77 (log: logs/slurm/77.log)."))
    handler.handle(_record(None, event=LogEvent.JOB_FINISHED, job_id=5))
    handler.close()
    planned, submitted, ended, built, first, verdict = capsys.readouterr().err.splitlines()
    assert planned == "161 job(s), 16 at a time"
    assert submitted == "Job 5 has been submitted with SLURM jobid 77 (log: logs/slurm/77.log)."
    assert re.search(r"  train tiny +done in 0 s +1 of 161 jobs$", ended)
    assert re.fullmatch(r"Done in 0 s: 2 files and folders are in results/tables, results\.", built)
    assert first == "Open results/tables/main.html first."
    assert verdict == "Does it reproduce? In 95 % of all cases - no."
