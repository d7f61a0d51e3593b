"""A run that would fail hours later is refused before the first job, in a sentence with its remedy."""

import os

import pytest

import started
from cocal.errors import ConfigError
from cocal.runtime.gpus import Gpu, parse_gpus
from cocal_study.config.study import configured_study
from cocal_study.resources.preflight import Machine, Run, check, fitting_card, on_cluster, on_workstation
from cocal_study.resources.slurm import Site

LISTING = """\
NVIDIA GeForce RTX 4090, 24564, 580.65.06
NVIDIA H100 80GB HBM3, 81559, 580.65.06
"""
RTX, H100 = parse_gpus(LISTING, None)[0]
GOOD = Machine((RTX,), "580.65.06", obstacle=None)
RUN = Run({"train": 1, "responses": 1, "features": 1}, allowed=1, conda=False)
SITE = Site("cpu", "gpu", "b200", 8, 1440, "")


@pytest.fixture
def study(repository):
    def changed(name="single-gpu", **changes):
        return configured_study([repository / f"config/{name}.yaml"], changes)

    return changed


def test_gpus_are_read_from_the_driver():
    assert Gpu("NVIDIA GeForce RTX 4090", 24564 / 1024) == RTX
    assert parse_gpus(LISTING, None) == ((RTX, H100), "580.65.06")
    assert parse_gpus(LISTING, "1") == ((H100,), "580.65.06")
    assert parse_gpus(LISTING, "GPU-8d5a") == ((RTX,), "580.65.06"), "one of them, whichever"
    assert parse_gpus(LISTING, "") == ((), "580.65.06")
    assert parse_gpus("NVIDIA-SMI has failed because it could not talk to the driver.\n", None) == ((), None)


def test_a_card_that_suits_the_study_has_no_problems(study):
    assert on_workstation(study(), RUN, GOOD) == []
    assert on_workstation(study(card="80gb"), RUN, GOOD._replace(gpus=(H100,))) == []
    two = GOOD._replace(gpus=(RTX, RTX))
    assert on_workstation(study(), RUN._replace(allowed=2), two) == [], "each job takes one that is free"
    bare = GOOD._replace(obstacle="Torch not compiled with CUDA enabled")
    assert on_workstation(study(), RUN._replace(conda=True), bare) == [], "conda brings all of it"


@pytest.mark.parametrize(
    ("machine", "run", "sentence"),
    [
        ({"gpus": (), "driver": None}, {}, "nvidia-smi finds no GPU.*: run on a machine .*export COCAL_PROCESSOR_ONL"),
        ({"gpus": ()}, {}, "CUDA_VISIBLE_DEVICES hides every GPU: unset it"),
        ({"obstacle": "The driver is too old"}, {}, "PyTorch sees no GPU: The driver is too old"),
        ({"driver": "535.183.01"}, {"conda": True}, "driver 580 or newer, and this machine has 535.183.01: update"),
        ({}, {"gpus": {"train": 4}, "allowed": 4}, "asks for 4 GPUs, and this machine has 1: lower policy.trl.dev"),
        ({"gpus": (RTX, RTX)}, {"gpus": {"train": 2}}, "train asks for 2 GPUs, and --resources gpus=1 allows no more"),
        ({}, {"allowed": None}, "jobs with GPUs would run side by side: add --resources gpus=1"),
        ({"gpus": (RTX._replace(memory=12.0),)}, {}, "of 24 GiB, and NVIDIA .* has 12.0 GiB: take a larger"),
        ({"gpus": (H100, RTX._replace(memory=20.0))}, {}, "RTX 4090 has 20.0 GiB"),
    ],
)
def test_each_problem_is_a_sentence_with_its_remedy(study, machine, run, sentence):
    with pytest.raises(ConfigError, match=sentence) as found:
        check(study(), RUN._replace(**run), GOOD._replace(**machine), {})
    assert len(str(found.value).splitlines()) == 2, "the study, and this problem alone"


def test_the_card_that_fits_is_named(study):
    (found,) = on_workstation(study(card="80gb"), RUN, GOOD)
    assert found.endswith("of 80 GiB, and NVIDIA GeForce RTX 4090 has 24.0 GiB: --config card=24gb")


def test_each_gpu_gets_the_card_that_fits_it(study):
    found = [fitting_card(study(), memory) for memory in (12, 23.99, 79.65, 179.06)]
    assert found == [None, "24gb", "80gb", "80gb"]


def test_runs_without_gpus_are_left_alone(study):
    nothing = GOOD._replace(gpus=(), driver=None)
    check(study(), RUN._replace(gpus={}), nothing, {})
    check(study(), RUN, nothing, {"COCAL_PROCESSOR_ONLY": "1"})
    check(study("smoke"), RUN, nothing, {})
    plain = {"card": None, "policy": {"trl": {"vllm": False}}}
    check(study(**plain), RUN._replace(allowed=None), nothing, {})
    with pytest.raises(ConfigError, match="finds no GPU"):
        check(study(**plain), RUN, nothing, {})


def test_the_profile_must_ask_for_the_gpus_of_the_study(study):
    assert on_cluster(study("paper"), RUN, SITE) == []
    (found,) = on_cluster(study("paper"), RUN, SITE._replace(node_gpus=4))
    assert "policy.trl.devices = 8, but the profile asks for COCAL_SLURM_NODE_GPUS = 4: export" in found
    assert "--config 'policy={trl: {devices: 4}}'" in found
    two = study("paper", policy={"trl": {"nodes": 2, "devices": 4}})
    assert on_cluster(two, RUN, SITE._replace(node_gpus=4, nodes=2)) == []
    (found,) = on_cluster(two, RUN, SITE._replace(node_gpus=4))
    assert "policy.trl.nodes = 2, but the profile asks for COCAL_SLURM_NODES = 1" in found
    assert on_cluster(two, Run({"features": 1}, None, False), SITE._replace(node_gpus=1)) == [], "nothing is trained"
    assert on_cluster(study("rehearsal"), RUN, SITE) == [], "a node that is larger is no problem"


def test_the_profiles_gpus_must_be_large_enough(study):
    (found,) = on_cluster(study("paper"), RUN, SITE._replace(gpu_type="h100"))
    assert found == "the study is set for B200 of 179 GiB, and H100 80 GB has 79.7 GiB: --config card=80gb"
    assert on_cluster(study("paper", card="80gb"), RUN, SITE._replace(gpu_type="a100")) == []
    assert on_cluster(study("paper"), RUN, SITE._replace(gpu_type="mi300x")) == [], "of which nothing is known"


def test_a_run_of_the_workflow_is_refused_before_its_first_job(repository, tmp_path):
    fake = tmp_path / "bin/nvidia-smi"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'NVIDIA GeForce RTX 4090, 12288, 580.65.06'\n")
    fake.chmod(0o755)
    flags = ["--configfile", "config/single-gpu.yaml", "--cores", "2", "--directory", tmp_path / "run"]
    flags += ["--resources", "gpus=1"]
    hidden = ("COCAL_PROCESSOR_ONLY", "CUDA_VISIBLE_DEVICES")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    environment["PATH"] = f"{fake.parent}:{environment['PATH']}"
    done = started.snakemake(flags, repository, environment)
    assert done.returncode != 0
    text = done.stdout + done.stderr
    assert "the GPUs do not suit the study 'single-gpu':" in text
    assert "has 12.0 GiB: take a larger" in text
    assert not (tmp_path / "run/results").exists()
    # tables alone need no GPU
    assert started.snakemake([*flags, "--", "results/figures/paradigms.pdf"], repository, environment).returncode == 0
