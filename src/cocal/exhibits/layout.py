"""What a table or figure shows, and the words that say where its numbers come from."""

from typing import Annotated

from pydantic import AfterValidator, Field, RootModel, model_validator

from cocal.config.base import Count, Model, Name
from cocal.config.evaluation import QualitySettings
from cocal.config.methods import MethodName


class Groups(RootModel[dict[Name, Annotated[tuple[Name, ...], Field(min_length=1)]]]):
    """Macro averages: a name for each group of datasets."""

    root: dict[Name, Annotated[tuple[Name, ...], Field(min_length=1)]] = {}


class Labelled(Model):
    """A dataset or backbone and its name in print."""

    name: Name
    label: str


def _distinct(items: tuple[Labelled, ...]) -> tuple[Labelled, ...]:
    if len({item.name for item in items}) != len(items):
        raise ValueError("repeats a name")
    return items


def _rising(numbers: tuple[int, ...]) -> tuple[int, ...]:
    if list(numbers) != sorted(set(numbers)):
        raise ValueError(f"must rise, not {list(numbers)}")
    return numbers


Labels = Annotated[tuple[Labelled, ...], Field(min_length=1), AfterValidator(_distinct)]


class Origin(Model):
    """What every table and figure says of its numbers."""

    study: Name
    """Study that the numbers come from."""
    caption: str
    """The study's sentence for every caption: what was measured."""


class BackboneLayout(Origin):
    """What every table and figure of one backbone names."""

    backbone_label: str
    """Name of the backbone in print."""


class Layout(BackboneLayout):
    """What every table and figure that compares methods names."""

    methods: Annotated[tuple[MethodName, ...], Field(min_length=1)]
    """Methods, in order."""

    @model_validator(mode="after")
    def _distinct_methods(self) -> "Layout":
        if len(set(self.methods)) != len(self.methods):
            raise ValueError("methods repeats a name")
        return self


class DatasetsLayout(Layout):
    """Layout of what shows data sets side by side."""

    datasets: Labels
    """Evaluation sets, in order."""


class MainLayout(DatasetsLayout):
    """Layout of tables/main, at the last stage or an earlier one, and of tables/ood and tables/scale."""

    macro: Name
    """Group of datasets whose macro average is the last column block."""
    macro_label: str = "Macro Average"
    label: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")] = "main"
    """LaTeX label, after `tab:`."""
    highlight: MethodName | None = None
    """Method whose name is bold."""
    subject: str = "Accuracy and confidence quality"
    """First words of the caption, before `on five mathematical sets`."""
    sets: str = "mathematical set"
    """What the caption calls one of the data sets."""
    remark: str = ""
    """Sentence of the caption about this table alone."""
    quality: QualitySettings = QualitySettings()
    """Floors below which a value is marked."""


class AggregationBackbone(Labelled):
    """A backbone in tables/token_aggregation."""

    layer: Annotated[int, Field(ge=0)]
    """Zero-based index of its final block."""


class AggregationLayout(Origin):
    """Layout of tables/token_aggregation; one pair of columns a backbone."""

    backbones: Annotated[tuple[AggregationBackbone, ...], Field(min_length=1), AfterValidator(_distinct)]
    macro: Name
    """Group of datasets whose macro average is shown."""
    macro_label: str = "the mathematical evaluation sets"
    """Its datasets in print."""
    step: Count
    """Policy step shown."""


class PreGenerationLayout(BackboneLayout):
    """Layout of tables/pre_generation; one pair of columns a domain."""

    backbone: Name
    domains: Labels
    """Macro averages, in order."""
    step: Count
    """Policy step shown."""


class TimesLayout(BackboneLayout):
    """Layout of tables/time_to_confidence."""

    datasets: Labels
    """Evaluation sets, in order."""
    step: Count
    """Step of the policy that was timed."""


class CostLayout(BackboneLayout):
    """Layout of tables/cost."""

    generation_label: str
    """Name, in print, of the set whose questions were generated to time inference."""
    step: Count
    """Step of the policy that was timed."""


class ReliabilityLayout(DatasetsLayout):
    """Layout of figures/reliability and reliability_all; one row of panels a dataset, one column a method."""

    backbone: Name
    seed: int = 42
    """Companion seed that is drawn: averaged seeds would have no whole counts."""
    bins: Count = 10


class CurvesLayout(Layout):
    """Layout of the figures that show a macro average over training steps: training_dynamics, early_steps, budgets,
    composition, cross_iteration and cross_policy."""

    backbone: Name
    macro: Name
    """Group of datasets whose macro average is drawn."""
    macro_label: str = "macro average"
    """Its name in print."""
    steps: Annotated[tuple[Count, ...], Field(min_length=1), AfterValidator(_rising)]
    """Steps on the axes: the policy's stages, or the rollout steps that the companions learnt from."""


class LayeredBackbone(Labelled):
    """A backbone whose companions read one layer each."""

    layers: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1), AfterValidator(_rising)]
    """Zero-based block indices, rising; the last of them is the final block, which companions read by default."""


class LayersLayout(Origin):
    """Layout of figures/layers; one curve a backbone."""

    backbones: Annotated[tuple[LayeredBackbone, ...], Field(min_length=1, max_length=2), AfterValidator(_distinct)]
    method: MethodName = "cocal-binary"
    """Companion method."""
    macro: Name
    """Group of datasets whose macro average is drawn."""
    macro_label: str = "macro average"
    """Its name in print."""
    pooling: str = "last+mean"
    """Pooled states that the companions read."""
    step: Count
    """Policy step shown."""

    @property
    def backbone_label(self) -> str:
        """Names of the backbones in print."""
        return " and ".join(backbone.label for backbone in self.backbones)
