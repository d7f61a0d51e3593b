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

_AS_MUCH = 1.02
"""Cards of the same size differ by a percent in the memory that they state."""


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

    Runs whose remaining jobs ask for no GPU are not looked at, nor those that are to compute on the processor
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
    rule, there = max(run.gpus, key=run.gpus.__getitem__), len(machine.gpus)
    most, lower = run.gpus[rule], "lower the number of its GPUs in the study"
    if most > there:
        problems.append(f"{rule} asks for {most} GPUs, and this machine has {there}: {lower}")
    if run.allowed is None:
        problems.append(f"jobs with GPUs would run side by side: add --resources gpus={min(most, there)}")
    elif run.allowed < most:
        allows = f"--resources gpus={run.allowed} allows no more"
        problems.append(f"{rule} asks for {most} GPUs, and {allows}: raise it, or {lower}")
    smallest = min(machine.gpus, key=lambda gpu: gpu.memory)
    card, fitting = study.cards.get(study.card or ""), fitting_card(study, smallest.memory)
    if card is not None and _AS_MUCH * smallest.memory < card.memory:
        remedy = (
            f"--config card={fitting}" if fitting else "take a larger GPU, for none of the study's cards is as small"
        )
        there = f"{smallest.name} has {smallest.memory:.1f} GiB"
        problems.append(f"the study is set for {card.label} of {card.memory:g} GiB, and {there}: {remedy}")
    return problems


def on_cluster(study: Study, run: Run, site: Site) -> list[str]:
    """A sentence for each reason why the GPUs that the profile asks for do not suit the study."""
    trl, problems = study.policy.trl, []
    if any(rule.startswith("train") for rule in run.gpus):
        for key, wanted, variable, asked in (
            ("devices", trl.devices, "COCAL_SLURM_NODE_GPUS", site.node_gpus),
            ("nodes", trl.nodes, "COCAL_SLURM_NODES", site.nodes),
        ):
            if wanted > asked:
                problems.append(
                    f"the training runs on policy.trl.{key} = {wanted}, but the profile asks for {variable} = {asked}: "
                    f"export {variable}={wanted}, or --config 'policy={{trl: {{{key}: {asked}}}}}'"
                )
    return problems


def fitting_card(study: Study, memory: float) -> str | None:
    """The largest card of a study that has no more memory than a GPU of `memory` GiB; None if there is none."""
    fitting = {name: card.memory for name, card in study.cards.items() if card.memory <= _AS_MUCH * memory}
    return max(fitting, key=fitting.__getitem__) if fitting else None
