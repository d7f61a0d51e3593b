"""What `cocal plan` prints before a study runs: the jobs that are left, with GPUs and their least memory, by rule, and
the disk that the whole study takes."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise, takewhile
from pathlib import Path

from cocal.errors import ConfigError
from cocal_study.config.backbone import PretrainingSettings
from cocal_study.config.study import Study
from cocal_study.planning import plan
from cocal_study.resources.memory import (
    GPUS,
    HALF,
    SINGLE,
    fitting_card,
    held_by,
    least_memory,
    parameters_of,
    too_small,
)


def jobs_left(snakefile: Path, study: Path, directory: Path) -> dict[str, int]:
    """Number of jobs of each rule that a dry-run of the workflow plans in a folder. Raises ConfigError if Snakemake is
    not installed, or refuses the study."""
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--quiet", "rules", "--cores", "1"]
    command += ["--snakefile", str(snakefile), "--configfile", str(study), "--directory", str(directory)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    text = done.stdout + done.stderr
    if done.returncode:
        missing = "No module named snakemake" in text
        cause = "`pip install . ./src` in a checkout brings it" if missing else text.strip()[-2000:]
        raise ConfigError(f"{snakefile}: the dry-run with {study} failed: {cause}")
    table = text.partition("Job stats:\n")[2].splitlines()[2:]
    rows = takewhile(lambda row: row[:1] != ["total"], map(str.split, table))
    return {rule: int(count) for rule, count in rows}


def forecast(study: Study, jobs: Mapping[str, int]) -> list[str]:
    """Lines of a table by rule: the jobs that are left (`jobs`), and where a backbone is a checkpoint, GPUs of a job
    and the least memory on each of them; a line with the disk that the whole study takes."""
    card, trl, computed = study.cards.get(study.card or ""), study.policy.trl, _all_made_here(study)
    rows: list[tuple[str, ...]] = [("rule", "jobs", "GPUs", "memory")]
    for rule, count in jobs.items():
        held = None if computed else held_by(rule)
        gpus = trl.nodes * trl.devices if held == "update" else 1
        memory = least_memory(study, held, card.memory if card else GPUS[-1].memory)
        rows.append((rule, str(count), *((str(gpus), f"{memory:.1f} GiB") if held else ("", ""))))
    rows.append(("total", str(sum(jobs.values())), "", ""))
    first, *rest = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = ["  ".join([name.ljust(first), *map(str.rjust, cells, rest)]).rstrip() for name, *cells in rows]
    kept, more = disk(study)
    return [*lines, "", f"disk: {kept / 1e9:,.1f} GB of results, and up to {more / 1e9:,.1f} GB while trainings run"]


def _all_made_here(study: Study) -> bool:
    return all(isinstance(backbone, PretrainingSettings) for backbone in study.backbones.values())


def disk(study: Study) -> tuple[float, float]:
    """Bytes of checkpoints, companions and states of rollouts in results/, beside which tables and other states are
    small; and those of resumable checkpoints while all trainings run."""
    policy, dtype, kept, more = study.policy, HALF if study.features.dtype == "bfloat16" else SINGLE, 0.0, 0.0
    rollouts, runs = policy.steps * policy.questions_per_step * policy.responses_per_question, len(policy.algorithms)
    for name, backbone in study.backbones.items():
        parameters = parameters_of(backbone)
        kept += HALF * parameters * (1 + runs * len(policy.stages))
        more += 2 * runs * 3 * SINGLE * parameters  # two a training, each with float32 weights and both moments of Adam
        experiences = plan.experiences_of(plan.methods_of(study, name, "grpo", policy.steps))
        layers = len(plan.layers_of(study, name)) + ("resampled" in experiences)
        kept += rollouts * layers * 2 * backbone.width * dtype  # last and mean states
        prefixes = sum(len(plan.companion_prefixes(study, name, one)) for one in experiences if one != "prompts")
        companions = prefixes * len(study.companion.targets) + len(plan.ablation_states(study, name))
        sizes = (2 * backbone.width, *study.companion.widths, 1)
        kept += companions * len(study.companion.seeds) * SINGLE * sum((a + 3) * b for a, b in pairwise(sizes))
    return kept, more


def by_gpu(study: Study, with_card: Callable[[str], Study]) -> list[str]:
    """A line for each kind of GPU: the study's card that fits it (`with_card` gives the study on it), and the first
    reason why it is too small, if it is. No lines if no GPU has a part in the study."""
    lines = []
    for gpu in () if _all_made_here(study) else GPUS:
        card = fitting_card(study, gpu.memory)
        there = study if card in (None, study.card) else with_card(card)
        (reason,) = too_small(there, gpu.memory)[:1] or ["large enough"]
        lines.append(f"{gpu.label}, {gpu.memory:.1f} GiB{f' (card={card})' if card else ''}: {reason}")
    return lines
