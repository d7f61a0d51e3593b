"""Gathers the numbers of replicates of a study, or of the points of regimes, in a folder that may hold earlier ones."""

import argparse
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from cocal.drawing.style import paper_style, save_figure
from cocal.errors import ConfigError, ContractError
from cocal.metrics.shown import csv_text
from cocal.store import atomic_path, label_folder, provenance, write_text
from cocal_study.config.methods import METHODS
from cocal_study.config.parse import parse_settings
from cocal_study.config.study import Study, load_study
from cocal_study.evidence.headlines import Sampled, Unread, headline_rows, judged
from cocal_study.evidence.kept import NUMBERS, keep, recomputed
from cocal_study.evidence.published import read_published
from cocal_study.evidence.regimes import measured, together
from cocal_study.evidence.sources import PublishedSource
from cocal_study.exhibits.drawing.curves import draw_replicates
from cocal_study.exhibits.typesetting.landing import scale_of
from cocal_study.exhibits.typesetting.verdict import lines
from cocal_study.planning.digests import StudyDigests, digests_of, maker_of
from cocal_study.planning.plan import MATHEMATICS
from cocal_study.planning.replicates import DIGESTS, GATHERED, Gathered, refusals, spread
from cocal_study.provenance.owner import owner_of
from cocal_study.store.numbers import read_numbers

_KEPT = "kept"
"""Folder of what is kept of each replicate, by its number (`cocal_study.evidence.kept`)."""
_CLOSE = 1e-6
"""Largest difference between a recomputed number and the gathered one that counts as rounding."""


def run_spread(options: argparse.Namespace) -> None:
    """Write mean, standard deviation and range of all numbers of tables and figures, and draw those of the main table.

    A replicate takes part if its required conditions lie within their bounds (`refusals`). Replicates are numbered as
    the folders that hold their results, or by position if these have other names. Raises ContractError if a replicate
    is not finished or belongs to another study than the first, or if fewer than two take part.
    """
    names = [folder.resolve().parent.name for folder in options.results]
    numbers = [*map(int, names)] if all(map(str.isdecimal, names)) else [*range(1, len(names) + 1)]
    folders = _told_apart(numbers, options.results, "tables/main.csv")
    gathered = _with_earlier(folders, options.output, refusals)
    makers = {number: maker_of(results) for number, results in folders.items()}
    if len(gathered.replicates) < 2:
        why = "; ".join(f"replicate {number}: {reasons[0]}" for number, reasons in gathered.refused.items())
        raise ContractError(
            "a spread needs two replicates at least that have the required conditions (tables/conditions), and there "
            f"are {len(gathered.replicates)}{why and f' ({why})'}"
        )
    admitted = {number: folder for number, folder in folders.items() if number in gathered.replicates}
    before = options.output if (options.output / GATHERED).exists() else None
    tables = spread(admitted, before, gathered.replicates.keys() - folders.keys())
    if "tables/main.csv" in tables:
        figure = options.output / "figures/replications.pdf"
        with paper_style():
            drawn = draw_replicates(tables["tables/main.csv"], MATHEMATICS)
            save_figure(drawn, figure, {"study": gathered.study or ""})
    _write(tables, gathered, options.output)
    for number, results in folders.items():
        whole = StudyDigests(study=gathered.study or "", made_by=makers[number], digests=digests_of(results))
        write_text(options.output / DIGESTS / f"{number}.json", whole.model_dump_json(indent=1) + "\n")
        if (file := results.parent / "study.yaml").is_file():
            keep(load_study(file), results.parent, options.output / _KEPT / f"{number}.zip")


def reanalyse(folders: Sequence[Path], study: Study, paper: Path, output: Path | None = None) -> None:
    """Recompute the numbers of gathered replicates from what is kept of them, compare them with the gathered tables,
    and print the verdict that follows. The folder `output` receives headlines.csv, the comparisons of the headlines in
    all replicates under the paper's sampling (`judged`), and refused.csv, the conditions that exclude replicates.
    Raises ContractError if a folder holds no kept replicate, or a number differs from the gathered one."""
    every: dict[int, pd.Series] = {}
    refused: dict[int, tuple[str, ...]] = {}
    for folder in folders:
        gathered = parse_settings(Gathered, str(folder / GATHERED))
        own = {number: _kept(folder / _KEPT / f"{number}.zip") for number in gathered.replicates}
        _compare(folder, own)
        if output:
            refused |= gathered.refused
            own |= {number: _kept(folder / _KEPT / f"{number}.zip") for number in gathered.refused}
        for number, values in own.items():
            every[number] = values.combine_first(every[number]) if number in every else values
    table = pd.concat(every, axis=1)
    if output:
        _keep_headlines(table.xs("own", level="sampling"), refused, output)
    table = table.drop(columns=[*refused]).rename(columns="replicate_{}".format).rename_axis(NUMBERS)
    of = {}
    for sampling, rows in table.groupby("sampling"):
        complete, rest = rows.droplevel("sampling").dropna(), rows.droplevel("sampling")
        of[sampling] = Sampled(Unread(), [complete, rest.dropna(axis=1, thresh=len(rest)).dropna()])
    temperature = study.second_sampling.temperature if study.second_sampling else None
    published = PublishedSource(read_published(paper))
    numbers = headline_rows(list(METHODS), published, of["own"], of.get("second"), temperature=temperature)
    if (told := numbers.dropna(subset=["value"])).empty:
        print("Fewer than three replicates have no say in a headline.")
    else:
        print("\n".join(lines(told, scale_of(study))))


def _keep_headlines(values: pd.DataFrame, refused: Mapping[int, Sequence[str]], output: Path) -> None:
    """Write headlines.csv and refused.csv into a folder that lists its files, so that it can be replaced."""
    reasons = [(number, reason) for number, of in sorted(refused.items()) for reason in of]
    with atomic_path(output) as folder:
        folder.mkdir()
        (folder / "headlines.csv").write_text(csv_text(judged(values.sort_index(axis=1), refused)))
        (folder / "refused.csv").write_text(csv_text(pd.DataFrame(reasons, columns=["replicate", "condition"])))
        label_folder(folder, provenance("reanalyse", {"replicates": sorted(values)}))


def _kept(path: Path) -> pd.Series:
    return recomputed(path).set_index(NUMBERS)["value"]


def _compare(folder: Path, kept: Mapping[int, pd.Series]) -> None:
    """Compare the kept numbers with the gathered main table. Raises ContractError if one differs beyond rounding."""
    table = read_numbers(folder / "tables/main.csv").set_index(["dataset", "method", "metric"])
    apart = {number: (table[f"replicate_{number}"] - values["own"]).abs().max() for number, values in kept.items()}
    if (most := max(apart.values())) > _CLOSE:
        number = max(apart, key=lambda replicate: apart[replicate])
        raise ContractError(f"{folder}: replicate {number} differs by {most:.4f} from tables/main.csv; gather it again")
    print(f"{folder}: {len(kept)} replicates, whose numbers are within {most:.4f} of tables/main.csv.")


def run_gather(options: argparse.Namespace) -> None:
    """Write the measured points of the given replicates, and of those that the output holds already. Raises ConfigError
    if a folder's name is not the number of a replicate, and ContractError if a replicate is not finished or belongs to
    another study, or if the replicates of the output have other conditions."""
    for folder in options.folders:
        if not folder.name.isdecimal():
            raise ConfigError(f"{folder}: the folder of a replicate is called by its number")
    numbers = [int(folder.name) for folder in options.folders]
    folders = _told_apart(numbers, options.folders, "base/results/metrics/*.nc")
    points = pd.concat([measured(options.regimes, number, path) for number, path in folders.items()], ignore_index=True)
    gathered = _with_earlier({number: path / "base/results" for number, path in folders.items()}, options.output)
    if (options.output / GATHERED).exists():
        points = together(points, read_numbers(options.output / "points.csv", dtype={"level": str}))
    _write({"points.csv": points}, gathered, options.output)


def _told_apart(numbers: Sequence[int], folders: Sequence[Path], pattern: str) -> dict[int, Path]:
    """Folders of replicates by their numbers. Raises ContractError if a folder is missing, or if two have one number,
    are one folder, or hold equal files of this pattern: counting a replicate twice would narrow intervals."""
    seen: dict[object, Path] = {}
    for number, folder in zip(numbers, folders, strict=True):
        if not folder.is_dir():
            raise ContractError(f"{folder}: there is no such folder; run the replicate first, or check the name")
        files = tuple(file.read_bytes() for file in sorted(folder.glob(pattern)))
        same = {number: "have the same number", folder.resolve(): "are one folder", files: "hold the same numbers"}
        for key, what in same.items():
            if key != () and seen.setdefault(key, folder) is not folder:
                raise ContractError(f"{seen[key]} and {folder} {what}; a replicate counts once: leave one out")
    return dict(zip(numbers, folders, strict=True))


def _with_earlier(
    folders: Mapping[int, Path], output: Path, refusing: Callable[[Path], tuple[str, ...]] = lambda results: ()
) -> Gathered:
    """The makers of the gathered replicates: of those in `folders` for which `refusing` gives no reasons, and of those
    that the output already holds and `folders` does not replace.

    The makers are determined before anything is written, because the gathered numbers may be tracked by git and would
    count as changes since the commit. Raises ContractError if the replicates are not all of one study.
    """
    studies = {results: owner_of(results) for results in folders.values()}
    (first, study), *_ = studies.items()
    before = Gathered(study=study, replicates={})
    if (file := output / GATHERED).exists():
        before = parse_settings(Gathered, str(file))
        studies[output] = before.study
    for results, owner in studies.items():
        if owner != study:
            raise ContractError(f"{results}: holds study {owner}, but {first} holds study {study}")
    makers = {number: maker for number, maker in before.replicates.items() if number not in folders}
    refused = {number: reasons for number, reasons in before.refused.items() if number not in folders}
    for number, results in folders.items():
        if reasons := refusing(results):
            refused[number] = reasons
            logging.warning("%s takes no part, by its conditions: %s", results, "; ".join(reasons))
        else:
            makers[number] = maker_of(results)
    return Gathered(study=study, replicates=dict(sorted(makers.items())), refused=refused)


def _write(tables: Mapping[str, pd.DataFrame], gathered: Gathered, output: Path) -> None:
    for name, table in tables.items():
        write_text(output / name, csv_text(table))
    write_text(output / GATHERED, gathered.model_dump_json(indent=1) + "\n")
    logging.info("%d table(s) of %d replicates gathered in %s", len(tables), len(gathered.replicates), output)
