"""The declaration of a table or figure, which the module that makes it yields for a study.

Each module of `cocal.exhibits` has these names, which are explained here once:

- `of_study(study, wrong)` yields the exhibits that it makes for a study; `wrong` counts, by question set, the rows that
  are known to be wrong.
- `Layout` is a model of what is shown, a `cocal.exhibits.base.layouts.Layout`. It travels on the command line.
- `prepare(layout, ...)` computes the tidy numbers, which are also the CSV. Its other arguments are what the files of
  its inputs hold; they have the names of the kinds in `cocal.exhibits.base.inputs.READERS`.
- `grid(numbers, layout, ...)` sets a table (`cocal.exhibits.typesetting.grid.Grid`). It is given all that `prepare` is.
- `draw(numbers, layout)` draws a figure.

A diagram shows no numbers: it has neither a layout nor `prepare`, and `draw` takes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from cocal.exhibits.base.layouts import Layout
from cocal.study.results import checks_file

Chapter = Literal["Claims", "Main results", "Transfer", "Analysis", "Cost", "Study"]
CHAPTERS: tuple[Chapter, ...] = get_args(Chapter)
"""Chapters of the report, the most important first."""

Files = str | Sequence[str]
"""One file, or several of one kind."""


PUBLISHED, LEDGER, REPLICATES = "published", "ledger", "replicates"
"""The kinds of input that are no products of the study but lie in the repository: the folder of the paper's numbers,
the ledger of its claims, and what replicates of the study have found."""
OF_REPOSITORY = (PUBLISHED, LEDGER, REPLICATES)
"""These kinds. A study whose replicates have not been gathered goes without them."""


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One table or figure of a study.

    Attributes:
        title: Its entry in the report, in a few words.
        chapter: Its chapter in the report.
        position: Its rank: the document of all tables and the chapters of the report are in this order.
        caption: Its text in the report, in whole sentences.
        layout: What it shows; None for a diagram, which shows no numbers.
        inputs: The files that it reads, by kind (`cocal.exhibits.base.inputs`).
        products: The outputs of other rules that hold these files, where they are folders; the files themselves
            by default.
        name: Its file name without the ending, which also names its rule; that of its module by default.
        module: The module of `cocal.exhibits` that makes it; the registry fills it in.
    """

    title: str
    chapter: Chapter
    position: float
    caption: str
    layout: Layout | None = None
    inputs: Mapping[str, Files] = field(default_factory=dict)
    products: Mapping[str, Files] = field(default_factory=dict)
    name: str = ""
    module: str = ""

    @property
    def arguments(self) -> list[str]:
        """Arguments of `cocal exhibit`: the module, the inputs and the layout."""
        words = [self.module]
        for kind, files in self.inputs.items():
            words += ["--input", f"{kind}={files}"] if isinstance(files, str) else ["--inputs", kind, *files]
        return words if self.layout is None else [*words, "--layout", self.layout.model_dump_json()]

    @property
    def backbones(self) -> tuple[str, ...]:
        """The backbones whose numbers it shows. It is made after their checks have passed."""
        return self.layout.measured() if self.layout else ()

    @property
    def waits_for(self) -> dict[str, Files]:
        """The inputs of its rule, by kind, with the reports of the checks."""
        checks = {"checks": [checks_file(name) for name in self.backbones]} if self.backbones else {}
        return {**self.inputs, **self.products, **checks}


class TableExhibit(Exhibit):
    """An exhibit whose module has `prepare` and `grid`."""


class FigureExhibit(Exhibit):
    """An exhibit whose module has `draw`, and `prepare` unless it is a diagram."""
