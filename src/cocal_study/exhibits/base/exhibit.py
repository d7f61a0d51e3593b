"""Declaration of a table or figure, which the module that makes it yields for a study, and its layout.

Each module of `cocal_study.exhibits` has these names, which are explained here once:

- `of_study(study, wrong)` yields the exhibits that it makes for a study; `wrong` counts, by question set, the rows that
  are known to be wrong.
- `Layout` is a model of what is shown, which extends the one below. It travels on the command line.
- `prepare(layout, ...)` computes the tidy numbers, which are also the CSV. Its other arguments are what the files of
  its inputs hold; they have the names of the kinds in `cocal_study.exhibits.base.inputs.READERS`. Where one lacks what
  the layout shows, a `ContractError` names it.
- `grid(numbers, layout, ...)` sets a table (`cocal_study.exhibits.typesetting.grid.Grid`), from the same arguments as
  `prepare`.
- `draw(numbers, layout)` draws a figure.

A diagram shows no numbers: it has neither a layout nor `prepare`, and `draw` takes nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, signature
from posixpath import dirname
from types import ModuleType
from typing import Any, Literal, get_args

from cocal.settings.base import Count, Model, Name
from cocal_study.config.methods import MethodName
from cocal_study.config.study import Study
from cocal_study.planning.results import checks_file, figure_file, table_file


class Labelled(Model):
    """A data set or backbone and its name in print."""

    name: Name
    label: str


class Layout(Model):
    """Fields of every table and figure."""

    study: Name
    caption: str
    """The study's sentence for every caption: what was measured."""

    def facts(self) -> dict[str, str]:
        """Return what the metadata of a figure's files say of its numbers."""
        step = getattr(self, "step", None)
        facts = {"study": self.study, "measured": self.caption, "backbone": getattr(self, "backbone_label", "")}
        return facts if step is None else facts | {"step": str(step)}

    def measured(self) -> tuple[str, ...]:
        """Return the names of the backbones whose numbers are shown."""
        return ()


class BackboneLayout(Layout):
    """Fields of every table and figure of one backbone, with its name in print."""

    backbone: Name
    backbone_label: str

    def measured(self) -> tuple[str, ...]:
        return (self.backbone,)


class StepLayout(BackboneLayout):
    """Fields of every table of one backbone at one step of its policy."""

    step: Count


class MethodsLayout(BackboneLayout):
    """Fields of every table and figure that compares methods."""

    methods: tuple[MethodName, ...]


class ComparedLayout(MethodsLayout, StepLayout):
    """Fields of every table and figure that compares methods at one step."""


class CurvesLayout(MethodsLayout):
    """Layout of the figures that show the macro average of the mathematical sets over training steps."""

    steps: tuple[Count, ...]
    """Steps on the axes: the policy's stages, or the rollout steps that the companions learnt from."""
    step: Count | None = None
    """Step of the policy whose responses are scored, where it is one for all."""


class LayeredBackbone(Labelled):
    """A backbone whose companions read one layer each."""

    layers: tuple[int, ...]
    """Zero-based block indices in rising order; the last is the final block, which companions read by default."""


class BackbonesLayout(Layout):
    """Fields of every table and figure of the macro average of the mathematical sets, of several backbones at one step
    of their policies."""

    backbones: tuple[LayeredBackbone, ...]
    step: Count

    @property
    def backbone_label(self) -> str:
        """Names of the backbones in print."""
        return " and ".join(backbone.label for backbone in self.backbones)

    def measured(self) -> tuple[str, ...]:
        return tuple(backbone.name for backbone in self.backbones)


def macro_source(layout: Any) -> str:
    """Where the macro average of a layout comes from, for the small print."""
    policy = "" if layout.step is None else f"step-{layout.step} policy, "
    return f"{layout.study} study, {layout.backbone_label}, {policy}macro average"


def origin(study: Study) -> dict[str, str]:
    """The values of the fields that every layout has."""
    return {"study": study.study, "caption": study.caption}


def of_backbone(study: Study, backbone: str) -> dict[str, str]:
    """The values of the fields that every layout of one backbone has."""
    return {**origin(study), "backbone": backbone, "backbone_label": study.backbones[backbone].label}


def of_main(study: Study) -> dict[str, Any]:
    """The values of the fields that every layout of the main backbone at the end of training has."""
    return {**of_backbone(study, study.main_backbone), "step": study.policy.steps}


def of_backbones(study: Study, layers: Mapping[str, Iterable[int]]) -> BackbonesLayout:
    """The layout of several backbones at the end of training, by the layers of each."""
    backbones = [
        LayeredBackbone(name=name, label=study.backbones[name].label, layers=tuple(read))
        for name, read in layers.items()
    ]
    return BackbonesLayout(**origin(study), backbones=tuple(backbones), step=study.policy.steps)


def labelled(study: Study, names: Iterable[str]) -> tuple[Labelled, ...]:
    """Data sets with their names in print."""
    return tuple(Labelled(name=name, label=study.datasets[name].label) for name in names)


def curves(study: Study, methods: Iterable[str], steps: Iterable[int], step: int | None = None) -> CurvesLayout:
    """Curves of the main backbone over steps."""
    given = {"methods": tuple(methods), "steps": tuple(steps), "step": step}
    return CurvesLayout(**of_backbone(study, study.main_backbone), **given)


Chapter = Literal["Claims", "Main results", "Transfer", "Analysis", "Cost", "Study"]
CHAPTERS: tuple[Chapter, ...] = get_args(Chapter)
"""Chapters of the report, the most important first."""

OF_TABLES = ("replicates_main", "replicates_ood", "replicates_sampling", "central_main", "central_sampling")
OF_TABLES += ("language_model_main", "language_model_ood")
"""Kinds of input: the main table, the table of factual questions and that of both samplings, as gathered from
replicates and from a study of a language model."""
GATHERED = ("replicates", "central", "regimes", "experience", "fits", "prefixes", "language_model")
GATHERED += ("replicates_figure", *OF_TABLES)
"""The kinds of input that were gathered elsewhere, which a study may lack."""
OF_REPOSITORY = ("published", "ledger", *GATHERED)
"""The kinds of input that lie in the repository and are not products of the study."""
COMPANIONS = ("companions", "replayed")
"""The kinds of input that are folders of companions, one for each number of steps."""


@dataclass(frozen=True, kw_only=True)
class Exhibit(ABC):
    """One table or figure of a study, with its entry in the report."""

    title: str
    chapter: Chapter
    position: float
    """Its rank: the document of all tables and the chapters of the report are in this order."""
    caption: str
    """Its text in the report, in whole sentences."""
    layout: Layout | None = None
    """What it shows; None for a diagram, which shows no numbers."""
    inputs: Mapping[str, list[str] | tuple[str, ...]] = field(default_factory=dict)
    """The files that it reads, by kind (`cocal_study.exhibits.base.inputs`)."""
    name: str = ""
    """Its file name without the ending, which also names its rule; that of its module by default."""
    module: str = ""
    """The module of `cocal_study.exhibits` that makes it; the registry fills it in."""

    @property
    @abstractmethod
    def outputs(self) -> list[str]:
        """Its files; the first one is what its command is given."""

    @property
    def arguments(self) -> list[str]:
        """Arguments of `cocal exhibit`: the module, the inputs and the layout."""
        words = [self.module]
        for kind, files in self.inputs.items():
            words += ["--input", kind, *files]
        return words if self.layout is None else [*words, "--layout", self.layout.model_dump_json()]

    @property
    def waits_for(self) -> dict[str, Sequence[str]]:
        """The inputs of its rule, by kind, with the reports of the checks of the backbones that it shows. For
        companions of several steps, it names the folder that holds them, which is one output of their rule."""
        checks = [checks_file(name) for name in (self.layout.measured() if self.layout else ())]
        folders = {kind: list(dict.fromkeys(map(dirname, self.inputs.get(kind, ())))) for kind in COMPANIONS}
        added = folders | {"checks": checks}
        return {**self.inputs, **{kind: files for kind, files in added.items() if files}}


class TableExhibit(Exhibit):
    """An exhibit whose module has `prepare` and `grid`."""

    @property
    def outputs(self) -> list[str]:
        return [table_file(self.name, ending) for ending in ("tex", "html", "csv")]


class FigureExhibit(Exhibit):
    """An exhibit whose module has `draw`, and `prepare` unless it is a diagram."""

    @property
    def outputs(self) -> list[str]:
        return [figure_file(self.name, ending) for ending in ("pdf", "png", *(["csv"] if self.layout else []))]


def reads(module: ModuleType) -> list[Parameter]:
    """The inputs of an exhibit: the arguments of its `prepare`. A diagram has none."""
    return list(signature(module.prepare).parameters.values())[1:] if hasattr(module, "prepare") else []


def needed(module: ModuleType) -> list[str]:
    """The kinds of input without which there is no such exhibit."""
    return [parameter.name for parameter in reads(module) if parameter.default is Parameter.empty]
