"""The rehearsal study on a real SLURM, with what happens to jobs on clusters. Each test goes on from the last.

`make rehearsal-short` runs one backbone's way from the questions to its confidences, `make rehearsal` the whole study.
"""

import signal
import subprocess

import pytest

from rehearsal_study import request_of, stop, wait

BACKBONE = "stand-in-14b"
TRAIN = f"rule_train_grpo_wildcards_{BACKBONE}"
RESAMPLE = f"rule_resample_wildcards_{BACKBONE}"
CHECKPOINT = f"results/policies/{BACKBONE}/grpo/step-8"
RESAMPLED = f"results/rollouts/{BACKBONE}/postcal"
CONFIDENCES = f"results/predictions/{BACKBONE}/grpo/step-8.parquet"


def test_a_wrong_site_is_refused_before_the_first_job(study):
    site = {"COCAL_SLURM_GPU_PARTITION": "gpu", "COCAL_SLURM_MAX_MINUTES": "9999"}
    done = study.snakemake(CONFIDENCES, site=site)
    assert done.returncode != 0
    assert "invalid partition specified: gpu" in done.stdout
    assert "export COCAL_SLURM_MAX_MINUTES=1440" in done.stdout
    done = study.snakemake(CONFIDENCES, site={"COCAL_SLURM_GPU_TYPE": "h100"})
    assert done.returncode != 0
    assert "--gres=gpu:h100:8 --nodes=1 --mem=1000000M: allocation failure: Requested node" in done.stdout
    assert study.jobs() == []
    assert not (study.folder / "results").exists()


def test_a_job_gets_what_its_rule_asks_for_and_outlives_its_driver(study):
    """SIGKILL leaves jobs running: the next run is refused until they are gone."""
    with study.driver("killed", CHECKPOINT) as driver:
        job = study.wait_for_job(TRAIN, "RUNNING")
        request = request_of(job)
        assert request["NumCPUs"] == "32"
        assert request["TresPerNode"] == "gres:gpu:b200:8"
        assert (request["Partition"], request["TimeLimit"]) == ("b200", "1-00:00:00")
        assert request["MinMemoryNode"] in ("400000M", "400G")
        wait(lambda: _resumable(study), "no step was trained")
        stop(job)
        driver.send_signal(signal.SIGKILL)
        driver.wait(30)
    assert study.jobs(TRAIN)[-1].state == "STOPPED"

    done = study.snakemake(CHECKPOINT)
    assert done.returncode != 0
    assert "--unlock" in done.stdout
    assert study.snakemake("--unlock").returncode == 0
    done = study.snakemake(CHECKPOINT)
    assert done.returncode != 0
    assert f"{job.id} STOPPED {TRAIN}" in done.stdout
    assert f"scancel {job.id}" in done.stdout
    assert len(study.jobs(TRAIN)) == 1, "a duplicate was submitted"

    subprocess.run(["scancel", job.id], check=True)
    wait(lambda: study.jobs(TRAIN)[-1].state == "CANCELLED", "the job was not cancelled")
    assert not (study.folder / CHECKPOINT).exists()


def test_cancelled_and_preempted_jobs_resume(study):
    """scancel: another attempt with more memory. Preemption: the same job again. Both go on where they were."""
    with study.driver("resumed", CHECKPOINT) as driver:
        earlier = {job.id for job in study.jobs(TRAIN)}
        job = study.wait_for_job(TRAIN, "RUNNING", besides=earlier)
        wait(lambda: "resuming from" in _log(study, "train_grpo", BACKBONE), "the killed driver's steps are lost")
        subprocess.run(["scancel", job.id], check=True)

        second = study.wait_for_job(TRAIN, "RUNNING", besides={*earlier, job.id})
        assert request_of(second)["MinMemoryNode"] in ("800000M", "800G")
        stop(second)
        urgent = ["--partition=urgent", "--gres=gpu:b200:8", "--output=/dev/null", "--wrap=true"]
        subprocess.run(["sbatch", *urgent], check=True, capture_output=True, cwd="/")
        wait(lambda: request_of(second).get("Restarts") == "1", "not preempted")

        assert driver.wait(240) == 0, study.said("resumed")[-3000:]
    assert study.jobs(TRAIN)[-1] == study.jobs(TRAIN)[-1]._replace(id=second.id, state="COMPLETED")
    assert (study.folder / CHECKPOINT).is_dir()


def test_a_job_out_of_time_gets_more_and_resumes(study):
    """One minute is too short for a job whose processes are stopped."""
    # on the command line they replace those of the profile, of all rules
    request = ["resample:runtime=attempt", "resample:gres=gpu:b200:1", "resample:slurm_partition=b200"]
    with study.driver("late", "--set-resources", *request, RESAMPLED) as driver:
        job = study.wait_for_job(RESAMPLE, "RUNNING")
        assert request_of(job)["TimeLimit"] == "00:01:00"
        run = study.folder / "results/runs/resample" / BACKBONE
        wait(lambda: list(run.glob("rollouts/*.parquet")), "nothing was resampled")
        stop(job)
        kept = len(list(run.glob("rollouts/*.parquet")))
        assert kept < 8

        study.wait_for_job(RESAMPLE, "TIMEOUT")
        second = study.wait_for_job(RESAMPLE, "RUNNING", besides={job.id})
        assert request_of(second)["TimeLimit"] == "00:02:00"
        assert len(list(run.glob("rollouts/*.parquet"))) >= kept, "the second attempt started afresh"
        assert driver.wait(240) == 0, study.said("late")[-3000:]
    assert len(list((study.folder / RESAMPLED).glob("*.parquet"))) == 8


def test_the_rest_of_a_backbone_runs_to_its_confidences(study):
    done = study.snakemake(CONFIDENCES, minutes=10)
    assert done.returncode == 0, done.stdout[-3000:]
    assert (study.folder / CONFIDENCES).is_file()
    gpus = {"responses": "1", "features": "1", "companions": "1", "predictions": None}
    for rule, count in gpus.items():
        request = request_of(study.jobs(f"rule_{rule}_")[-1])
        assert request.get("TresPerNode") == (count and f"gres:gpu:b200:{count}")
        assert request["Partition"] == ("b200" if count else "cpu")
    assert "Nothing to be done" in study.snakemake("--dry-run", CONFIDENCES).stdout


def test_two_nodes_train_the_policy_of_two_processes_on_one(study):
    """One process a node, whose first is found by the name that SLURM knows; sums of two gradients have one order."""
    target = f"results/policies/{BACKBONE}/dcpo/step-8"
    pair = {"COCAL_SLURM_GPU_PARTITION": "pair", "COCAL_SLURM_NODES": "2", "COCAL_SLURM_NODE_GPUS": "1"}
    policies = []
    for trl, site, nodes in (("nodes: 2", pair, "2"), ("devices: 2", {}, "1")):
        changed = ["--config", f"policy={{micro_batch: 32, trl: {{{trl}}}}}"]
        done = study.snakemake(*changed, target, site=site, minutes=15)
        assert done.returncode == 0, done.stdout[-3000:]
        request = request_of(study.jobs(f"rule_train_dcpo_wildcards_{BACKBONE}")[-1])
        assert (request["NumNodes"], request["JobState"]) == (nodes, "COMPLETED")
        policies.append((study.folder / target / "model.safetensors").read_bytes())
    assert policies[0] == policies[1]


@pytest.mark.slow
def test_the_whole_study(study):
    done = study.snakemake(minutes=60)
    assert done.returncode == 0, done.stdout[-5000:]
    for name in ("tables/main.tex", "tables/scale.tex", "tables/all.tex", "figures/layers.pdf", "figures/budgets.pdf"):
        assert (study.folder / "results" / name).stat().st_size > 0
    drawn = [job for job in study.jobs() if job.what.startswith(("rule_table", "rule_figure"))]
    assert drawn == [], "tables and figures are made on the login node"
    assert "Nothing to be done" in study.snakemake("--dry-run").stdout


def _resumable(study) -> bool:
    """Whether the run of TRAIN has a checkpoint to resume from."""
    return any((study.folder / f"results/runs/train/{BACKBONE}/grpo").glob("checkpoint-*/provenance.json"))


def _log(study, stage: str, name: str) -> str:
    path = study.folder / f"logs/{stage}/{name}.log"
    return path.read_text() if path.exists() else ""
