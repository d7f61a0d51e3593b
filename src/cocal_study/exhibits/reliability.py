"""Reliability diagrams with confidence histograms on one set (figure 3)."""

from collections.abc import Iterator, Mapping

from cocal_study.config.study import Study
from cocal_study.exhibits.base.exhibit import FigureExhibit
from cocal_study.exhibits.drawing import reliability

Layout, prepare, draw = reliability.ReliabilityLayout, reliability.prepare, reliability.draw


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    """The figure of `reports.reliability_dataset`."""
    dataset = study.reports.reliability_dataset
    yield from reliability.reliability_of(
        study,
        [dataset],
        title=f"Reliability diagrams, {study.datasets[dataset].label}",
        position=11,
        caption="Reliability diagrams and counts on one set (the paper's figure 3). A bar is the gap "
        "of its bin, from the mean confidence of the responses to their accuracy, which a cap marks; a calibrated "
        "method has caps on the diagonal and no bars. Hatched bars hang below the diagonal, where confidence is "
        "too high; the others stand above it, where it is too low. Pale bins hold too few responses to tell "
        "anything; empty bins are left blank. Companions are drawn with one seed, so that counts are whole. The ECE "
        "and AUROC in brackets are the means over all seeds, as in the main table.",
    )
