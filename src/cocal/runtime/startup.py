"""Cheaper starts of processes: a study has hundreds of jobs, and each of them imports its libraries anew."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

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


def _as_it_is(function: Callable | None = None, *_: Any, **__: Any) -> Callable:
    """Return a function as it is; without one, a decorator that does."""
    return _as_it_is if function is None else function


class _Compiler(ModuleType):
    """Stands in for `torch._dynamo`, the compiler's front end, until somebody asks for more than marks of functions.

    PyTorch's optimisers and transformers load it, which takes two seconds, to mark functions that it shall not compile.
    """

    disable = staticmethod(_as_it_is)
    assume_constant_result = staticmethod(_as_it_is)
    allow_in_graph = staticmethod(_as_it_is)
    graph_break = staticmethod(_as_it_is)

    def __getattr__(self, name: str) -> Any:
        """Anything else is an attribute of the compiler, which takes its place again."""
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        return getattr(_restored_compiler(), name)


_COMPILER = "torch._dynamo"
_MASKS = "torch._dynamo._trace_wrapped_higher_order_op"
"""What transformers imports from the compiler for masks that are computed by functions of its users."""


def without_compiler() -> None:
    """Let PyTorch do without its compiler in this process until something is compiled, where there is no GPU."""
    import torch

    if _COMPILER in sys.modules or torch.version.cuda is not None:
        return
    masks = ModuleType(_MASKS)
    masks.TransformGetItemToIndex = _masks_of_compiler
    sys.modules |= {_COMPILER: _Compiler(_COMPILER), _MASKS: masks}


def _masks_of_compiler() -> Any:
    """What PyTorch gives to functions that compute masks, of the true compiler."""
    return _restored_compiler()._trace_wrapped_higher_order_op.TransformGetItemToIndex()


def _restored_compiler() -> ModuleType:
    """The true `torch._dynamo`, imported in place of its stand-in."""
    if isinstance(sys.modules.get(_COMPILER), _Compiler):
        del sys.modules[_COMPILER], sys.modules[_MASKS]
    return import_module(_COMPILER)


def import_transformers() -> None:
    """Import what transformers needs for a language model, without libraries that it needs for other things.

    It loads scikit-learn and SciPy, which takes two of its seven seconds, for assisted generation, for losses of object
    detection and for the metrics of a benchmark. These three fail in this process from here on, so only commands call
    this, which own their process.
    """
    without_compiler()
    with importing_without("sklearn", "scipy"):
        import transformers.data.metrics
        import transformers.generation.utils
        import transformers.loss.loss_utils
        import transformers.modeling_utils

    # what transformers or another library imports later finds them
    transformers.utils.is_sklearn_available.cache_clear()
    transformers.utils.is_scipy_available.cache_clear()
