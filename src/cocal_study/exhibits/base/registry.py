"""The exhibits that there are. Every module of `cocal_study.exhibits` is one; nothing else has to be told of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from cocal_study.config.methods import declarations
from cocal_study.config.study import Study
from cocal_study.exhibits import MODULES
from cocal_study.exhibits.base.exhibit import CHAPTERS, GATHERED, OF_REPOSITORY, Exhibit, TableExhibit, needed
from cocal_study.provenance.code import code_digest


def module_of(name: str) -> ModuleType:
    """The module of this name."""
    return import_module(f"cocal_study.exhibits.{name}")


def exhibits_of(study: Study, wrong: Mapping[str, int], repository: str = "") -> list[Exhibit]:
    """The tables and figures of a study, as its file has it, in their order.

    Args:
        wrong: By question set, how many of its rows are known to be wrong
            (`cocal_study.questions.registry.known_wrong`).
        repository: Path from the folder of the results to the repository, which holds the paper's numbers. Exhibits of
            numbers gathered elsewhere are left out if it does not hold these.
    """
    exhibits = []
    for name in MODULES:
        module = module_of(name)
        for exhibit in module.of_study(study, wrong):
            inputs = dict(exhibit.inputs)
            for kind in {*OF_REPOSITORY} & {*inputs}:
                inputs[kind] = [str(Path(repository, file)) for file in inputs[kind]]
                if kind in GATHERED and not all(Path(file).is_file() for file in inputs[kind]):
                    del inputs[kind]
            if {*needed(module)} & {*GATHERED} <= {*inputs}:
                exhibits.append(replace(exhibit, module=name, name=exhibit.name or name, inputs=inputs))
    return sorted(exhibits, key=attrgetter("position"))


def report_entry(exhibit: Exhibit, shown: Sequence[Exhibit]) -> tuple[str, dict[str, str]]:
    """Category and labels of an exhibit in the report; `shown` are all exhibits in their order.

    The report sorts chapters and entries by their text, so both begin with a number. There is only one label: the
    report would turn a second one that halves a chapter into a switch that hides one half.
    """
    chapter = CHAPTERS.index(exhibit.chapter) + 1
    beside = [candidate for candidate in shown if candidate.chapter == exhibit.chapter]
    entry = f"{chapter}.{beside.index(exhibit) + 1:0{len(str(len(beside)))}d} {exhibit.title}"
    return f"{chapter} {exhibit.chapter}", {"table or figure": entry}


def exhibit_parameters(exhibit: Exhibit) -> dict[str, Any]:
    """Everything except files that an exhibit depends on: its arguments, its caption, and the digest of the code that
    makes it, with the declarations of the methods that it names and colours."""
    write = "write_table" if isinstance(exhibit, TableExhibit) else "write_figure"
    shared = (f"cocal_study.exhibits.base.output:{write}", "cocal_study.exhibits.base.inputs:read_inputs")
    methods = getattr(exhibit.layout, "methods", ())
    code = code_digest(*shared, f"cocal_study.exhibits.{exhibit.module}", *declarations(methods))
    return {"arguments": exhibit.arguments, "caption": exhibit.caption, "code": code}
