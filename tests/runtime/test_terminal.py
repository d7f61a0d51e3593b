"""Snakemake's terminal with our logger plugin: one line an event, with job, share of the work and time left."""

import logging
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from snakemake.settings.types import OutputSettings
from snakemake_interface_logger_plugins.common import LogEvent

import started
from cocal.runtime.progress import progress_line
from cocal.study import results
from snakemake_logger_plugin_cocal import LogHandler, expect
from snakemake_logger_plugin_cocal.text import LONGEST, called, reason_line, summary
from snakemake_logger_plugin_cocal.work import UNKNOWN, Running, Work, assumed_seconds, earlier_seconds, seconds_left

RULES = {"train": 2, "responses": 4, "table_main": 4}
SECONDS = {"train": 100.0, "responses": 10.0, "table_": 1.0}


def _work(**changes) -> Work:
    return Work(RULES, assumed=SECONDS, **changes)


def test_the_share_is_of_the_work_not_of_the_jobs():
    work = _work()
    assert work.share() == 0
    for _ in range(4):
        work.finish("table_main", 1.0)
    assert work.share() == pytest.approx(4 / 244)
    work.finish("train", 100.0)
    assert work.share() == pytest.approx(104 / 244)
    work.finish("train", 100.0)
    for _ in range(4):
        work.finish("responses", 10.0)
    assert work.share() == 1
    assert work.left() == 0


def test_running_jobs_count_with_the_time_that_they_have_run():
    """Overdue jobs, and those that say how slow they are, stretch all others, too."""
    assert _work().share([Running("train", 61.0)]) == pytest.approx(61 / 244)
    for running, own, total in (
        (Running("train", 61.0), 39, 100),
        (Running("train", 500.0), 100, 500),  # nobody knows when it will end
        (Running("train", 60.0, 90.0), 90, 150),
        (Running("train", 60.0, 30.0), 40, 100),  # further parts may follow
    ):
        stretch = (total + 12.2) / (100 + 12.2)
        assert _work().left([running]) == pytest.approx(own + 144 * stretch)


def test_the_last_progress_line_of_a_log_says_what_is_left(tmp_path):
    log, now = tmp_path / "job.log", time.time()
    lines = [
        "step 2/9, loss 1.7, 2 d 5 h left",
        "step 5/9, loss 1.5, 3 min 20 s left",
        "a warning, of something left behind",
    ]
    log.write_text("".join(f"12:00:00  {'backbone tiny':<36}  {line}\n" for line in lines))
    os.utime(log, (now - 30, now - 30))
    assert seconds_left(log, ran=100.0) == pytest.approx(170, abs=1)
    assert seconds_left(log, ran=20.0) == 0, "an earlier run wrote it"
    os.utime(log, (now - 300, now - 300))
    assert seconds_left(log, ran=400.0) == 0
    log.write_text("nothing yet\n")
    assert seconds_left(log, ran=100.0) == seconds_left(tmp_path / "none.log", ran=100.0) == 0
    log.write_text("x, 5 h 20 min left\n" + progress_line("step", 3, 8, 3725) + "\n")
    assert seconds_left(log, ran=9.0) == pytest.approx(3720, abs=1)


def test_jobs_side_by_side_are_done_sooner_but_not_before_the_longest_chain():
    needs = {"responses": {"train"}, "table_main": {"responses"}}
    assert _work(needs=needs, side_by_side=1).left() == pytest.approx(244)
    assert _work(needs=needs, side_by_side=2).left() == pytest.approx(122)
    assert _work(needs=needs, side_by_side=16).left() == pytest.approx(111)
    waits_for_itself = {"responses": {"train", "table_main"}, "table_main": {"responses"}}
    assert 110 <= _work(needs=waits_for_itself, side_by_side=16).left() <= 111


def test_what_was_measured_stretches_what_is_expected():
    work = _work()
    for _ in range(4):
        work.finish("table_main", 3.0)
    assert 100 < work.expected()["train"] < 165, "four seconds of work say little about two hundred"
    work.finish("train", 200.0)
    assert work.expected()["train"] == 200, "jobs of a rule take as long as those that have run"
    assert 17 < work.expected()["responses"] < 20, "half of the work took twice as long"


def test_an_earlier_run_counts_before_what_is_assumed(tmp_path):
    for name, seconds in {"train/tiny-grpo": 20, "train/tiny-rlcr": 40, "train/other-grpo": 900}.items():
        file = tmp_path / f"{name}.tsv"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"s\th:m:s\tmax_rss\n{seconds}\t0:00:20\t12.5\n")
    (tmp_path / "responses").mkdir()
    (tmp_path / "responses/tiny.tsv").write_text("no benchmark")
    earlier = earlier_seconds(tmp_path, RULES, ["tiny"])
    assert earlier == {"train": 30}
    assert assumed_seconds({"metrics": 4.0}, "sweep_metrics") == 4
    assert assumed_seconds({"metrics": 4.0}, "unheard") == UNKNOWN
    assert _work(earlier=earlier).expected() == {"train": 30, "responses": 10, "table_main": 1}
    assert earlier_seconds(tmp_path / "none", RULES, ["tiny"]) == {}


REASONS = {
    "Missing output files: results/a.tex; Input files updated by another job: b, c": "its output is missing",
    "Input files updated by another job: b, c": "its input is made anew",
    "Updated input files: results/questions/x.parquet": "input changed: results/questions/x.parquet",
    "Forced execution": "it is forced",
    "Some reason of a later Snakemake": "Some reason of a later Snakemake",
}
CODE, NEW, TEXTS = "'code:0123456789abcdef'", "'code:0123456789abcde0'", "'prompts:0123456789abcdef'"
CHANGES = [
    (
        """'{"passes": 30, "x": ["a; b"], "d": {"y": 1}}'""",
        """'{"passes": 3, "x": ["a; b"], "d": {"y": 2}}'""",
        "passes, d.y",
    ),
    (f"{CODE}, '{{}}'", f"{NEW}, '{{}}'", ""),
    (f"""{CODE}, '{{"passes": 30}}'""", f"""{NEW}, '{{"passes": 3}}'""", "passes"),
    (TEXTS, TEXTS.replace("f'", "0'"), "prompts"),
    (
        """'code:0123456789abcdef {"numerics":"native"}'""",
        """'code:0123456789abcdef {"numerics":"portable"}'""",
        "numerics",
    ),
]
"""Parameters before and now, and the names of those that changed."""


def test_reasons_are_told_in_one_line():
    assert {reason: reason_line(reason) for reason in REASONS} == REASONS
    parameters = "Params have changed since last execution: Union of exclusive params before and now across all output:"
    for before, now, names in CHANGES:
        told = ["code changed"] * (NEW in now) + [f"parameters changed: {names}"] * bool(names)
        assert reason_line(f"{parameters} before: {before} now: {now} ") == "; ".join(told)
    both = f"Code has changed since last execution; {parameters} before: 'a' now: <nothing exclusive> "
    assert reason_line(both) == "code changed; parameters changed"
    long = reason_line("Updated input files: " + ", ".join(f"results/questions/{n}.parquet" for n in range(99)))
    assert (len(long) <= LONGEST, long[-4:]) == (True, " ...")


def test_jobs_are_called_as_their_commands_call_themselves():
    command = 'cocal train --settings \'{"a": "; | > --output x"}\' --run-folder results/runs/train/tiny/grpo'
    assert called("train", {}, f"{command} 2>&1 | tee logs/train.log") == "train tiny grpo"
    assert called("train", {}, f"accelerate launch --module {command} > log") == "train tiny grpo"
    features = "cocal features --output results/features/tiny/grpo/step-60/answer"
    assert called("features", {}, features) == "features tiny grpo step-60 answer"
    assert called("factual_features", {}, features) == "features tiny grpo step-60 answer factual"
    assert called("questions", {"dataset": "a"}, "cocal questions --output results/questions") == "questions a"
    assert called("mine", {"sample": "a"}, "touch a") == "mine a"
    assert called("mine", {}, None) == called("mine", {}, "echo 'unclosed") == "mine"


def test_a_run_ends_with_what_was_built_where_and_what_to_open():
    built = ["results/costs/a/b.json", "results/tables/main.tex", "results/tables/main.html", "results/figures/a.pdf"]
    assert summary(built, 90).splitlines() == [
        "Done in 1 min 30 s: 4 files and folders were built, in results/tables (2), "
        "results/figures (1), results/costs (1).",
        "Open results/tables/main.html first.",
    ]
    assert summary([*built, "results/tables/claims.html"], 90).endswith("Open results/tables/claims.html first.")
    assert summary(["a.txt"], 1) == "Done in 1 s: 1 file or folder was built, in . (1)."


def test_a_run_that_has_built_the_verdict_ends_with_its_first_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / results.VERDICT).write_text(
        "Does it reproduce? In 95 % of all cases – no.\nOf 37 families ...\n", "utf-8"
    )
    *_, opened, last = summary(["results/tables/main.html", results.LANDING, results.VERDICT], 1).splitlines()
    assert last == "Does it reproduce? In 95 % of all cases – no."
    assert opened.startswith("Open ")
    assert "reproduce" not in summary(["results/tables/main.html"], 1)  # it is of another run


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
    assert re.fullmatch(r"3 jobs, 2 at a time: about \d+ s", planned)
    events = [line for line in lines if re.match(r"\d\d:\d\d:\d\d  work [ab] +", line)]
    others = [line for line in lines if line not in events and not line.startswith(("Complete log", "Elapsed"))]
    assert [re.sub(r"\d+ s", "a while", line) for line in others] == [
        "Done in a while: 2 files and folders were built, in results (2)."
    ]
    for name in "ab":
        (ended,) = (line.split(f"work {name}")[1].strip() for line in events if f"work {name} " in line)
        assert re.match(r"done in \d+ s +\d+ % of the work", ended)
    (log,) = (folder / ".snakemake/log").iterdir()
    assert "Missing output files: results/a.txt" in log.read_text(), "Snakemake's own log stays whole"
    assert "Nothing to be done" in _snakemake(folder).stderr
    again = _snakemake(folder, "--dry-run", "--config", 'words={"passes": 3, "seed": 1}')
    assert "parameters changed: passes, seed" in again.stdout
    assert "Nothing to be done" in _snakemake(folder, "--dry-run").stdout


def test_a_failure_shows_job_log_and_its_end(folder):
    (folder / "fail-a").touch()
    done = _snakemake(folder, "--keep-going", "--retries", "1")
    assert done.returncode == 1
    assert done.stderr.count("FAILED after") == 2
    assert re.search(r"work a +is tried again", done.stderr)
    assert "    log: logs/a.log\n    | ...\n" in done.stderr
    assert "    | line 40 of a\n" in done.stderr
    assert "line 10 of a\n" not in done.stderr
    assert "seq 40" not in done.stderr, "a command is kilobytes of settings"
    assert "the command returned non-zero exit status 1" in done.stderr
    assert re.search(r"1 job\(s\) failed; their logs:\n  work a +logs/a\.log\n", done.stderr)


def test_a_dry_run_says_every_job_with_its_reason_and_the_table(folder):
    done = _snakemake(folder, "--dry-run")
    assert re.search(r"^work a +its output is missing$", done.stdout, re.MULTILINE)
    assert done.stdout.count("Job stats:") == 1
    assert re.search(r"^work +2$", done.stdout, re.MULTILINE)
    assert re.search(r"^3 jobs, about \d+ s if one ran after the other$", done.stdout, re.MULTILINE)
    assert "Job stats:" in _snakemake(folder, "--dry-run", "--quiet", "rules").stdout, "cocal plan reads it"


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


def test_a_cluster_that_is_silent_for_long_is_reported_on(tmp_path, monkeypatch, capsys):
    """With SLURM the jobs' own lines go to their logs, and a training takes hours."""
    monkeypatch.chdir(tmp_path)  # where no finished study says how long its jobs took
    monkeypatch.setattr("snakemake_logger_plugin_cocal._SILENCE", 0.2)
    handler = LogHandler(OutputSettings(), None)
    command = "cocal train --run-folder results/runs/train/tiny/grpo"
    job = {"rule_name": "train", "wildcards": {}, "shellcmd": command, "reason": "Forced execution"}
    job |= {"output": ["a"], "log": []}
    handler.handle(_record(None, event=LogEvent.RESOURCES_INFO, nodes=16))
    expect({"train": 7200.0}, ["tiny"])
    handler.handle(_record("Job stats", event=LogEvent.RUN_INFO, stats={"train": 2, "total": 2}))
    handler.handle(_record(None, event=LogEvent.JOB_INFO, jobid=5, **job))
    handler.handle(_record("Job 5 has been submitted with SLURM jobid 77 (log: logs/slurm/77.log)."))
    time.sleep(0.5)
    handler.close()
    planned, submitted, *silent = capsys.readouterr().err.splitlines()
    assert planned == "2 jobs, 16 at a time: about 2 h"
    assert re.search(r"  train tiny grpo +submitted as SLURM job 77 \(log: logs/slurm/77\.log\)$", submitted)
    assert re.search(r"  running +train tiny grpo \(\d s\); 0 % of the work, about 2 h left$", silent[0])
