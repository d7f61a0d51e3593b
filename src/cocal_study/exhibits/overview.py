"""Diagram of how CoCal learns and is used (fig:cocal_overview)."""

from collections.abc import Iterator, Mapping

from cocal.drawing.style import TEXT_WIDTH, Figure
from cocal_study.config.study import Study
from cocal_study.exhibits.base.exhibit import FigureExhibit
from cocal_study.exhibits.drawing.diagrams import SMALL, TASK, Page, Rect
from cocal_study.methods.cocal import BINARY

_COCAL = BINARY.colour

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
    page = Page(_HEIGHT)
    for part in (_experience, _task_learning, _confidence_learning, _replay, _inference):
        part(page)
    return page.figure


def _band(page: Page, band: Rect, name: str, colour: str = TASK) -> None:
    page.region(band, colour)
    page.label(band.left + 0.05, band.y, name, rotation=90, ha="left", va="center", fontweight="bold", linespacing=0.95)


def _experience(page: Page) -> None:
    _band(page, _SHARED, "Shared\nexperience")
    page.sheet(Rect(0.52, _FLOW - 0.14, 0.19, 0.28), behind=2)
    page.label(0.66, _SHARED.top - 0.14, "$B$ questions $x_i$", fontsize=SMALL)
    page.box(_POLICY, "Policy $\\pi_t$\nparameters $\\theta$")
    page.box(_ROLLOUTS, fill="white")
    for place in range(3):
        page.sheet(Rect(_ROLLOUTS.x + 0.27 * (place - 1) - 0.11, _ROLLOUTS.top - 0.34, 0.18, 0.24), behind=1)
    page.label(_ROLLOUTS.x, _ROLLOUTS.bottom + 0.1, "$K$ rollouts $r_{i,j}$ each", fontsize=SMALL)
    page.box(_VERIFIER, "Verifier $V$")
    page.box(_CORRECT, fill="white")
    for place, good in enumerate((True, False, True, True)):
        page.mark(_CORRECT.x + 0.2 * (place - 1.5), _CORRECT.top - 0.1, good, 0.08)
    page.label(_CORRECT.x, _CORRECT.y - 0.02, "correct: $y_{i,j}\\in\\{0,1\\}$", fontsize=SMALL)
    page.label(_CORRECT.x, _CORRECT.bottom + 0.1, "group accuracy $\\bar y_i$", fontsize=SMALL)
    stations = (0.83, _POLICY.left), (_POLICY.right, _ROLLOUTS.left), (_ROLLOUTS.right, _VERIFIER.left)
    for start, end in (*stations, (_VERIFIER.right, _CORRECT.left)):
        page.arrow((start, _FLOW), (end, _FLOW))


def _task_learning(page: Page) -> None:
    _band(page, _TASK, "Task\nlearning")
    y = _TASK.y
    advantages, update = Rect(3.28, y - 0.17, 1.2, 0.34), Rect(_ROLLOUTS.left, y - 0.17, _ROLLOUTS.width, 0.34)
    page.box(advantages, "group advantages\n$A_{i,j}=(y_{i,j}-\\bar y_i)/\\sigma_i$", fontsize=SMALL)
    page.box(update, "RL (GRPO): clipped\npolicy gradient", fontsize=SMALL)
    page.arrow((_CORRECT.x, _CORRECT.top), (_CORRECT.x, y), (advantages.right, y))
    page.arrow((advantages.left, y), (update.right, y))
    page.arrow((update.left, y), (_POLICY.x, y), (_POLICY.x, _POLICY.top + 0.01), colour=TASK, heavy=True)
    page.label(_POLICY.x - 0.07, y, "updates $\\theta$\n$\\pi_t\\to\\pi_{t+1}$", ha="right", fontsize=SMALL)


def _confidence_learning(page: Page) -> None:
    _band(page, _CONFIDENCE, "Confidence\nlearning", _COCAL)
    _states(page)
    _companion_and_target(page)
    _barrier(page)
    loss = Rect((_COMPANION.right + _TARGET.left) / 2 - 0.1, _LEARN - 0.12, 0.28, 0.24)
    page.arrow((_COMPANION.right, _LEARN), (loss.left, _LEARN))
    page.label((_COMPANION.right + loss.left) / 2, _LEARN + 0.1, "$c_{i,j}$", fontsize=SMALL)
    page.arrow((_TARGET.left, _LEARN), (loss.right, _LEARN))
    page.box(loss, "MSE", colour=_COCAL, fill="white", fontsize=SMALL)
    low = _CONFIDENCE.bottom + 0.12
    corners = (loss.x, loss.bottom), (loss.x, low), (_COMPANION.x, low), (_COMPANION.x, _COMPANION.bottom - 0.01)
    page.arrow(*corners, colour=_COCAL, heavy=True)
    page.label(loss.x + 0.08, low, "direct supervision", ha="left", fontsize=SMALL)
    page.label(_COMPANION.x - 0.07, low, "updates $\\phi_t\\to\\phi_{t+1}$", ha="right", fontsize=SMALL)


def _states(page: Page) -> None:
    page.box(_STATES, fill="white")
    page.label(0.7, _STATES.y, "hidden states,\nfinal layer", fontsize=SMALL)
    cells = [Rect(_STATES.left + 0.06 + 0.28 * place, _STATES.y - 0.11, 0.24, 0.22) for place in range(4)]
    for cell, name in zip(cells, ("$h_1$", "$h_2$", "…", "$h_L$"), strict=True):
        page.box(cell, name, colour=_COCAL if cell == cells[-1] else TASK)
    mean = Rect(_STATES.x - 0.12, _LEARN - 0.31, 0.24, 0.22)
    page.arrow((mean.x, _STATES.bottom), (mean.x, mean.top))
    page.box(mean, "$\\bar h$", colour=_COCAL)
    page.label(mean.left - 0.06, mean.y, "mean", ha="right", fontsize=SMALL)
    vector = Rect(2.41, _LEARN - 0.34, 0.3, 0.68)
    page.box(vector, fill="white")
    for part, name in ((cells[-1], "$h_L$"), (mean, "$\\bar h$")):
        page.box(part._replace(left=vector.left + 0.03), name, colour=_COCAL)
        page.arrow((part.right, part.y), (vector.left, part.y))
    page.label(vector.x, (cells[-1].bottom + mean.top) / 2, "$\\Vert$")
    page.label(vector.x - 0.02, vector.top + 0.08, "$z_{i,j}$: last $\\Vert$ mean", fontsize=SMALL)
    page.arrow((vector.right, _LEARN), (_COMPANION.left, _LEARN))


def _companion_and_target(page: Page) -> None:
    frame = _COMPANION
    page.box(frame, colour=_COCAL)
    page.label(frame.x, frame.top - 0.1, "Companion $g_\\phi$")
    page.network(Rect(frame.x - 0.25, frame.y - 0.06, 0.5, 0.2), _COCAL)
    page.label(frame.x, frame.bottom + 0.16, "MLP: LayerNorm,\nGELU; sigmoid", fontsize=SMALL)
    page.box(_TARGET)
    page.label(_TARGET.x, _TARGET.top - 0.11, "Target $y^{\\mathrm{conf}}_{i,j}$")
    left = _TARGET.left + 0.05
    for row, text in enumerate(("binary: $y_{i,j}$", "group: $\\bar y_i$ if correct,", "else 0")):
        page.label(left + 0.29 * (row == 2), _TARGET.top - 0.3 - 0.13 * row, text, ha="left", fontsize=SMALL)


def _barrier(page: Page) -> None:
    """Draw the border that no gradient passes, and the two arrows across it."""
    y = (_SHARED.bottom + _CONFIDENCE.top) / 2
    first, second = (_ROLLOUTS.left + _STATES.right) / 2, _TARGET.x
    page.arrow((first, _ROLLOUTS.bottom), (first, _STATES.top))
    page.arrow((second, _CORRECT.bottom), (second, _TARGET.top))
    middle, half = (first + second) / 2, 0.88
    page.label(middle, y, "stop-gradient: separate parameters $\\theta$ and $\\phi$", fontsize=SMALL)
    holes = (first - 0.1, first + 0.1), (middle - half, middle + half), (second - 0.1, second + 0.1)
    edges = [_SHARED.left, *(edge for hole in holes for edge in hole), _SHARED.right]
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        page.line((start, y), (end, y), linestyle=(0, (4, 2.5)))
    for x in (first, second):
        page.barred(x, y)


def _replay(page: Page) -> None:
    _band(page, _REPLAY, "Replay", _COCAL)
    supervision = "$\\mathcal{S}_t=\\{(z_{i,j},y^{\\mathrm{conf}}_{i,j})\\}$ of step $t$"
    summary = f"cached steps in chronological order, {supervision}"
    page.label(_REPLAY.x + 0.1, _REPLAY.top - 0.12, summary, fontsize=SMALL)
    y = _REPLAY.bottom + 0.2
    boxes = [Rect(_REPLAY.left + left, y - 0.12, 0.32, 0.24) for left in (0.32, 1.08, 2.56)]
    for place, name in zip(boxes, ("$\\phi_0$", "$\\phi_1$", "$\\phi_T$"), strict=True):
        page.box(place, name, colour=_COCAL)
    dots = (boxes[1].right + boxes[2].left) / 2
    page.label(dots, y, "…")
    for start, end, name in (
        (boxes[0].right, boxes[1].left, "$\\mathcal{S}_0$"),
        (boxes[1].right, dots - 0.1, "$\\mathcal{S}_1$"),
        (dots + 0.1, boxes[2].left, "$\\mathcal{S}_{T-1}$"),
    ):
        page.arrow((start, y), (end - 0.01, y), colour=_COCAL, heavy=True)
        page.label((start + end) / 2 - 0.02, y + 0.11, name, fontsize=SMALL)


def _inference(page: Page) -> None:
    _band(page, _INFERENCE, "Inference")
    left, y = _INFERENCE.left, _INFERENCE.y + 0.06
    response = Rect(left + 0.35, y - 0.14, 0.19, 0.28)
    vector = Rect(left + 0.84, y - 0.14, 0.14, 0.28)
    companion = Rect(left + 1.18, y - 0.14, 0.46, 0.28)
    bar = Rect(left + 1.84, y - 0.05, 0.42, 0.1)
    page.sheet(response)
    page.box(vector, colour=_COCAL)
    page.box(companion, colour=_COCAL)
    page.network(Rect(companion.x - 0.18, y - 0.1, 0.36, 0.2), _COCAL)
    page.gauge(bar, 0.7, _COCAL)
    for start, end in ((response, vector), (vector, companion), (companion, bar)):
        page.arrow((start.right, y), (end.left, y))
    names = (response, "response $r$"), (vector, "$z(r)$"), (companion, "$g_\\phi$"), (bar, "$c\\in[0,1]$")
    for place, name in names:
        page.label(place.x, _INFERENCE.bottom + 0.14, name, fontsize=SMALL)
    page.label(bar.x, bar.top + 0.09, "confidence", fontsize=SMALL)
