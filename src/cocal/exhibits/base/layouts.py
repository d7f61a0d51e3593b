"""Layouts, which are the settings of what exhibits show: the parts that several of them share."""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, model_validator

from cocal.config.base import Count, Model, Name
from cocal.config.methods import MethodName
from cocal.config.study import Study

MATHEMATICS, FACTUAL = "macro-mathematics", "macro-factual"
"""Macro averages, as `cocal.study.plan.macro_averages` names them."""


class Labelled(Model):
    """A data set or backbone and its name in print."""

    name: Name
    label: str


def distinct(items: tuple[Labelled, ...]) -> tuple[Labelled, ...]:
    """The items, if no name is repeated."""
    if len({item.name for item in items}) != len(items):
        raise ValueError("repeats a name")
    return items


def rising(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers, if each is greater than the one before."""
    if list(numbers) != sorted(set(numbers)):
        raise ValueError(f"must rise, not {list(numbers)}")
    return numbers


Labels = Annotated[tuple[Labelled, ...], Field(min_length=1), AfterValidator(distinct)]
Layers = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1), AfterValidator(rising)]
Names = Annotated[tuple[Name, ...], Field(min_length=1)]
Step = Annotated[int, Field(ge=0)]
Steps = Annotated[tuple[Count, ...], Field(min_length=1), AfterValidator(rising)]


class Layout(Model):
    """Fields of every table and figure."""

    called: ClassVar[str] = "layout"
    """Name of its digest in the line that says what a table was made of."""
    apart: ClassVar[tuple[str, ...]] = ()
    """Fields that stand beside the others in what its digest is computed from."""

    study: Name
    """Study that the numbers come from."""
    caption: str
    """The study's sentence for every caption: what was measured."""

    def identity(self) -> Any:
        """Return what the digest of the layout is computed from."""
        if not self.apart:
            return self
        beside = {name: value for name in self.apart if (value := getattr(self, name)) is not None}
        return {"layout": self.model_dump(mode="json", exclude=set(self.apart)), **beside}

    def facts(self) -> dict[str, str]:
        """Return what the metadata of a figure's files say of its numbers."""
        step = getattr(self, "step", None)
        facts = {"study": self.study, "measured": self.caption, "backbone": self.backbone_label}
        return facts if step is None else facts | {"step": str(step)}

    def measured(self) -> tuple[str, ...]:
        """Return the names of the backbones whose numbers are shown."""
        return ()


class BackboneLayout(Layout):
    """Fields of every table and figure of one backbone."""

    backbone: Name
    """Backbone whose numbers are shown."""
    backbone_label: str
    """Its name in print."""

    def measured(self) -> tuple[str, ...]:
        return (self.backbone,)


class MethodsLayout(BackboneLayout):
    """Fields of every table and figure that compares methods."""

    methods: Annotated[tuple[MethodName, ...], Field(min_length=1)]
    """Methods, in order."""

    @model_validator(mode="after")
    def _distinct_methods(self) -> "MethodsLayout":
        if len(set(self.methods)) != len(self.methods):
            raise ValueError("methods repeats a name")
        return self


class CurvesLayout(MethodsLayout):
    """Layout of the figures that show a macro average over training steps."""

    apart: ClassVar[tuple[str, ...]] = ("step",)

    macro: Name = MATHEMATICS
    """Group of data sets whose macro average is drawn."""
    macro_label: str = "macro average"
    """Its name in print."""
    steps: Steps
    """Steps on the axes: the policy's stages, or the rollout steps that the companions learnt from."""
    step: Count | None = None
    """Step of the policy whose responses are scored, where it is one for all."""

    @property
    def source(self) -> str:
        """Where the numbers come from, for the small print."""
        return macro_source(self)


def macro_source(layout: Layout) -> str:
    """Where a macro average comes from, for the small print."""
    policy = "" if layout.step is None else f"step-{layout.step} policy, "
    return f"{layout.study} study, {layout.backbone_label}, {policy}{layout.macro_label}"


def origin(study: Study) -> dict[str, str]:
    """The fields of every layout."""
    return {"study": study.study, "caption": study.caption}


def of_backbone(study: Study, backbone: str) -> dict[str, str]:
    """The fields of every layout of one backbone."""
    return {**origin(study), "backbone": backbone, "backbone_label": study.backbones[backbone].label}


def of_main(study: Study) -> dict[str, Any]:
    """The fields of every layout of the main backbone at the end of training."""
    return {**of_backbone(study, study.main_backbone), "step": study.policy.steps}


def labelled(study: Study, names: Iterable[str]) -> tuple[Labelled, ...]:
    """Data sets with their names in print."""
    return tuple(Labelled(name=name, label=study.datasets[name].label) for name in names)


def curves(study: Study, methods: Iterable[str], steps: Iterable[int], step: int | None = None) -> CurvesLayout:
    """Curves of the main backbone over steps."""
    given = {"methods": tuple(methods), "steps": tuple(steps), "step": step}
    return CurvesLayout(**of_backbone(study, study.main_backbone), **given)
