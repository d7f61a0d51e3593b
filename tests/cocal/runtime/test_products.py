"""OpenBLAS's matrix products in place of PyTorch's: the same numbers to rounding, in every form that PyTorch has."""

import os
import sys

import pytest
import torch
from torch.nn import functional

import started

TOLERANCES = {torch.float32: 1e-6, torch.float64: 1e-14, torch.bfloat16: 2**-8, torch.float16: 2**-11}


def numbers(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def check(found, expected):
    """`expected` is computed in float64; the tolerance is a share of the largest number."""
    assert found.shape == expected.shape
    scale = expected.abs().max().item() if expected.numel() else 0
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=TOLERANCES[found.dtype] * (scale + 1))


def exact(first, second):
    """The product in float64 by sums, without any kernel of products."""
    if second.ndim == 1:
        return (first.double() * second.double()).sum(-1)
    return (first.double()[..., :, :, None] * second.double()[..., None, :, :]).sum(-2)


def laid_out(tensor, layout):
    """The same numbers in other strides."""
    return tensor.mT.contiguous().mT if layout == "transposed" and tensor.ndim > 1 else tensor


LAYOUTS = ["contiguous", "transposed"]
SIZES = [(5, 7, 3), (1, 64, 40), (40, 64, 1), (33, 1, 17), (4, 0, 3), (0, 4, 3), (4, 3, 0), (70, 130, 50)]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("sizes", SIZES)
def test_products_are_the_exact_ones_to_rounding(sizes, dtype):
    m, k, n = sizes
    for layout in LAYOUTS:
        for batch in ((), (3,)):
            first = laid_out(numbers(*batch, m, k, dtype=dtype), layout)
            for other in LAYOUTS:
                second = laid_out(numbers(*batch, k, n, dtype=dtype, seed=1), other)
                check(first @ second, exact(first, second))
        matrix, vector = laid_out(numbers(m, k, dtype=dtype), layout), laid_out(numbers(k, dtype=dtype), layout)
        check(torch.mv(matrix, vector), exact(matrix, vector))
        check(torch.dot(vector, vector), exact(vector, vector))


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0, 1), (0.5, -2), (1, 0), (0, 3)])
@pytest.mark.parametrize("name", ["addmm", "baddbmm", "addmv"])
def test_sums_with_products(name, beta, alpha, dtype):
    batch = (3,) if name == "baddbmm" else ()
    first = numbers(*batch, 6, 9, dtype=dtype)
    second = numbers(9, dtype=dtype, seed=1) if name == "addmv" else numbers(*batch, 9, 5, dtype=dtype, seed=1)
    product = alpha * exact(first, second)
    whole = numbers(*product.shape, dtype=dtype, seed=2)
    summands = [whole, whole.mT.contiguous().mT if whole.ndim > 1 else whole, whole[..., :1]]
    for added in summands if beta else [torch.full_like(whole, torch.nan)]:
        expected = product + beta * added.double() if beta else product
        operation = getattr(torch, name)
        check(operation(added, first, second, beta=beta, alpha=alpha), expected)
        if added.shape == expected.shape:
            check(getattr(added.clone(), f"{name}_")(first, second, beta=beta, alpha=alpha), expected)
        for out in (torch.full_like(whole, torch.nan), laid_out(whole.clone(), "transposed")):
            assert operation(added, first, second, beta=beta, alpha=alpha, out=out) is out
            check(out, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_outputs_of_any_layout_are_filled_even_if_they_are_a_factor(layout):
    first, second = numbers(6, 6), numbers(6, 6, seed=1)
    expected = exact(first, second)
    out = laid_out(torch.full((6, 6), torch.nan), layout)
    assert torch.mm(first, second, out=out) is out
    check(out, expected)
    check(torch.mm(first, second, out=first), expected)
    out = laid_out(torch.full((2, 6, 4), torch.nan), layout)
    torch.bmm(numbers(2, 6, 3), numbers(2, 3, 4, seed=1), out=out)
    check(out, exact(numbers(2, 6, 3), numbers(2, 3, 4, seed=1)))
    check(torch.mm(first, second, out=torch.empty(0)), exact(first, second))


def test_gradients():
    parts = [numbers(*shape, dtype=torch.float64, seed=k) for k, shape in enumerate(((3, 4), (4, 2), (3, 2)))]
    first, second, added = (part.requires_grad_() for part in parts)
    assert torch.autograd.gradcheck(lambda *x: torch.addmm(x[2], x[0], x[1], beta=0.5, alpha=2), (first, second, added))
    assert torch.autograd.gradcheck(functional.linear, (first, second.mT, added[0]))
    batched = [torch.stack([part, -2 * part]).detach().requires_grad_() for part in parts]
    assert torch.autograd.gradcheck(lambda *x: torch.baddbmm(x[2], x[0], x[1]), batched)


def test_other_numbers_and_refusals_are_pytorchs_own():
    whole = torch.arange(6).reshape(2, 3)
    assert (whole @ whole.T).tolist() == [[5, 14], [14, 50]]
    complex_ = torch.complex(numbers(2, 2), numbers(2, 2, seed=1))
    torch.testing.assert_close((complex_ @ complex_.conj().T).diagonal().real, complex_.abs().square().sum(1))
    for operation, *factors in (
        (torch.mm, numbers(2, 3), numbers(2, 3)),
        (torch.mm, numbers(2, 3), numbers(3, 2).double()),
        (torch.mm, numbers(3), numbers(3, 2)),
        (torch.bmm, numbers(1, 2, 3), numbers(4, 3, 2)),
        (numbers(1, 2).addmm_, numbers(3, 4), numbers(4, 2)),
    ):
        with pytest.raises(RuntimeError):
            operation(*factors)


@pytest.mark.slow
def test_no_form_of_a_product_reaches_mkl():
    """MKL_VERBOSE makes MKL print each of its calls. Fused attention, which is left to it, is not among these."""
    done = started.run([sys.executable, "-W", "error", "-c", _PRODUCTS], environment=os.environ | {"MKL_VERBOSE": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    before, after = done.stdout.split("portable from here")
    assert "SGEMM" in before
    assert "GEM" not in after
    assert "DOT" not in after


_PRODUCTS = """
import torch
from torch.nn import functional
torch.ones(9, 9) @ torch.ones(9, 9)
from cocal.runtime.machine import fix_threads
fix_threads()
print("portable from here", flush=True)
x, w = torch.randn(3, 7, 9, requires_grad=True), torch.randn(5, 9, requires_grad=True)
functional.linear(x, w, torch.zeros(5)).sum().backward()
functional.linear(x, w).sum().backward()
torch.einsum("abc,dc->abd", x, w).sum().backward()
torch.mv(w, w[0]), torch.vdot(w[0], w[1]), torch.inner(w, w), torch.addbmm(torch.zeros(7, 7), x, x.mT)
functional.linear(x.bfloat16(), w.bfloat16())
"""
