"""Cheaper starts of processes: a study has hundreds of jobs, and each of them imports its libraries anew."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_STARTING = 20_000
_RUNNING = gc.get_threshold()


def collect_less() -> None:
    """Let Python's garbage collector run less often, until `begin_work`.

    Imports make a million objects that stay, among which the collector would search for garbage again and again.
    """
    gc.set_threshold(_STARTING)


def begin_work() -> None:
    """End `collect_less`: from here on, garbage, which may hold large tensors, is collected as often as usual."""
    gc.set_threshold(*_RUNNING)


@contextmanager
def importing_without(*packages: str) -> Iterator[None]:
    """Import libraries as if packages, which they use only where these are installed, were not there.

    Packages that are loaded already stay what they are. Later imports find the others again.

    Args:
        packages: Names of top-level packages.
    """
    hidden = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # None in place of a module stands for one that does not exist
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def import_transformers() -> None:
    """Import what transformers needs for a language model, without scikit-learn and SciPy.

    It loads them, which takes two of its seven seconds, for assisted generation and for losses of object detection.
    These two fail in this process from here on, so only commands call this, which own their process.
    """
    with importing_without("sklearn", "scipy"):
        import transformers.generation.utils
        import transformers.loss.loss_utils
        import transformers.modeling_utils

    # what transformers or another library imports later finds them
    transformers.utils.is_sklearn_available.cache_clear()
    transformers.utils.is_scipy_available.cache_clear()
