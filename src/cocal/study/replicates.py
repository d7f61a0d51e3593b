"""Replicates of a study: the same study with other seeds of the policies, and the spread of its numbers over them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from cocal.config.backbone import PretrainingSettings
from cocal.config.base import Model
from cocal.config.study import Study
from cocal.errors import ContractError
from cocal.store.atomic import write_text
from cocal.study.digests import Maker

if TYPE_CHECKING:
    import pandas as pd

EXHIBITS = ("tables/*.csv", "figures/*.csv")
"""Patterns of the numbers of tables and figures within the results."""
_VALUE, _VERDICT = "value", "verdict"
"""Columns of an exhibit's numbers and, of claims, their verdicts; the columns before the value tell its rows apart, and
those behind it describe it."""


class Gathered(Model):
    """The file `gathered.json` of a folder of gathered replicates, which says what the folder holds."""

    study: str | None
    replicates: int
    """Number of the replicates."""
    made_by: Maker
    """Who gathered them, which is who ran them where `make replicate` does both."""


def replicate(study: Study, number: int) -> Study:
    """The study with the seeds of a replicate.

    `number` is added to the seeds of questions and facts, of pre-training, of policy training and of all sampling. The
    seeds of companions, of the split and of the bootstrap stay, because every replicate shows their spread itself.

    Args:
        study: The study as its file has it.
        number: Number of the replicate, counted from 1.
    """
    changes = {
        name: part.model_copy(update={"seed": part.seed + number})
        for name, part in (("policy", study.policy), ("generation", study.generation), ("postcal", study.postcal))
    }
    backbones = {
        name: one.model_copy(update={"seed": one.seed + number}) if isinstance(one, PretrainingSettings) else one
        for name, one in study.backbones.items()
    }
    changes["reports"] = study.reports.model_copy(update={"replicates": None, "regimes": None})
    caption = f"{study.caption.rstrip('.')}; replicate {number}, with other seeds of questions, policies and sampling"
    return study.model_copy(update={**changes, "backbones": backbones, "seed": study.seed + number, "caption": caption})


def write_study(study: Study, path: Path) -> None:
    """Write a study as a file for `snakemake --configfile`."""
    content = study.model_dump(mode="json", exclude_unset=True)
    write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))


def spread(results: Sequence[Path]) -> "dict[str, pd.DataFrame]":
    """The numbers of every table and figure over replicates.

    Args:
        results: The folder of results of each replicate, in order.

    Returns:
        By path within the results: the columns that tell the rows apart, then mean, sd (with n - 1 in the denominator),
        least and greatest value, and one column for each replicate; of exhibits with verdicts, those of each replicate
        as well. Exhibits whose numbers are not in one column, such as times, counts in bins and settings, are left out.

    Raises:
        ContractError: if a replicate lacks an exhibit, or a row of it, that another one has. A claim that one replicate
            cannot assess has no margins there, which is no error.
    """
    import pandas as pd

    found = {}
    for name in sorted(
        {str(path.relative_to(folder)) for folder in results for p in EXHIBITS for path in folder.glob(p)}
    ):
        frames = [_numbers(folder / name) for folder in results]
        if any(frame is None for frame in frames):
            continue
        numbers = range(1, len(frames) + 1)
        table = pd.concat([frame[_VALUE] for frame in frames], axis=1, keys=[f"replicate_{n}" for n in numbers])
        judged = all(_VERDICT in frame for frame in frames)
        for folder, frame in zip(results, frames, strict=True):
            if not judged and len(missing := table.index.difference(frame.index)):
                raise ContractError(
                    f"{folder / name}: lacks the row {missing[0]} that another replicate has; run all replicates with "
                    "one study and one version of CoCal"
                )
        over = table.agg(["mean", "std", "min", "max"], axis=1)
        over.columns = ["mean", "sd", "least", "greatest"]
        parts = [over, table]
        if judged:
            verdicts = [frame[_VERDICT] for frame in frames]
            parts.append(pd.concat(verdicts, axis=1, keys=[f"verdict_{n}" for n in numbers]).reindex(table.index))
        found[name] = pd.concat(parts, axis=1).loc[frames[0].index.union(table.index, sort=False)].reset_index()
    return found


def _numbers(path: Path) -> "pd.DataFrame | None":
    """The numbers of an exhibit, and its verdicts if it has some, by the columns that tell its rows apart; None if they
    are not in one column."""
    import pandas as pd

    if not path.exists():
        raise ContractError(f"{path}: there is no such file, which another replicate has; finish this replicate")
    frame = pd.read_csv(path, keep_default_na=False, na_values=["NaN"])
    if _VALUE not in frame or frame[_VALUE].dtype.kind != "f":
        return None
    labels = list(frame.columns[: frame.columns.get_loc(_VALUE)])
    return frame.set_index(labels)[[name for name in (_VALUE, _VERDICT) if name in frame]]
