"""The check of every figure's texts: none lies on another or beyond the page."""

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text


def assert_texts_apart(figure: Figure) -> None:
    """No text lies on another or beyond the page. Within the figure's style."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in _drawn(figure)]
    page = figure.bbox
    for index, (name, box) in enumerate(boxes):
        assert box.x0 >= page.x0, name
        assert box.x1 <= page.x1 + 1, name
        assert box.y0 >= page.y0, name
        assert box.y1 <= page.y1, name
        for other, second in boxes[index + 1 :]:
            apart = box.x1 <= second.x0 or second.x1 <= box.x0 or box.y1 <= second.y0 or second.y1 <= box.y0
            assert apart, (name, other)


def _drawn(figure: Figure) -> list[Text]:
    """All texts but the labels of ticks beyond the ends of an axis, which exist and are not drawn."""
    beyond = set()
    for ax in figure.axes:
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            ticks = axis.get_major_ticks()
            beyond |= {tick.label1 for tick in ticks if not limits[0] <= tick.get_loc() <= limits[1]}
    texts = figure.findobj(lambda item: isinstance(item, Text) and item not in beyond)
    return [text for text in texts if text.get_visible() and text.get_text().strip()]
