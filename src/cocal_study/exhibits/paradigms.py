"""Post-hoc calibration, coupled concurrent training and CoCal side by side (fig:paradigm_shift)."""

from collections.abc import Iterator, Mapping

from cocal.drawing.style import INK, Figure
from cocal_study.config.study import Study
from cocal_study.exhibits.base.exhibit import FigureExhibit
from cocal_study.exhibits.drawing.diagrams import SMALL, TASK, Page, Rect
from cocal_study.methods import cocal, postcal, rlcr

_POSTCAL = postcal.BINARY.colour
_COUPLED = rlcr.METHOD.colour
_COCAL = cocal.BINARY.colour

_HEIGHT = 2.86
_LEFT, _PANEL, _BETWEEN = 0.25, 1.64, 0.15
_COLUMN = 0.75
"""Width of the left and the right column of a panel."""
_TIME, _EXPERIENCE, _SIGNAL, _LEARNER, _OUTPUT, _VERDICT = 2.36, 1.72, 1.42, 0.78, 0.53, 0.29
"""Heights of the rows in all panels: the middle of signals and of lines of text, and the bottom of everything else."""

_MIXED, _LATE = (False, False, True, False, True, True, True), (True, True, False)
"""Correctness of the responses drawn: errors become scarce as training goes on."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    yield FigureExhibit(
        title="Diagram: three paradigms",
        chapter="Study",
        position=42,
        caption="Three ways to learn confidence: post-hoc calibration, coupled concurrent training, and CoCal. The "
        "diagram shows what learns from what, and when.",
    )


def draw() -> Figure:
    """Draw three panels that show the experience, what learns from it, by which signals, and with what output."""
    page = Page(_HEIGHT)
    for name, y in (("Experience", _EXPERIENCE + 0.28), ("Learning", (_SIGNAL + _LEARNER) / 2 + 0.12)):
        page.label(0.1, y, name, rotation=90, va="center", fontweight="bold")
    for place, draw in enumerate((_post_hoc, _coupled, _cocal)):
        left = _LEFT + place * (_PANEL + _BETWEEN)
        draw(page, left)
        if place:
            page.line((left - _BETWEEN / 2, 0.06), (left - _BETWEEN / 2, _HEIGHT - 0.04), TASK, linewidth=0.4)
    return page.figure


def _post_hoc(page: Page, left: float) -> None:
    first, second = _columns(left)
    _title(page, left, "(a) Post-hoc calibration", "confidence is learnt afterwards")
    page.pennant(_row(first, _TIME, 0.16), "during RLVR")
    page.pennant(_row(second, _TIME, 0.16), "after RLVR", colour=_POSTCAL)
    _experience(page, first, "RLVR rollouts", _MIXED[1:4])
    _experience(page, second, "New responses", _LATE, _POSTCAL)
    _task_learning(page, first)
    _confidence_learning(page, second, "Predictor $g_\\phi$", _POSTCAL)
    gap, low, high = (first.right + second.left) / 2, _LEARNER + 0.18, _EXPERIENCE + 0.2
    page.arrow((first.right, low), (gap, low), (gap, high), (second.left, high), colour=_POSTCAL)
    _verdicts(page, left, (False, "extra sampling, last policy only"), (True, "separate learning"))


def _coupled(page: Page, left: float) -> None:
    whole = Rect(left, 0, _PANEL, 0)
    _title(page, left, "(b) Coupled concurrent training", "one policy learns both by RL")
    page.pennant(_row(whole, _TIME, 0.16), "during RLVR: RLCR, DCPO")
    _experience(page, whole, "RLVR rollouts, confidence included", _MIXED)
    _sampling(page, whole)
    for x, name, colour in ((0.63, "task\nreward", TASK), (1.24, "calibration\nreward", _COUPLED)):
        _signal(page, left + x, name, colour)
    learner = _row(whole, _LEARNER, 0.36)
    page.box(learner, "Policy $\\pi_\\theta$\nshared parameters $\\theta$", stripes=_COUPLED)
    page.bolt(left + 0.9, learner.top + 0.04, _COUPLED)
    _output(page, left + 0.36, "answer")
    _output(page, left + 1.24, "stated confidence $c$", _COUPLED)
    _verdicts(page, left, (True, "shared experience of all steps"), (False, "coupled learning: risk of interference"))


def _cocal(page: Page, left: float) -> None:
    whole = Rect(left, 0, _PANEL, 0)
    first, second = _columns(left)
    _title(page, left, "(c) CoCal", "shared experience, separate learning")
    page.pennant(_row(whole, _TIME, 0.16), "during RLVR")
    _experience(page, whole, "RLVR rollouts", _MIXED)
    _task_learning(page, first)
    _confidence_learning(page, second, "Companion $g_\\phi$", _COCAL)
    _verdicts(page, left, (True, "shared experience of all steps"), (True, "separate learning"))


def _columns(left: float) -> tuple[Rect, Rect]:
    return Rect(left, 0, _COLUMN, 0), Rect(left + _PANEL - _COLUMN, 0, _COLUMN, 0)


def _row(column: Rect, bottom: float, height: float) -> Rect:
    return column._replace(bottom=bottom, height=height)


def _title(page: Page, left: float, title: str, subtitle: str) -> None:
    page.label(left + _PANEL / 2, _HEIGHT - 0.1, title, fontsize=8, fontweight="bold")
    page.label(left + _PANEL / 2, _HEIGHT - 0.235, subtitle, fontstyle="italic")


def _experience(page: Page, column: Rect, name: str, marks: tuple[bool, ...], colour: str = TASK) -> None:
    frame = _row(column, _EXPERIENCE, 0.56)
    page.box(frame, colour=colour)
    page.label(frame.x, frame.top - 0.11, name)
    width, pitch = 0.16, 0.21
    for place, good in enumerate(marks):
        x = frame.x + pitch * (place - (len(marks) - 1) / 2) - width / 2
        page.sheet(Rect(x, frame.bottom + 0.07, width, 0.28), colour, good=good)


def _task_learning(page: Page, column: Rect) -> None:
    _sampling(page, column)
    _signal(page, column.right - 0.16, "RL", TASK)
    page.box(_row(column, _LEARNER, 0.36), "Policy $\\pi_\\theta$")
    _output(page, column.x, "answer")


def _confidence_learning(page: Page, column: Rect, name: str, colour: str) -> None:
    _signal(page, column.x, "direct\nsupervision", colour)
    learner = _row(column, _LEARNER, 0.36)
    page.box(learner, colour=colour)
    page.label(learner.x, learner.top - 0.095, name)
    page.network(Rect(learner.x - 0.2, learner.bottom + 0.035, 0.4, 0.155), colour)
    _output(page, column.x, "confidence $c$", colour)


def _sampling(page: Page, column: Rect) -> None:
    x = column.left + 0.08
    page.arrow((x, _LEARNER + 0.36), (x, _EXPERIENCE))
    page.label(x + 0.04, _SIGNAL, "sample", ha="left", fontsize=SMALL)


def _signal(page: Page, x: float, name: str, colour: str) -> None:
    page.arrow((x, _EXPERIENCE), (x, _LEARNER + 0.37), colour=colour, heavy=True)
    width = 0.042 * max(map(len, name.split("\n"))) + 0.1
    page.box(Rect(x - width / 2, _SIGNAL - 0.12, width, 0.24), name, colour=colour, fill="white", fontsize=SMALL)


def _output(page: Page, x: float, name: str, colour: str = INK) -> None:
    page.arrow((x, _LEARNER), (x, _OUTPUT + 0.08), colour=colour)
    page.label(x, _OUTPUT, name)


def _verdicts(page: Page, left: float, *verdicts: tuple[bool, str]) -> None:
    for place, (good, text) in enumerate(verdicts):
        y = _VERDICT - 0.15 * place
        page.sign(left + 0.05, y, good)
        page.label(left + 0.15, y, text, ha="left", fontsize=SMALL)
