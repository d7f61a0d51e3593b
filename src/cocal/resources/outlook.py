"""The outlook of `cocal plan` on GPUs of other kinds: hours and memory of a study on each."""

from collections.abc import Callable, Sequence

from cocal.config.backbone import PretrainingSettings
from cocal.config.study import Study
from cocal.resources.estimate import Assumptions, workloads
from cocal.resources.forecast import aligned
from cocal.resources.gpus import GPUS, Gpu, assumptions_on
from cocal.resources.memory import GIB, most, too_small
from cocal.resources.rules import STAGES

_AS_MUCH = 1.02
"""Cards of the same size differ by a percent in the memory that they state."""


def fitting_card(study: Study, memory: float) -> str | None:
    """The largest card of a study that has no more memory than a GPU of `memory` GiB; None if there is none."""
    fitting = {name: card.memory for name, card in study.cards.items() if card.memory <= _AS_MUCH * memory}
    return max(fitting, key=fitting.__getitem__) if fitting else None


def outlook(
    study: Study, with_card: Callable[[str], Study], assumed: Assumptions, gpus: Sequence[Gpu] = GPUS
) -> list[str]:
    """Lines of a table: for each GPU its memory, the study's card, GPU-hours of each stage and of all, and the memory
    of the job that needs most; then, for each GPU that is too small, a sentence why.

    Args:
        study: The study. If no GPU has a part in it, the table is empty.
        with_card: The same study on another of its cards.
        assumed: Assumptions for the paper's B200.
        gpus: Columns of the table.
    """
    if all(isinstance(backbone, PretrainingSettings) for backbone in study.backbones.values()):
        return []
    names = [*(f"hours: {stage}" for stage in STAGES), "hours: total", *(f"most: {name}" for name in study.backbones)]
    columns, reasons = [["", "memory", "card", *names]], []
    for gpu in gpus:
        card = fitting_card(study, gpu.memory)
        there = study if card in (None, study.card) else with_card(card)
        work = list(workloads(there, assumptions_on(gpu, assumed)))
        hours = [sum(one.gpu_hours for one in work if one.stage == stage) for stage in STAGES]
        worst = too_small(there, gpu.memory)
        peaks = [f"{need.bytes / GIB:.1f} GiB" for need in most(there, gpu.memory).values()]
        numbers = [f"{number:,.1f}" for number in (*hours, sum(hours))]
        columns.append([gpu.label, f"{gpu.memory:.1f} GiB", card or "-", *numbers, *peaks])
        if worst:
            more = f" (and {len(worst) - 1} more)" if worst[1:] else ""
            reasons.append(f"{gpu.label} is too small: {worst[0]}{more}")
    return [*aligned(list(zip(*columns, strict=True))), *reasons]
