"""Shrink figures of the embedded study for the README: `make gallery` after `make reproduce`."""

from pathlib import Path

from PIL import Image

from cocal.store.owner import owner_of

FIGURES = ("overview", "training_dynamics", "budgets", "reliability", "cross_iteration")
WIDTH = 1100
"""Pixels of a figure as wide as the text."""


def main() -> None:
    """results/figures/{name}.png to docs/{name}.png, in 128 colours."""
    root = Path(__file__).parents[1]
    if owner_of(root / "results") != "embedded":
        raise SystemExit("results/ is not that of the embedded study: `make clean reproduce` first")
    widest = 1650  # text width at 300 dots an inch
    for name in FIGURES:
        with Image.open(root / f"results/figures/{name}.png") as figure:
            scale = WIDTH / widest
            size = round(figure.width * scale), round(figure.height * scale)
            small = figure.convert("RGB").resize(size, Image.Resampling.LANCZOS)
            small.quantize(128).save(root / f"docs/{name}.png", optimize=True)


if __name__ == "__main__":
    main()
