"""The two diagrams: their words, that nothing lies on anything else, and that arrows lead from one thing to another."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch, Polygon
from matplotlib.path import Path
from matplotlib.transforms import Bbox

from cocal.drawing.style import PAGE_HEIGHT, TEXT_WIDTH, paper_style
from cocal_study.config.methods import METHODS
from cocal_study.exhibits import overview, paradigms
from cocal_study.exhibits.drawing.diagrams import HEAVY, LINE, SMALL, TASK
from drawn_texts import assert_texts_apart

DIAGRAMS = {"paradigms": paradigms.draw, "overview": overview.draw}
CLOSE = 0.1
"""The greatest distance of an arrow's ends from the things that they join, in inches."""


@pytest.fixture(params=DIAGRAMS)
def diagram(request):
    with paper_style():
        yield placed(DIAGRAMS[request.param]())


def placed(figure: Figure) -> Figure:
    """The figure, drawn once, so that its extents in pixels are known."""
    FigureCanvasAgg(figure).draw()
    return figure


def texts(figure: Figure) -> dict[str, Bbox]:
    return {f"{i} {text.get_text()}": text.get_window_extent() for i, text in enumerate(figure.axes[0].texts)}


def frames(figure: Figure) -> list[tuple[Patch, Bbox]]:
    """Boxes, sheets, regions and spans of time; stripes have no outline."""
    patches = [patch for patch in figure.axes[0].patches if isinstance(patch, FancyBboxPatch | Polygon)]
    return [(patch, patch.get_window_extent()) for patch in patches if patch.get_linewidth() > 0]


def arrows(figure: Figure) -> list[FancyArrowPatch]:
    return [patch for patch in figure.axes[0].patches if isinstance(patch, FancyArrowPatch)]


def points(figure: Figure, stroke: FancyArrowPatch | Line2D) -> np.ndarray:
    """A dense row of points along it, without an arrow's head, (n, 2) in pixels."""
    shaft = stroke.get_path().to_polygons(closed_only=False)[0]
    return figure.axes[0].transData.transform(Path(shaft).interpolated(30).vertices)


def inside(inner: Bbox, outer: Bbox) -> bool:
    return outer.x0 < inner.x0 and inner.x1 < outer.x1 and outer.y0 < inner.y0 and inner.y1 < outer.y1


def test_texts_lie_in_a_frame_or_beyond_it_and_no_arrow_or_line_that_shows_runs_through_them(diagram):
    assert_texts_apart(diagram)
    strokes = [(stroke.get_zorder(), points(diagram, stroke)) for stroke in (*arrows(diagram), *diagram.axes[0].lines)]
    for name, text in texts(diagram).items():
        behind = 0
        for patch, frame in frames(diagram):
            if inside(text, frame):
                behind = max(behind, patch.get_zorder())
            else:
                assert Bbox.intersection(text, frame) is None, (name, frame)
        for order, along in strokes:
            if order >= behind:
                within = (along > text.p0).all(axis=1) & (along < text.p1).all(axis=1)
                assert not within.any(), name


def test_everything_lies_on_the_page_in_print_size(diagram):
    assert diagram.get_figwidth() == TEXT_WIDTH
    assert diagram.get_figheight() <= PAGE_HEIGHT / 2
    assert min(text.get_fontsize() for text in diagram.axes[0].texts) >= SMALL
    assert {one.get_linewidth() for one in arrows(diagram)} == {LINE, HEAVY}
    for box in (*(frame for _, frame in frames(diagram)), *(one.get_window_extent() for one in arrows(diagram))):
        assert inside(box, diagram.bbox)


def test_every_arrow_joins_two_things(diagram):
    things = [frame for patch, frame in frames(diagram) if patch.get_zorder() > 0] + list(texts(diagram).values())
    reach = CLOSE * diagram.dpi
    for one in arrows(diagram):
        for end in points(diagram, one)[[0, -1]]:
            near = [thing for thing in things if thing.padded(reach).contains(*end)]
            assert near, end / diagram.dpi


def test_greyscale_keeps_words_readable(diagram):
    """Words keep a contrast of 7 : 1 (WCAG AAA) with the ground below them, without colour."""
    image = np.asarray(diagram.canvas.buffer_rgba())[::-1, :, :3] / 255
    linear = np.where(image <= 0.04045, image / 12.92, ((image + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    for name, text in texts(diagram).items():
        (left, bottom), (right, top) = text.p0.astype(int), text.p1.astype(int)
        under = luminance[bottom:top, left:right]
        assert (np.quantile(under, 0.6) + 0.05) / (under.min() + 0.05) >= 7, name


def test_parameters_change_separately_in_all_but_the_coupled_paradigm():
    """The heavy arrows of a panel end at one learner (coupled) or at two."""
    with paper_style():
        figure = placed(paradigms.draw())
    heavy = [one for one in arrows(figure) if one.get_linewidth() == HEAVY]
    reach = CLOSE * figure.dpi
    learners = []
    for one in heavy:
        end = points(figure, one)[-1]
        at = [frame for patch, frame in frames(figure) if patch.get_zorder() > 0 and frame.padded(reach).contains(*end)]
        learners.append(min(at, key=lambda frame: frame.y1).bounds)
    colours = [to_hex(one.get_edgecolor()) for one in heavy]
    ours = (METHODS[name].colour for name in ("postcal-binary", "rlcr", "cocal-binary"))
    assert colours == [colour for ours_too in ours for colour in (TASK, ours_too)]
    shared = [first == second for first, second in zip(learners[::2], learners[1::2], strict=True)]
    assert shared == [False, True, False]
