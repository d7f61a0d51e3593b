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
    datasets: Annotated[tuple[Labelled, ...], Field(min_length=1)]
    """Evaluation sets, in order."""
    methods: Annotated[tuple[Method, ...], Field(min_length=1)]
    """Methods, in order."""

    @model_validator(mode="after")
    def _distinct(self) -> "Layout":
        for key, names in (("datasets", [d.name for d in self.datasets]), ("methods", self.methods)):
            if len(set(names)) != len(names):
                raise ValueError(f"{key} repeats a name")
        return self


class MainLayout(Layout):
    """Layout of tables/main."""

    macro: Name
    """Group of datasets whose macro average is the last column block."""
    macro_label: str = "Macro Average"


class ReliabilityLayout(Layout):
    """Layout of figures/reliability; one row of panels a dataset, one column a method."""

    backbone: Name
    seed: int = 42
    """Companion seed that is drawn: averaged seeds would have no whole counts."""
    bins: Count = 10
