"""Checks before the first job of a run that needs GPUs: whatever would fail hours later is refused now, in a sentence
with its remedy, from the study's numbers and from what the machine or the cluster's profile states."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from cocal.errors import ConfigError
from cocal.runtime.gpus import PROCESSOR_ONLY, Gpu, listed_gpus, parse_gpus, torch_obstacle
from cocal_study.config.backbone import PretrainingSettings
from cocal_study.config.study import Study
from cocal_study.resources.slurm import Site, site_of

_CONDA_DRIVER = 580
"""Oldest Linux driver for CUDA 13, for which the PyTorch of envs/gpu.yaml is built."""
_AS_MUCH = 1.02
"""Tolerance in memory, because cards of the same size differ by a percent in what they state."""
_KNOWN = {
    "a100": ("A100 80 GB", 80.0),
    "h100": ("H100 80 GB", 79.65),
    "h200": ("H200", 140.4),
    "b200": ("B200", 179.06),
}
"""GPUs of clusters by a part of their names in SLURM, with GiB of memory as `nvidia-smi` counts them."""


class Machine(NamedTuple):
    """The GPUs that a job can see, in the driver's order, and their driver."""

    gpus: tuple[Gpu, ...]
    driver: str | None
    obstacle: str | None
    """The reason why PyTorch sees none of them (`torch_obstacle`)."""


class Run(NamedTuple):
    """The jobs of a run of the workflow, and how Snakemake was started."""

    gpus: dict[str, int]
    """GPUs that a job asks for, by rule, of the jobs that are left."""
    allowed: int | None
    """GPUs of all jobs at a time, by `--resources gpus=N`; None if the flag was not given."""
    conda: bool
    """True if rules run in the environments of envs/."""


def check(study: Study, run: Run, machine: Machine | None = None, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse a run whose jobs with GPUs could not succeed on this machine or, where the variables of a SLURM profile
    are set, on its cluster.

    Runs whose remaining jobs ask for no GPU are not checked, and neither are runs on the processor
    (COCAL_PROCESSOR_ONLY). A local run is taken to need GPUs if vLLM samples in its training, or if a backbone is a
    checkpoint and `--resources gpus=N` is given or the study names its card; otherwise it may be one of tiny policies.
    Raises ConfigError with a line for each problem.
    """
    if environment.get(PROCESSOR_ONLY) or not any(run.gpus.values()):
        return
    site = site_of(environment)
    checkpoints = not all(isinstance(backbone, PretrainingSettings) for backbone in study.backbones.values())
    if site is not None:
        problems = on_cluster(study, run, site)
    elif study.policy.trl.vllm or (checkpoints and (run.allowed is not None or study.card is not None)):
        gpus, driver = parse_gpus(listed_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
        problems = on_workstation(study, run, machine or Machine(gpus, driver, torch_obstacle()))
    else:
        return
    if problems:
        raise ConfigError("\n  ".join([f"the GPUs do not suit the study {study.study!r}:", *problems]))


def on_workstation(study: Study, run: Run, machine: Machine) -> list[str]:
    """A sentence for each reason why this machine's GPUs cannot run the jobs."""
    if not machine.gpus:
        cause = "CUDA_VISIBLE_DEVICES hides every GPU: unset it, or name one"
        if machine.driver is None:
            cause = "nvidia-smi finds no GPU, or there is no NVIDIA driver: run on a machine that has both"
        return [f"{cause}; to compute on the processor all the same, export {PROCESSOR_ONLY}=1"]
    problems = []
    if not run.conda and machine.obstacle:
        problems.append(f"PyTorch sees no GPU: {machine.obstacle}")
    elif run.conda and machine.driver and int(machine.driver.partition(".")[0]) < _CONDA_DRIVER:
        problems.append(
            f"the PyTorch of envs/gpu.yaml needs NVIDIA's driver {_CONDA_DRIVER} or newer, and this machine has "
            f"{machine.driver}: update the driver"
        )
    # jobs look for vLLM and a C compiler themselves as soon as they start
    if (nodes := study.policy.trl.nodes) > 1 and _trains(run):
        problems.append(f"the training takes policy.trl.nodes = {nodes}: run it with --profile slurm, or lower it")
    rule, there = max(run.gpus, key=run.gpus.__getitem__), len(machine.gpus)
    most, lower = run.gpus[rule], "lower the number of its GPUs in the study"
    if rule.startswith("train"):
        lower = "lower policy.trl.devices"
    if most > there:
        problems.append(f"{rule} asks for {most} GPUs, and this machine has {there}: {lower}")
    if run.allowed is None:
        problems.append(f"jobs with GPUs would run side by side: add --resources gpus={min(most, there)}")
    elif run.allowed < most:
        allows = f"--resources gpus={run.allowed} allows no more"
        problems.append(f"{rule} asks for {most} GPUs, and {allows}: raise it, or {lower}")
    smallest = min(machine.gpus, key=lambda gpu: gpu.memory)
    return [*problems, *_card(study, smallest.name, smallest.memory)]


def on_cluster(study: Study, run: Run, site: Site) -> list[str]:
    """A sentence for each reason why the GPUs that the profile asks for do not suit the study."""
    trl, problems = study.policy.trl, []
    if _trains(run):
        for key, wanted, variable, asked in (
            ("devices", trl.devices, "COCAL_SLURM_NODE_GPUS", site.node_gpus),
            ("nodes", trl.nodes, "COCAL_SLURM_NODES", site.nodes),
        ):
            if wanted > asked:
                problems.append(
                    f"the training runs on policy.trl.{key} = {wanted}, but the profile asks for {variable} = {asked}: "
                    f"export {variable}={wanted}, or --config 'policy={{trl: {{{key}: {asked}}}}}'"
                )
    for pattern, known in _KNOWN.items():
        if pattern in site.gpu_type.lower():
            problems += _card(study, *known)
    return problems


def _trains(run: Run) -> bool:
    """True if a policy is still to be trained."""
    return any(rule.startswith("train") for rule in run.gpus)


def _card(study: Study, name: str, memory: float) -> list[str]:
    """A sentence if the study's card has more than these GiB of memory."""
    card, fitting = study.cards.get(study.card or ""), fitting_card(study, memory)
    if card is None or _AS_MUCH * memory >= card.memory:
        return []
    larger = "take a larger GPU, for none of the study's cards is as small"
    remedy = f"--config card={fitting}" if fitting else larger
    return [f"the study is set for {card.label} of {card.memory:g} GiB, and {name} has {memory:.1f} GiB: {remedy}"]


def fitting_card(study: Study, memory: float) -> str | None:
    """The largest card of a study that has no more memory than a GPU of `memory` GiB; None if there is none."""
    fitting = {name: card.memory for name, card in study.cards.items() if card.memory <= _AS_MUCH * memory}
    return max(fitting, key=fitting.__getitem__) if fitting else None
