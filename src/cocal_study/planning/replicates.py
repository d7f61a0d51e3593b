"""Replicates of a study: the same study with other seeds of the policies, and the spread of its numbers over them."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cocal.errors import ContractError
from cocal.settings.base import Model
from cocal.store.atomic import write_text
from cocal_study.config.backbone import PretrainingSettings
from cocal_study.config.parse import parse_settings
from cocal_study.config.study import Study
from cocal_study.planning.digests import Maker, StudyDigests
from cocal_study.store.numbers import read_numbers

if TYPE_CHECKING:
    import pandas as pd

GATHERED = "gathered.json"
"""Name of the file that says what a folder of gathered replicates holds."""
DIGESTS = "digests"
"""Folder of the digests of each replicate, by its number."""
EXHIBITS = ("tables/*.csv", "figures/*.csv")
"""Patterns of the numbers of tables and figures within the results."""
CONDITIONS = "tables/conditions.csv"
"""The conditions that decide, beforehand, which replicates are gathered."""
REQUIRED = "required"
"""The word by which the conditions mark a value that must lie between its bounds, in the column `matched`."""
_VALUE, _VERDICT, _CHANCE = "value", "verdict", "at_chance"
"""Columns of an exhibit's numbers and, of claims, their verdicts and the confidences in them that are constant or at
chance; the columns before the value identify its row, and those after it describe it."""


class Gathered(Model):
    """The file `gathered.json` of a folder of gathered replicates, which says what the folder holds."""

    study: str | None
    replicates: dict[int, Maker]
    """Who gathered each replicate that takes part, by its number; `make replicate` gathers where it runs them."""
    refused: dict[int, tuple[str, ...]] = {}
    """Those that do not take part, and which of their conditions were out of bounds."""


def replicate(study: Study, number: int) -> Study:
    """The study with the seeds of a replicate, whose number, counted from 1, is added to the seeds of questions and
    facts, of pre-training, of policy training and of all sampling. The seeds of companions, of the split and of the
    bootstrap stay, because every replicate shows their spread itself."""
    changes: dict[str, Any] = {
        name: part.model_copy(update={"seed": part.seed + number})
        for name, part in (("policy", study.policy), ("generation", study.generation), ("postcal", study.postcal))
    }
    backbones = {
        name: part.model_copy(update={"seed": part.seed + number}) if isinstance(part, PretrainingSettings) else part
        for name, part in study.backbones.items()
    }
    gathered = ("replicates", "central", "regimes", "experience", "fits", "prefixes", "language_model")
    changes["reports"] = study.reports.model_copy(update=dict.fromkeys(gathered))
    caption = f"{study.caption.rstrip('.')}; replicate {number}, with other seeds of questions, policies and sampling."
    return study.model_copy(update={**changes, "backbones": backbones, "seed": study.seed + number, "caption": caption})


def behind(table: Path) -> list[str]:
    """List the replicates that a gathered table is made of: the commit and the processor of each, and the digest of its
    own table. Raises ContractError if the folder of gathered replicates lacks a replicate's digests."""
    folder = table.parent.parent
    gathered = parse_settings(Gathered, str(folder / GATHERED))
    lines = [f"{table}: gathered of {len(gathered.replicates)} replicates of the study {gathered.study}"]
    for number in gathered.replicates:
        of = parse_settings(StudyDigests, str(folder / DIGESTS / f"{number}.json"))
        digest = of.digests[table.parent.name][f"{table.parent.name}/{table.name}"]
        lines.append(f"  replicate {number}: {digest}, commit {of.made_by.commit}, on {of.made_by.processor}")
    return [*lines, *(f"  replicate {number} takes no part: {why[0]}" for number, why in gathered.refused.items())]


def write_study(study: Study, path: Path) -> None:
    """Write a study as a file for `snakemake --configfile`."""
    content = study.model_dump(mode="json", exclude_unset=True)
    write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))


def refusals(results: Path) -> tuple[str, ...]:
    """Say why a replicate takes no part in what is gathered: which of its required conditions are out of bounds. Only
    its tables/conditions is read, so that no method's result matters; without this file, nothing is required."""
    path = results / CONDITIONS
    if not path.exists():
        return ()
    frame = read_numbers(path)
    rows = frame[frame["matched"] == REQUIRED].fillna({"least": float("-inf"), "greatest": float("inf")})
    out = rows[~rows[_VALUE].between(rows["least"], rows["greatest"])]
    return tuple(
        f"{row.condition.removesuffix(' (%)')}, {row.of}: {row.value:.3f}, not in [{row.least:.3f}, {row.greatest:.3f}]"
        for row in out.itertuples()
    )


def spread(
    results: Mapping[int, Path], before: Path | None = None, kept: Collection[int] = ()
) -> "dict[str, pd.DataFrame]":
    """The numbers of every table and figure over replicates. Raises ContractError if a replicate lacks an exhibit, or a
    row of it, that another one has. A claim that one replicate cannot assess has no margins there, which is no error.

    Args:
        results: The folder of results of each replicate, by its number.
        before: Folder of what was gathered of other replicates, if there is one.
        kept: Numbers of the earlier replicates that stay.

    Returns:
        By path within the results: the columns that tell the rows apart, then mean, sd (with n - 1 in the denominator),
        least and greatest value, and one column for each replicate; of exhibits with verdicts, those of each replicate
        as well. Exhibits whose numbers are not in one column, such as times, counts in bins and settings, are left out.
    """
    import pandas as pd

    tables = {}
    folders = [*results.values(), *([before] if before else [])]
    for name in sorted(
        {str(path.relative_to(folder)) for folder in folders for p in EXHIBITS for path in folder.glob(p)}
    ):
        given = {number: _numbers(folder / name) for number, folder in results.items()}
        if any(frame is None for frame in given.values()):
            continue
        earlier = _gathered(before / name, kept) if before else {}
        frames: dict[int, pd.DataFrame] = dict(sorted((earlier | given).items()))
        values = {f"replicate_{number}": frame[_VALUE] for number, frame in frames.items()}
        table = pd.concat(values.values(), axis=1, keys=values)
        judged = all(_VERDICT in frame for frame in frames.values())
        for number, frame in frames.items():
            if not judged and len(missing := table.index.difference(frame.index)):
                raise ContractError(
                    f"{results.get(number, before or Path()) / name}: replicate {number} lacks the row {missing[0]} "
                    "that another replicate has; run all replicates with one study and one version of CoCal"
                )
        over = table.agg(["mean", "std", "min", "max"], axis=1)
        over.columns = ["mean", "sd", "least", "greatest"]
        parts = [over, table]
        for column in (_VERDICT, _CHANCE) if judged else ():
            said = {f"{column}_{number}": frame[column] for number, frame in frames.items() if column in frame}
            parts += [pd.concat(said.values(), axis=1, keys=said).reindex(table.index)] if said else []
        order = next(iter(frames.values())).index.union(table.index, sort=False)
        tables[name] = pd.concat(parts, axis=1).loc[order].reset_index()
    return tables


def _gathered(path: Path, numbers: Collection[int]) -> "dict[int, pd.DataFrame]":
    """What `_numbers` had read of these replicates, recovered from a file that `spread` has gathered."""
    if not path.exists():
        raise ContractError(f"{path}: was not gathered before; gather all replicates with this version of CoCal")
    table = read_numbers(path)
    table = table.set_index(list(table.columns[: table.columns.get_loc("mean")]))
    frames = {}
    for number in numbers:
        names = {f"{column}_{number}": column for column in (_VERDICT, _CHANCE)}
        names |= {f"replicate_{number}": _VALUE}
        frame = table[[name for name in names if name in table]].rename(columns=names)
        frames[number] = frame.dropna(subset=[_VERDICT]) if _VERDICT in frame else frame
    return frames


def _numbers(path: Path) -> "pd.DataFrame | None":
    """The numbers of an exhibit, and its verdicts if it has some, by the columns that identify its rows; None if the
    numbers are not in one column."""
    if not path.exists():
        raise ContractError(f"{path}: there is no such file, which another replicate has; finish this replicate")
    frame = read_numbers(path)
    if _VALUE not in frame or frame[_VALUE].dtype.kind != "f":
        return None
    labels = list(frame.columns[: frame.columns.get_loc(_VALUE)])
    return frame.set_index(labels)[[name for name in (_VALUE, _VERDICT, _CHANCE) if name in frame]]
