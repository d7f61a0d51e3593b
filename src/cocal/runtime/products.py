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

_RANKS = {
    "mm": (2, 2),
    "mm.out": (2, 2),
    "bmm": (3, 3),
    "bmm.out": (3, 3),
    "addmm": (2, 2),
    "addmm_": (2, 2),
    "addmm.out": (2, 2),
    "baddbmm": (3, 3),
    "baddbmm_": (3, 3),
    "baddbmm.out": (3, 3),
    "addmv": (2, 1),
    "addmv_": (2, 1),
    "addmv.out": (2, 1),
    "dot": (1, 1),
}
"""The replaced kernels and the dimensions of their factors. `matmul`, `linear`, `einsum` and `mv` are made of them."""

_SUMMED_IN = {
    torch.float64: torch.float64,
    torch.float32: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
}
"""The number types that OpenBLAS multiplies, and those in which it does. Numbers of 16 bits are exact in float32."""


@cache
def use_openblas() -> torch.library.Library:
    """Replace PyTorch's kernels of matrix products on the processor, for the rest of this process.

    PyTorch's fused attention on processors calls MKL itself, so `MKL_CBWR` keeps its bytes; attention by products and a
    softmax was not faster. Products of other numbers than floats, and those that PyTorch refuses, are left to its own
    kernels.

    Returns:
        The kernels. This function's cache keeps them, since PyTorch forgets them together with this object.
    """
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"(?s).*Overriding a previously registered kernel", UserWarning)
        for name, ranks in _RANKS.items():
            library.impl(name, _kernel(name, ranks), "CPU", with_keyset=True)
    return library


def _kernel(name: str, ranks: tuple[int, int]) -> Callable[..., Tensor]:
    """The new kernel of one name. It gets PyTorch's dispatch keys, then the operation's own arguments."""
    own = torch.library.get_kernel(f"aten::{name}", "CPU")
    in_place = name.endswith("_")

    def kernel(keys, *tensors, **options):
        *added, first, second = tensors
        out = tensors[0] if in_place else options.get("out")
        fit = (
            first.dtype in _SUMMED_IN
            and all(tensor.dtype == first.dtype for tensor in tensors)
            and (first.ndim, second.ndim) == ranks
            and first.shape[:-2] == second.shape[:-2]
            and first.shape[-1] == second.shape[max(ranks[1] - 2, 0)]
            and (out is None or (out.shape == _shape(first, second) and out.dtype == first.dtype))
        )
        if not fit:
            return own.call_boxed(keys, *tensors, **options)
        result = _product(first, second, *added, beta=options.get("beta", 1), alpha=options.get("alpha", 1))
        return result if out is None else out.copy_(result)

    return kernel


def _shape(first: Tensor, second: Tensor) -> tuple[int, ...]:
    """The shape of first @ second; the product with a vector lacks the last dimension."""
    return first.shape[:-1] + second.shape[1:][-1:]


def _product(first: Tensor, second: Tensor, added: Tensor | None = None, *, beta: float, alpha: float) -> Tensor:
    """Compute beta x added + alpha x first @ second: a product, a scaling, a sum, and one rounding to 16 bits.

    Args:
        first: (batch, m, k), (m, k) or (k,), any strides.
        second: (batch, k, n), (k, n) or (k,), any strides, of the same number type.
        added: Summand that broadcasts to the result; with beta = 0 its numbers are ignored, even NaN.
        beta: Factor of the summand.
        alpha: Factor of the product.

    Returns:
        A new contiguous tensor of the factors' number type.
    """
    one, other = (factor.to(_SUMMED_IN[first.dtype]).detach().numpy() for factor in (first, second))
    # memory of PyTorch starts at multiples of 64 bytes, on which MKL's vector functions may depend; NumPy's does not
    result = torch.empty(_shape(first, second), dtype=_SUMMED_IN[first.dtype])
    np.matmul(one, other, out=result.numpy())
    if alpha != 1:
        result.mul_(alpha)
    if added is not None and beta != 0:
        result.add_(added, alpha=beta)
    return result.to(first.dtype)
