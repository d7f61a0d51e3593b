"""PyTorch's matrix products computed by NumPy's OpenBLAS, for portable numerics.

PyTorch leaves its products on processors to MKL, whose only mode that gives the same bytes on processors of AMD takes
two to three times as long as the others. OpenBLAS's code for Haswell gives the same bytes there at the usual speed.
"""

import warnings
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor

_KERNELS = (
    ("mm", ("", ".out"), (2, 2)),
    ("bmm", ("", ".out"), (3, 3)),
    ("addmm", ("", "_", ".out"), (2, 2)),
    ("baddbmm", ("", "_", ".out"), (3, 3)),
    ("addmv", ("", "_", ".out"), (2, 1)),
    ("dot", ("",), (1, 1)),
)
"""The replaced kernels, on which `matmul`, `linear`, `einsum` and `mv` rest, their forms, and dimensions."""
_SUMMED_IN = {torch.float64: torch.float64}
_SUMMED_IN |= dict.fromkeys((torch.float32, torch.bfloat16, torch.float16), torch.float32)
"""The number types that OpenBLAS multiplies, and those in which it sums. Numbers of 16 bits are exact in float32."""


@cache
def use_openblas() -> torch.library.Library:
    """Replace PyTorch's kernels of matrix products on the processor, for the rest of this process.

    PyTorch's fused attention on processors calls MKL itself, so `MKL_CBWR` keeps its bytes. Where that is faster,
    `cocal.models.attention` does without it. Products of other numbers than floats, and those that PyTorch
    refuses, are left to its own kernels. PyTorch forgets the new ones together with the object that is returned, which
    this function's cache keeps.
    """
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"(?s).*Overriding a previously registered kernel", UserWarning)
        for kernel, forms, ranks in _KERNELS:
            for name in (kernel + form for form in forms):
                library.impl(name, _kernel(name, ranks), "CPU", with_keyset=True)
    return library


def _kernel(name: str, ranks: tuple[int, int]) -> Callable[..., Tensor]:
    """The new kernel of one name. It gets PyTorch's dispatch keys, then the operation's own arguments.

    A training calls it hundreds of thousands of times with small matrices, so it asks for no more than it must.
    """
    own = torch.library.get_kernel(f"aten::{name}", "CPU")
    in_place = name.endswith("_")
    left_rank, right_rank = ranks
    inner = max(right_rank - 2, 0)

    def kernel(keys, *tensors, **options):
        first, second = tensors[-2:]
        dtype, left, right = first.dtype, first.shape, second.shape
        fit = (
            dtype in _SUMMED_IN
            and second.dtype is dtype
            and len(left) == left_rank
            and len(right) == right_rank
            and left[-1] == right[inner]
            and left[:-2] == right[:-2]
        )
        if not fit:
            return own.call_boxed(keys, *tensors, **options)
        shape = left[:-1] + right[1:][-1:]  # the product with a vector lacks the last dimension
        if len(tensors) == 2 and not options:
            return _product(first, second, shape).to(dtype)
        out = tensors[0] if in_place else options.get("out")
        added = tensors[0] if len(tensors) == 3 else None
        if (added is not None and added.dtype is not dtype) or (
            out is not None and (out.shape != shape or out.dtype is not dtype)
        ):
            return own.call_boxed(keys, *tensors, **options)
        result = _combined(_product(first, second, shape), added, options.get("beta", 1), options.get("alpha", 1))
        return result.to(dtype) if out is None else out.copy_(result)

    return kernel


def _product(first: Tensor, second: Tensor, shape: torch.Size) -> Tensor:
    """A product of this shape of tensors with any strides, contiguous, in the number type in which OpenBLAS sums."""
    summed_in = _SUMMED_IN[first.dtype]
    if first.dtype is not summed_in:
        first, second = first.to(summed_in), second.to(summed_in)
    # memory of PyTorch starts at multiples of 64 bytes, on which MKL's vector functions may depend; NumPy's does not
    result = torch.empty(shape, dtype=summed_in)
    np.matmul(first.detach().numpy(), second.detach().numpy(), out=result.numpy())
    return result


def _combined(product: Tensor, added: Tensor | None, beta: float, alpha: float) -> Tensor:
    """Turn a product, in place, into beta x added + alpha x product; with beta = 0 even NaN in `added` is ignored."""
    if alpha != 1:
        product.mul_(alpha)
    if added is not None and beta != 0:
        product.add_(added, alpha=beta)
    return product
