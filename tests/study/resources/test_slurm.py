"""The SLURM profile, and the check before the first job, without SLURM; on a real one: tests/slurm."""

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest
import yte

import started
from cocal import cli
from cocal.errors import ClusterError
from cocal_study.resources import slurm
from cocal_study.resources.slurm import Site
from golden import assert_golden
from planned_jobs import rules_of_any_study

SITE = Site(cpu_partition="cpu", gpu_partition="b200", gpu_type="b200", node_gpus=8, max_minutes=1440, account="")
# in the words of SLURM 22.05
SINFO = """\
cpu|1-00:00:00
b200|2-00:00:00
mixed|2-00:00:00
plain|4:00:00
short|30:30
"""
SQUEUE = """\
16|RUNNING|cocal_0b9e7f3c-5c0e-4c6c-9e0c-3f4d54e6b0a1|/home/a/cocal|rule_train_grpo_wildcards_qwen3-8b
17|PENDING|cocal_0b9e7f3c-5c0e-4c6c-9e0c-3f4d54e6b0a1|/home/a/cocal|rule_questions | mine
18|RUNNING|cocal_77aa7f3c-5c0e-4c6c-9e0c-3f4d54e6b0a1|/home/a/other|rule_questions
19|RUNNING|snakemake|/home/a/cocal|(null)
"""
SUBMITTED = {name for name, rule in rules_of_any_study().items() if not rule.local}
ASKED = ("slurm_partition=", "gres=", "cpus_per_task=", "nodes=")
"""What tells a job's part of the cluster."""


def _dry_run(repository: Path, folder: Path, *flags: str, **site: str) -> subprocess.CompletedProcess:
    command = ["--profile", "slurm", "--dry-run", "--forceall", "--directory", str(folder), *flags]
    command += ["--workflow-profile", "none"]  # whose terminal lines do not say what jobs ask for
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COCAL_SLURM_")} | site
    return started.snakemake(command, repository, environment)


def _requests(repository: Path, folder: Path, *flags: str, **site: str) -> dict[str, set[str]]:
    """The resources that the jobs of each rule ask for, from a dry-run."""
    done, found = _dry_run(repository, folder, *flags, **site), {}
    assert done.returncode == 0, done.stderr
    for rule, block in re.findall(r"^rule (\w+):\n((?: {4}.*\n)*)", done.stdout + done.stderr, re.MULTILINE):
        resources = re.search(r"^    resources: (.*)$", block, re.MULTILINE)
        found.setdefault(rule, set()).update(resources[1].split(", ") if resources else ())
    return found


def test_every_rule_asks_for_what_somebody_has_read(repository, tmp_path):
    """All but those that are made where Snakemake runs; without flags the profile runs the paper study."""
    paper, rehearsal = (
        _requests(repository, tmp_path, *words) for words in ((), ("--configfile", "config/rehearsal.yaml"))
    )
    asked = {rule: paper.get(rule, set()) | rehearsal.get(rule, set()) for rule in sorted(paper | rehearsal)}
    asked = {rule: sorted(one for one in found if one.startswith(ASKED)) for rule, found in asked.items()}
    lines = (f"{rule}: {', '.join(one)}" for rule, one in asked.items() if rule in SUBMITTED)
    assert_golden(Path(__file__).with_name("slurm_jobs.txt"), lines)


def test_tables_and_figures_are_made_where_snakemake_runs(repository):
    """Every rule has to say so: `use rule` does not hand it on."""
    text = (repository / "workflow/rules/exhibits.smk").read_text()
    rules = re.findall(r"^ *(?:use )?rule\b", text, re.MULTILINE)
    assert rules
    assert len(re.findall(r"^ +localrule: True$", text, re.MULTILINE)) == len(rules)


def test_profile_names_rules_that_exist_and_grows_with_attempts(repository, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    profile = yte.process_yaml((repository / "workflow/profiles/slurm/config.yaml").read_text(), require_use_yte=True)
    assert set(profile["set-resources"]) == SUBMITTED, "a new rule belongs into the profile, or is local"
    for name, resources in profile["set-resources"].items():
        assert {"slurm_partition", "cpus_per_task", "mem_mb", "runtime"} <= set(resources), name
        assert "attempt" in resources["mem_mb"], name
        assert "attempt" in resources["runtime"], name
    assert f"{profile['slurm-jobname-prefix']}_" == slurm.JOB_PREFIX


def test_another_study_replaces_the_papers_and_the_environment_names_the_site(repository, tmp_path):
    site = {
        "COCAL_SLURM_ACCOUNT": "nlp",
        "COCAL_SLURM_CPU_PARTITION": "short",
        "COCAL_SLURM_GPU_PARTITION": "dgx",
        "COCAL_SLURM_GPU_TYPE": "h200",
        "COCAL_SLURM_NODE_GPUS": "4",
        "COCAL_SLURM_NODE_MEMORY": "150000",
        "COCAL_SLURM_MAX_MINUTES": "240",
    }
    requests = _requests(repository, tmp_path, "--configfile", "config/smoke.yaml", **site)
    assert {"slurm_partition=dgx", "gres=gpu:h200:4", "runtime=240", "slurm_account=nlp"} <= requests["train_grpo"]
    assert {"cpus_per_task=16", "mem_mb=150000"} <= requests["train_grpo"], "half of a node of eight, and all memory"
    assert not any(resource.startswith("nodes=") for resource in requests["train_grpo"]), "SLURM's own default is one"
    assert {"slurm_partition=dgx", "gres=gpu:h200:1", "runtime=240"} <= requests["responses"]
    assert {"slurm_partition=short", "runtime=60", "slurm_account=nlp"} <= requests["metrics"]


def test_a_training_may_take_several_nodes(repository, tmp_path):
    """Two of four GPUs: the study says so, and the profile asks for them."""
    flags = ["--config", "card=80gb", "policy={trl: {nodes: 2, devices: 4}}"]
    site = {"COCAL_SLURM_NODE_GPUS": "4", "COCAL_SLURM_NODES": "2", "COCAL_SLURM_GPU_TYPE": "a100"}
    requests = _requests(repository, tmp_path, *flags, **site)
    for rule in ("train_grpo", "train_rlcr", "train_dcpo"):
        assert {"nodes=2", "gres=gpu:a100:4", "cpus_per_task=16", "mem_mb=200000"} <= requests[rule]
    assert not any(resource.startswith("nodes=") for resource in requests["responses"])
    assert slurm.site_of({**os.environ, **_SITE_DEFAULTS, **site}).nodes == 2
    assert slurm.site_of({**os.environ, **_SITE_DEFAULTS}).nodes == 1


_SITE_DEFAULTS = {
    "COCAL_SLURM_CPU_PARTITION": "cpu",
    "COCAL_SLURM_GPU_PARTITION": "gpu",
    "COCAL_SLURM_GPU_TYPE": "b200",
    "COCAL_SLURM_NODE_GPUS": "8",
    "COCAL_SLURM_MAX_MINUTES": "1440",
    "COCAL_SLURM_ACCOUNT": "",
}


def test_a_number_of_the_site_that_is_none_is_named(repository, tmp_path):
    done = _dry_run(repository, tmp_path, COCAL_SLURM_JOBS="many")
    assert done.returncode != 0
    assert "COCAL_SLURM_JOBS = 'many' is not a number" in done.stderr


@pytest.mark.parametrize(
    ("change", "minutes"),
    [
        ({}, 1440),
        ({"cpu_partition": "plain, cpu"}, 1440),
        ({"cpu_partition": "mixed"}, 2880),
        ({"cpu_partition": "hidden", "node_gpus": 0}, float("inf")),
        ({"cpu_partition": "mixed", "gpu_partition": "plain"}, 240),
        ({"cpu_partition": "short", "node_gpus": 0}, 30.5),
    ],
)
def test_the_shortest_time_limit_counts_and_of_partitions_together_the_longest(change, minutes):
    assert slurm.shortest_limit(SITE._replace(**change), SINFO) == minutes


def test_slurm_is_asked_for_the_largest_jobs():
    ask = "sbatch --test-only --wrap=true --time=1440"
    gpu = f"{ask} --partition=b200 --gres=gpu:b200:8 --nodes=2 --mem=90000M"
    assert slurm.requests(SITE._replace(nodes=2, node_memory=90_000)) == [f"{ask} --partition=cpu", gpu]
    account = SITE._replace(account="n l", gpu_type="", node_gpus=3)
    cpu, gpu = slurm.requests(account)
    assert cpu == f"{ask} --account='n l' --partition=cpu"
    assert "--gres=gpu:3 " in gpu
    assert len(slurm.requests(SITE._replace(node_gpus=0))) == 1


def test_what_slurm_refuses_is_told_in_its_own_words(queue, tmp_path):
    """SLURM itself takes a job above the time limit of a partition, and never starts it."""
    (queue.parent / "bin/sbatch").write_text(
        "#!/bin/sh\ncase $* in *gres*) echo 'allocation failure: no such node' >&2; exit 1;; esac\n"
    )
    (queue.parent / "bin/sinfo").write_text(f"#!/bin/sh\ncat <<END\n{SINFO}END\n")
    for name in ("sbatch", "sinfo"):
        (queue.parent / "bin" / name).chmod(0o755)
    with pytest.raises(ClusterError) as refused:
        slurm.check(tmp_path, SITE._replace(max_minutes=2000))
    said = str(refused.value)
    assert "--gres=gpu:b200:8 --nodes=1 --mem=0M: allocation failure: no such node" in said
    assert "jobs end after 1440 minutes here, but the profile requests up to 2000: export COCAL_SLURM_MAX" in said
    assert said.count("\n") == 3
    slurm.check(tmp_path, SITE._replace(node_gpus=0))


@pytest.fixture
def queue(tmp_path, monkeypatch) -> Path:
    """A squeue that prints a file."""
    folder = tmp_path / "bin"
    folder.mkdir()
    listing = tmp_path / "queue.txt"
    listing.write_text("")
    path = folder / "squeue"
    path.write_text(f"#!/bin/sh\ncat {listing} 2>/dev/null\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return listing


def test_jobs_of_an_earlier_run_are_named_with_the_command_that_ends_them(queue, tmp_path, capfd):
    queue.write_text(SQUEUE.replace("/home/a/cocal", str(tmp_path)))
    assert cli.main(["slurm"]) == 2
    told = rf"""{tmp_path}: an earlier run is still at work.*
  job 16 RUNNING rule_train_grpo_wildcards_qwen3-8b
  job 17 PENDING rule_questions | mine
wait .*, or end it: scancel 16 17
"""
    assert re.search(told, capfd.readouterr().err), "jobs of this folder, without that in which Snakemake itself runs"
    queue.write_text("")
    assert cli.main(["slurm"]) == 0


def test_a_queue_that_cannot_be_read_stops_runs_on_slurm_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    slurm.check(tmp_path, site=None)
    with pytest.raises(ClusterError, match="squeue: no such command"):
        slurm.check(tmp_path, site=SITE)
