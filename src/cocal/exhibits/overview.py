"""Diagram of how CoCal learns and is used (fig:cocal_overview)."""

from collections.abc import Iterator, Mapping

from cocal.config.study import Study
from cocal.exhibits.base.exhibit import Axes, Figure, FigureExhibit
from cocal.exhibits.drawing.diagrams import (
    SMALL,
    TASK,
    Rect,
    arrow,
    barred,
    box,
    gauge,
    label,
    line,
    mark,
    network,
    page,
    region,
    sheet,
)
from cocal.exhibits.drawing.style import TEXT_WIDTH
from cocal.methods import cocal_binary

_COCAL = cocal_binary.METHOD.colour

_HEIGHT = 3.6
_WIDTH = TEXT_WIDTH - 0.1
_TASK = Rect(0.05, 3.07, _WIDTH, 0.48)
_SHARED = Rect(0.05, 2.17, _WIDTH, 0.82)
_CONFIDENCE = Rect(0.05, 0.81, _WIDTH, 1.12)
_REPLAY = Rect(0.05, 0.05, 2.98, 0.68)
_INFERENCE = Rect(_REPLAY.right + 0.08, 0.05, _WIDTH - _REPLAY.width - 0.08, 0.68)

_FLOW = _SHARED.bottom + 0.34
"""Height of the row in which questions become responses, which are verified."""
_POLICY = Rect(1.0, _FLOW - 0.2, 0.68, 0.4)
_ROLLOUTS = Rect(1.94, _FLOW - 0.27, 0.98, 0.54)
_VERIFIER = Rect(3.28, _FLOW - 0.2, 0.7, 0.4)
_CORRECT = Rect(4.42, _FLOW - 0.27, 0.94, 0.54)

_LEARN = _CONFIDENCE.bottom + 0.64
"""Height of the row in which states become a confidence, which is compared with its target."""
_STATES = Rect(1.06, _LEARN + 0.02, 1.2, 0.32)
_COMPANION = Rect(2.84, _LEARN - 0.36, 0.86, 0.72)
_TARGET = Rect(_CORRECT.left, _LEARN - 0.36, _CORRECT.width, 0.72)


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    """The diagram, which is the same for every study."""
    yield FigureExhibit(
        title="Diagram: how CoCal works",
        chapter="Study",
        position=41,
        caption="How CoCal works: the policy learns its task from the rollouts by reinforcement learning; the "
        "companion learns confidence from the hidden states and verdicts of the same rollouts by direct "
        "supervision, with parameters of its own.",
    )


def draw() -> Figure:
    """Draw one step of training; below it, the sequence of steps and how a response gets its confidence."""
    figure, ax = page(_HEIGHT)
    _experience(ax)
    _task_learning(ax)
    _confidence_learning(ax)
    _replay(ax)
    _inference(ax)
    return figure


def _band(ax: Axes, band: Rect, name: str, colour: str = TASK) -> None:
    region(ax, band, colour)
    label(ax, band.left + 0.05, band.y, name, rotation=90, ha="left", va="center", fontweight="bold", linespacing=0.95)


def _experience(ax: Axes) -> None:
    _band(ax, _SHARED, "Shared\nexperience")
    sheet(ax, Rect(0.52, _FLOW - 0.14, 0.19, 0.28), behind=2)
    label(ax, 0.66, _SHARED.top - 0.14, "$B$ questions $x_i$", fontsize=SMALL)
    box(ax, _POLICY, "Policy $\\pi_t$\nparameters $\\theta$")
    box(ax, _ROLLOUTS, fill="white")
    for place in range(3):
        sheet(ax, Rect(_ROLLOUTS.x + 0.27 * (place - 1) - 0.11, _ROLLOUTS.top - 0.34, 0.18, 0.24), behind=1)
    label(ax, _ROLLOUTS.x, _ROLLOUTS.bottom + 0.1, "$K$ rollouts $r_{i,j}$ each", fontsize=SMALL)
    box(ax, _VERIFIER, "Verifier $V$")
    box(ax, _CORRECT, fill="white")
    for place, good in enumerate((True, False, True, True)):
        mark(ax, _CORRECT.x + 0.2 * (place - 1.5), _CORRECT.top - 0.1, good, 0.08)
    label(ax, _CORRECT.x, _CORRECT.y - 0.02, "correct: $y_{i,j}\\in\\{0,1\\}$", fontsize=SMALL)
    label(ax, _CORRECT.x, _CORRECT.bottom + 0.1, "group accuracy $\\bar y_i$", fontsize=SMALL)
    stations = (0.83, _POLICY.left), (_POLICY.right, _ROLLOUTS.left), (_ROLLOUTS.right, _VERIFIER.left)
    for start, end in (*stations, (_VERIFIER.right, _CORRECT.left)):
        arrow(ax, (start, _FLOW), (end, _FLOW))


def _task_learning(ax: Axes) -> None:
    _band(ax, _TASK, "Task\nlearning")
    y = _TASK.y
    advantages, update = Rect(3.28, y - 0.17, 1.2, 0.34), Rect(_ROLLOUTS.left, y - 0.17, _ROLLOUTS.width, 0.34)
    box(ax, advantages, "group advantages\n$A_{i,j}=(y_{i,j}-\\bar y_i)/\\sigma_i$", fontsize=SMALL)
    box(ax, update, "RL (GRPO): clipped\npolicy gradient", fontsize=SMALL)
    arrow(ax, (_CORRECT.x, _CORRECT.top), (_CORRECT.x, y), (advantages.right, y))
    arrow(ax, (advantages.left, y), (update.right, y))
    arrow(ax, (update.left, y), (_POLICY.x, y), (_POLICY.x, _POLICY.top + 0.01), colour=TASK, heavy=True)
    label(ax, _POLICY.x - 0.07, y, "updates $\\theta$\n$\\pi_t\\to\\pi_{t+1}$", ha="right", fontsize=SMALL)


def _confidence_learning(ax: Axes) -> None:
    _band(ax, _CONFIDENCE, "Confidence\nlearning", _COCAL)
    _states(ax)
    _companion(ax)
    _target(ax)
    _barrier(ax)
    loss = Rect((_COMPANION.right + _TARGET.left) / 2 - 0.1, _LEARN - 0.12, 0.28, 0.24)
    arrow(ax, (_COMPANION.right, _LEARN), (loss.left, _LEARN))
    label(ax, (_COMPANION.right + loss.left) / 2, _LEARN + 0.1, "$c_{i,j}$", fontsize=SMALL)
    arrow(ax, (_TARGET.left, _LEARN), (loss.right, _LEARN))
    box(ax, loss, "MSE", colour=_COCAL, fill="white", fontsize=SMALL)
    low = _CONFIDENCE.bottom + 0.12
    corners = (loss.x, loss.bottom), (loss.x, low), (_COMPANION.x, low), (_COMPANION.x, _COMPANION.bottom - 0.01)
    arrow(ax, *corners, colour=_COCAL, heavy=True)
    label(ax, loss.x + 0.08, low, "direct supervision", ha="left", fontsize=SMALL)
    label(ax, _COMPANION.x - 0.07, low, "updates $\\phi_t\\to\\phi_{t+1}$", ha="right", fontsize=SMALL)


def _states(ax: Axes) -> None:
    """Draw how the hidden states of a response's tokens become the vector that stands for it."""
    box(ax, _STATES, fill="white")
    label(ax, 0.7, _STATES.y, "hidden states,\nfinal layer", fontsize=SMALL)
    cells = [Rect(_STATES.left + 0.06 + 0.28 * place, _STATES.y - 0.11, 0.24, 0.22) for place in range(4)]
    for cell, name in zip(cells, ("$h_1$", "$h_2$", "…", "$h_L$"), strict=True):
        box(ax, cell, name, colour=_COCAL if cell == cells[-1] else TASK)
    mean = Rect(_STATES.x - 0.12, _LEARN - 0.31, 0.24, 0.22)
    arrow(ax, (mean.x, _STATES.bottom), (mean.x, mean.top))
    box(ax, mean, "$\\bar h$", colour=_COCAL)
    label(ax, mean.left - 0.06, mean.y, "mean", ha="right", fontsize=SMALL)
    vector = Rect(2.41, _LEARN - 0.34, 0.3, 0.68)
    box(ax, vector, fill="white")
    for part, name in ((cells[-1], "$h_L$"), (mean, "$\\bar h$")):
        box(ax, part._replace(left=vector.left + 0.03), name, colour=_COCAL)
        arrow(ax, (part.right, part.y), (vector.left, part.y))
    label(ax, vector.x, (cells[-1].bottom + mean.top) / 2, "$\\Vert$")
    label(ax, vector.x - 0.02, vector.top + 0.08, "$z_{i,j}$: last $\\Vert$ mean", fontsize=SMALL)
    arrow(ax, (vector.right, _LEARN), (_COMPANION.left, _LEARN))


def _companion(ax: Axes) -> None:
    frame = _COMPANION
    box(ax, frame, colour=_COCAL)
    label(ax, frame.x, frame.top - 0.1, "Companion $g_\\phi$")
    network(ax, Rect(frame.x - 0.25, frame.y - 0.06, 0.5, 0.2), _COCAL)
    label(ax, frame.x, frame.bottom + 0.16, "MLP: LayerNorm,\nGELU; sigmoid", fontsize=SMALL)


def _target(ax: Axes) -> None:
    box(ax, _TARGET)
    label(ax, _TARGET.x, _TARGET.top - 0.11, "Target $y^{\\mathrm{conf}}_{i,j}$")
    left = _TARGET.left + 0.05
    for row, text in enumerate(("binary: $y_{i,j}$", "group: $\\bar y_i$ if correct,", "else 0")):
        label(ax, left + 0.29 * (row == 2), _TARGET.top - 0.3 - 0.13 * row, text, ha="left", fontsize=SMALL)


def _barrier(ax: Axes) -> None:
    """Draw the border that no gradient passes, and the two arrows across it."""
    y = (_SHARED.bottom + _CONFIDENCE.top) / 2
    first, second = (_ROLLOUTS.left + _STATES.right) / 2, _TARGET.x
    arrow(ax, (first, _ROLLOUTS.bottom), (first, _STATES.top))
    arrow(ax, (second, _CORRECT.bottom), (second, _TARGET.top))
    middle, half = (first + second) / 2, 0.88
    label(ax, middle, y, "stop-gradient: separate parameters $\\theta$ and $\\phi$", fontsize=SMALL)
    holes = (first - 0.1, first + 0.1), (middle - half, middle + half), (second - 0.1, second + 0.1)
    edges = [_SHARED.left, *(edge for hole in holes for edge in hole), _SHARED.right]
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        line(ax, (start, y), (end, y), linestyle=(0, (4, 2.5)))
    for x in (first, second):
        barred(ax, x, y)


def _replay(ax: Axes) -> None:
    _band(ax, _REPLAY, "Replay", _COCAL)
    supervision = "$\\mathcal{S}_t=\\{(z_{i,j},y^{\\mathrm{conf}}_{i,j})\\}$ of step $t$"
    summary = f"cached steps in chronological order, {supervision}"
    label(ax, _REPLAY.x + 0.1, _REPLAY.top - 0.12, summary, fontsize=SMALL)
    y = _REPLAY.bottom + 0.2
    boxes = [Rect(_REPLAY.left + left, y - 0.12, 0.32, 0.24) for left in (0.32, 1.08, 2.56)]
    for place, name in zip(boxes, ("$\\phi_0$", "$\\phi_1$", "$\\phi_T$"), strict=True):
        box(ax, place, name, colour=_COCAL)
    dots = (boxes[1].right + boxes[2].left) / 2
    label(ax, dots, y, "…")
    for start, end, name in (
        (boxes[0].right, boxes[1].left, "$\\mathcal{S}_0$"),
        (boxes[1].right, dots - 0.1, "$\\mathcal{S}_1$"),
        (dots + 0.1, boxes[2].left, "$\\mathcal{S}_{T-1}$"),
    ):
        arrow(ax, (start, y), (end - 0.01, y), colour=_COCAL, heavy=True)
        label(ax, (start + end) / 2 - 0.02, y + 0.11, name, fontsize=SMALL)


def _inference(ax: Axes) -> None:
    _band(ax, _INFERENCE, "Inference")
    left, y = _INFERENCE.left, _INFERENCE.y + 0.06
    response = Rect(left + 0.35, y - 0.14, 0.19, 0.28)
    vector = Rect(left + 0.84, y - 0.14, 0.14, 0.28)
    companion = Rect(left + 1.18, y - 0.14, 0.46, 0.28)
    bar = Rect(left + 1.84, y - 0.05, 0.42, 0.1)
    sheet(ax, response)
    box(ax, vector, colour=_COCAL)
    box(ax, companion, colour=_COCAL)
    network(ax, Rect(companion.x - 0.18, y - 0.1, 0.36, 0.2), _COCAL)
    gauge(ax, bar, 0.7, _COCAL)
    for start, end in ((response, vector), (vector, companion), (companion, bar)):
        arrow(ax, (start.right, y), (end.left, y))
    names = (response, "response $r$"), (vector, "$z(r)$"), (companion, "$g_\\phi$"), (bar, "$c\\in[0,1]$")
    for place, name in names:
        label(ax, place.x, _INFERENCE.bottom + 0.14, name, fontsize=SMALL)
    label(ax, bar.x, bar.top + 0.09, "confidence", fontsize=SMALL)
