"""Exhibits as tests ask for them: by the study that declares them, and by their command."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from cocal.cli import main
from cocal_study.config.study import Study
from cocal_study.exhibits.base.exhibit import Exhibit, Layout
from cocal_study.exhibits.base.registry import exhibits_of

NOTHING: Mapping[str, int] = MappingProxyType({})


def exhibits_by_name(study: Study, wrong: Mapping[str, int] = NOTHING) -> dict[str, Exhibit]:
    """The exhibits of a study, by name; where a table and a figure share one, the figure by the name of its module."""
    found: dict[str, Exhibit] = {}
    for one in exhibits_of(study, wrong):
        found[one.module if one.name in found else one.name] = one
    return found


def exhibit_of(study: Study, name: str, wrong: Mapping[str, int] = NOTHING) -> Exhibit:
    """The exhibit of this name."""
    return exhibits_by_name(study, wrong)[name]


def make(name: str, output: Path, layout: Layout | None = None, **inputs: Path | Sequence[Path]) -> int:
    """The exit status of `cocal exhibit` with a layout and the files of each kind."""
    words = ["exhibit", name, "--output", str(output)]
    for kind, files in inputs.items():
        words += ["--input", kind, *map(str, [files] if isinstance(files, Path) else files)]
    return main(words if layout is None else [*words, "--layout", layout.model_dump_json()])


def made_twice(name: str, folder: Path, layout: Layout | None = None, **inputs: Path | Sequence[Path]) -> list[bytes]:
    """The contents of a figure's files: its PDF, PNG and, unless it is a diagram, CSV. They are made in two folders, a
    and b, and must have the same bytes in both."""
    written = []
    for copy in ("a", "b"):
        assert make(name, folder / copy / f"{name}.pdf", layout, **inputs) == 0
        suffixes = [".pdf", ".png"] if layout is None else [".pdf", ".png", ".csv"]
        files = [folder / copy / f"{name}{suffix}" for suffix in suffixes]
        assert sorted((folder / copy).iterdir()) == sorted(files)
        written.append([file.read_bytes() for file in files])
    assert written[0] == written[1]
    return written[0]
