"""Jobs that share a process which has loaded their libraries (the executor of profiles/default)."""

import os
import shutil
from contextlib import closing
from threading import Timer

import psutil
from snakemake.cli import parse_args

import started
from cocal_study.commands.worker import Order
from snakemake_executor_plugin_cocal import Worker

SNAKEFILE = """
rule all:
    input: expand("{name}.pdf", name=["overview", "paradigms"])
rule drawn:
    output: "{name}.pdf"
    log: "{name}.log"
    benchmark: "{name}.tsv"
    params:
        start=["env", "COCAL_TRACEBACK=1", "cocal"],
        words=lambda wildcards, output: ["exhibit", wildcards.name, *config.get("more", []), "--output", output[0]],
        to="&>",
    shell: "{params.start:q} {params.words:q} {params.to} {log}"
"""


def test_a_job_is_as_a_process_of_its_own(tmp_path, capfd):
    log = tmp_path / "a.log"
    missing = ["digests", "--results", str(tmp_path / "none"), "--write", str(tmp_path / "digests.json")]
    with closing(Worker(str(tmp_path))) as worker:
        assert worker.run(Order(missing, {"COCAL_TRACEBACK": "1"}, str(log), shown=True), None) == 2
        told = log.read_text()
        assert told.startswith("Traceback")
        assert "cocal digests: error: " in told
        assert capfd.readouterr().out == told
        assert worker.run(Order(missing, {}, str(log), shown=False), None) == 2
        last = told[told.index("cocal digests: error: ") :]
        assert log.read_text() == last, "the next job has neither the variables nor the log of the one before"
        assert worker.run(Order(["--version"], {}, str(log), shown=False), None) == 0
        assert log.read_text().startswith("cocal ")
        assert capfd.readouterr().out == ""
        assert not worker.ended


def test_a_worker_that_is_killed_fails_its_job_alone(tmp_path):
    with closing(Worker(str(tmp_path))) as worker:
        (process,) = [one for one in psutil.Process().children() if Order.__module__ in one.cmdline()]
        Timer(0.1, process.kill).start()
        assert worker.run(Order(["try", "nearest-centroid"], {}, str(tmp_path / "a.log"), shown=False), None) == -9
        assert worker.ended


def test_a_cluster_has_the_executor_of_its_profile(repository, monkeypatch):
    monkeypatch.chdir(repository)
    monkeypatch.setattr(os, "environ", dict(os.environ))  # the profile writes the site's defaults into it
    _, options = parse_args(["--profile", "slurm", "--dry-run"])
    assert options.executor == "slurm", "profiles/default, which overrides every other profile, must name none"


def test_snakemake_gives_jobs_to_workers(repository, tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    shutil.copytree(repository / "profiles/default", tmp_path / "profile")
    words = ["--executor", "cocal", "--workflow-profile", "profile", "--cores", "1"]
    refused = started.snakemake([*words, "--keep-going", "--config", "more=['--nothing']"], tmp_path)
    assert refused.returncode == 1
    assert "unrecognized arguments: --nothing" in (tmp_path / "overview.log").read_text()
    assert refused.stderr.count("the command returned non-zero exit status 2") == 2, refused.stderr
    assert "Traceback" not in refused.stderr
    done = started.snakemake(words, tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("overview", "paradigms"):
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert (tmp_path / f"{name}.tsv").read_text().startswith("s\th:m:s\tmax_rss")
