"""What a table or figure shows, and the words that say where its numbers come from."""

from typing import Annotated

from pydantic import Field, RootModel, model_validator

from cocal.config.base import Count, Model, Name
from cocal.config.protocol import Method


class Groups(RootModel[dict[Name, Annotated[tuple[Name, ...], Field(min_length=1)]]]):
    """Macro averages: a name for each group of datasets."""

    root: dict[Name, Annotated[tuple[Name, ...], Field(min_length=1)]] = {}


class Labelled(Model):
    """A dataset and its name in print."""

    name: Name
    label: str


class Layout(Model):
    """What every table and figure names."""

    study: Name
    """Study that the numbers come from."""
    caption: str
    """The study's sentence for every caption: what was measured."""
    backbone_label: str
    """Name of the backbone in print."""
    methods: Annotated[tuple[Method, ...], Field(min_length=1)]
    """Methods, in order."""

    @model_validator(mode="after")
    def _distinct_methods(self) -> "Layout":
        if len(set(self.methods)) != len(self.methods):
            raise ValueError("methods repeats a name")
        return self


class DatasetsLayout(Layout):
    """Layout of what shows data sets side by side."""

    datasets: Annotated[tuple[Labelled, ...], Field(min_length=1)]
    """Evaluation sets, in order."""

    @model_validator(mode="after")
    def _distinct_datasets(self) -> "DatasetsLayout":
        if len({dataset.name for dataset in self.datasets}) != len(self.datasets):
            raise ValueError("datasets repeats a name")
        return self


class MainLayout(DatasetsLayout):
    """Layout of tables/main, at the last stage or an earlier one."""

    macro: Name
    """Group of datasets whose macro average is the last column block."""
    macro_label: str = "Macro Average"
    label: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")] = "main"
    """LaTeX label, after `tab:`."""


class ReliabilityLayout(DatasetsLayout):
    """Layout of figures/reliability and reliability_all; one row of panels a dataset, one column a method."""

    backbone: Name
    seed: int = 42
    """Companion seed that is drawn: averaged seeds would have no whole counts."""
    bins: Count = 10


class CurvesLayout(Layout):
    """Layout of the figures that follow a macro average over training steps: training_dynamics, early_steps, budgets
    and composition."""

    backbone: Name
    macro: Name
    """Group of datasets whose macro average is drawn."""
    macro_label: str = "macro average"
    """Its name in print."""
    steps: Annotated[tuple[Count, ...], Field(min_length=1)]
    """Steps on the horizontal axis: the policy's stages, or the rollout steps that the companions learnt from."""

    @model_validator(mode="after")
    def _rising(self) -> "CurvesLayout":
        if list(self.steps) != sorted(set(self.steps)):
            raise ValueError(f"steps must rise, not {list(self.steps)}")
        return self
