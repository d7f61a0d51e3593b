"""Reliability diagrams on all mathematical sets (appendix C.3)."""

from collections.abc import Iterator, Mapping

from cocal_study.config.study import Study
from cocal_study.exhibits import reliability
from cocal_study.exhibits.base.exhibit import FigureExhibit

Layout, prepare, draw = reliability.Layout, reliability.prepare, reliability.draw


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    """The figure of all mathematical sets."""
    yield from reliability.reliability_of(
        study,
        study.evaluation_sets("mathematics"),
        title="Reliability diagrams, all sets",
        position=12,
        caption="Reliability diagrams and counts on all mathematical sets (appendix C.3), drawn in the same way as "
        "those of the one set.",
    )
