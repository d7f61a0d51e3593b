"""Operations of the numerical libraries as the jobs use them, each with the digest of its result.

`tests/cocal/runtime/test_numerics.py` compares the digests with `operations.json`, in which they are the same natively
on a processor with AVX-512 and AMX and under emulation of lesser ones (docs/architecture.md says how to repeat that):

    python tests/support/operations.py FILE [NAME ...]       writes the digests of all operations, or of these
"""

import hashlib
import json
import os
import sys
from pathlib import Path

from cocal.runtime import numerics

DIGESTS = Path(__file__).with_suffix(".json")

# before the libraries that read them are loaded
os.environ.update(numerics.environment("portable"), OMP_NUM_THREADS="1")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.nn import functional  # noqa: E402

from cocal.runtime.machine import fix_threads  # noqa: E402


def digest(results):
    """Digest of types, shapes and bytes of nested arrays and tensors."""
    found = hashlib.sha256()
    for array in _arrays(results):
        found.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return found.hexdigest()[:16]


def _arrays(results):
    if isinstance(results, (list, tuple)):
        for result in results:
            yield from _arrays(result)
    else:
        yield np.ascontiguousarray(results.detach().numpy() if isinstance(results, torch.Tensor) else results)


def numbers(*shape, seed=0, low=-3.0, high=3.0, dtype=np.float32):
    """Uniform random numbers, which take exact operations alone and so are the same everywhere."""
    return (np.random.default_rng(seed).random(shape) * (high - low) + low).astype(dtype)


def tensor(*shape, gradient=False, **options):
    return torch.from_numpy(numbers(*shape, **options)).requires_grad_(gradient)


def generator():
    return torch.Generator().manual_seed(5)


def linear():
    """Forward and backward passes of the policies' layers: few and many rows, narrow and wide."""
    found = []
    for rows, width, outputs in ((60, 96, 288), (60, 288, 96), (32, 96, 512), (1, 96, 512), (33, 65, 17)):
        x, weight = tensor(rows, width, gradient=True), tensor(outputs, width, seed=1, gradient=True)
        y = functional.linear(x, weight, torch.zeros(outputs))
        y.square().mean().backward()
        found += [y, functional.linear(x, weight), x.grad, weight.grad]
    return found


def batched_products():
    weight, hidden = tensor(10, 32, 64, seed=1, gradient=True), tensor(10, 64, 50, seed=2, gradient=True)
    y = torch.baddbmm(torch.zeros(10, 32, 1), weight, hidden)
    y.square().sum().backward()
    first = torch.addmm(tensor(64)[:, None], tensor(64, 192, seed=1), tensor(50, 192, seed=2).T)
    return y, weight.grad, hidden.grad, first, torch.bmm(tensor(10, 1, 8), tensor(10, 8, 50, seed=1))


def _attention(queries, masked):
    q, k, v = (tensor(3, h, n, 32, seed=h, gradient=True) for h, n in ((4, queries), (2, 40), (2, 40)))
    mask = torch.from_numpy(np.random.default_rng(9).random((3, 1, queries, 40)) < 0.8) if masked else None
    if masked:
        mask[..., 0] = True
    y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=not masked, enable_gqa=True)
    y.square().sum().backward()
    return y, q.grad, k.grad, v.grad


def attention():
    return _attention(40, masked=False), _attention(40, masked=True), _attention(1, masked=True)


def activations():
    found = []
    for function in (functional.gelu, functional.silu, torch.sigmoid, torch.exp, torch.tanh, torch.sin, torch.cos):
        x = tensor(50, 67, gradient=True)
        y = function(x)
        y.square().sum().backward()
        found += [y, x.grad]
    positive = tensor(503, low=0.01)
    return found, positive.log(), positive.sqrt(), positive.rsqrt(), positive**0.37, torch.erf(tensor(503))


def reductions():
    found = []
    for dtype in (np.float32, np.float64):
        for name in ("softmax", "log_softmax", "logsumexp", "cumsum", "sum", "mean", "std"):
            x = tensor(13, 317, dtype=dtype, gradient=True)
            rows, columns = getattr(torch, name)(x, dim=1), getattr(torch, name)(x, dim=0)
            (rows.square().sum() + columns.square().sum()).backward()
            found += [rows, columns, x.grad]
    return found


def normalisations():
    x, weight, bias = tensor(40, 96, gradient=True), tensor(96, seed=1, gradient=True), tensor(96, gradient=True)
    y = functional.layer_norm(x, (96,), weight, bias) + weight * (
        x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    )
    y.square().sum().backward()
    return y, x.grad, weight.grad, bias.grad


def losses():
    logits, weight = tensor(60, 512, gradient=True), tensor(512, 32, gradient=True)
    labels = torch.from_numpy(np.random.default_rng(0).integers(0, 512, 60))
    labels[:20] = -100
    loss = functional.cross_entropy(logits, labels) + functional.embedding(labels.clamp(min=0) % 9, weight).sin().sum()
    loss.backward()
    return loss, logits.grad, weight.grad, torch.zeros(512).index_add(0, labels.clamp(min=0), tensor(60))


def draws():
    cumulative = (tensor(20, 512) / 0.7).double().softmax(dim=1).cumsum(dim=1)
    torch.manual_seed(3)
    weight = torch.empty(33, 50)
    return (
        torch.searchsorted(cumulative, cumulative[:, -1:] * 0.37),
        tensor(20, 512).topk(20).indices,
        torch.randn(1003, generator=generator()),
        torch.rand(503, generator=generator()),
        torch.randperm(503, generator=generator()),
        torch.empty(5, 64).bernoulli_(0.9, generator=generator()),
        functional.dropout(torch.ones(40, 77), 0.1),
        torch.multinomial(tensor(20, 512).softmax(dim=1), 1, generator=generator()),
        torch.nn.init.kaiming_uniform_(weight, a=5**0.5, generator=generator()).clone(),
        weight.normal_(0, 0.02, generator=generator()),
    )


def _optimised(make, shapes):
    parameters = [torch.nn.Parameter(tensor(*shape, seed=k)) for k, shape in enumerate(shapes)]
    optimiser = make(parameters)
    for step in range(3):
        for k, parameter in enumerate(parameters):
            parameter.grad = tensor(*parameter.shape, seed=10 * step + k, low=-0.01, high=0.01)
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        optimiser.step()
    return parameters


def optimisers():
    shapes = [(32, 48), (48,), (5,), (2, 16, 24)]
    return (
        _optimised(lambda p: torch.optim.Adam(p, lr=4e-4, fused=True), shapes),
        _optimised(lambda p: torch.optim.AdamW(p, lr=4e-4), shapes),
        _optimised(lambda p: torch.optim.AdamW(p, lr=4e-4, weight_decay=0.1, fused=True), shapes),
        _optimised(lambda p: torch.optim.Muon(p, lr=0.02, weight_decay=0.0), [(32, 48), (48, 32)]),
    )


def numpy_functions():
    found = []
    for dtype in (np.float32, np.float64):
        x, positive = numbers(503, dtype=dtype), numbers(503, low=0.01, dtype=dtype)
        found += [np.exp(x), np.exp(x[::3]), np.tanh(x), np.sin(x), np.log(positive), np.sqrt(positive), positive**0.3]
        found += [np.logaddexp(x, x[::-1]), np.log1p(positive)]
    return found


def numpy_reductions():
    found = []
    for dtype in (np.float32, np.float64):
        x = numbers(13, 317, dtype=dtype)
        found += [x.mean(), x.mean(axis=0), x.sum(axis=1), x.std(axis=1), np.cumsum(x), np.quantile(x, [0.1, 0.9])]
        found += [np.linalg.norm(x), np.nanmean(x), np.add.reduceat(x[0], [0, 5, 100])]
    index = np.random.default_rng(0).integers(0, 10, 503)
    return found, np.bincount(index, weights=numbers(503, dtype=np.float64)), np.einsum("ij,ij->i", *numbers(2, 20, 31))


def numpy_products():
    shapes = ((70, 130, 50), (200, 45, 1), (1, 45, 200), (3, 4, 5))
    pairs = [
        (numbers(m, k, dtype=d), numbers(k, n, seed=1, dtype=d)) for d in (float, np.float32) for m, k, n in shapes
    ]
    return [one @ other for one, other in pairs], np.dot(numbers(503), numbers(503, seed=1))


def numpy_orders():
    """Sorting, with ties whose order depends on the algorithm."""
    x, ties = numbers(3000, dtype=np.float64), np.random.default_rng(0).integers(0, 7, 3000)
    values, places, counts = np.unique(np.round(x, 1), return_inverse=True, return_counts=True)
    orders = [np.argsort(x), np.argsort(ties), np.argsort(ties.astype(np.float32)), np.argsort(ties, kind="stable")]
    return np.sort(x), orders, values, places, counts, np.partition(x, 50)[50]


def numpy_draws():
    draw = np.random.default_rng(7)
    return draw.random(100), draw.standard_normal(503), draw.integers(0, 9, 50), draw.permutation(100)


OPERATIONS = {
    one.__name__: one
    for one in (
        *(linear, batched_products, attention, activations, reductions, normalisations, losses, draws, optimisers),
        *(numpy_functions, numpy_reductions, numpy_products, numpy_orders, numpy_draws),
    )
}


def main(file, *names):
    """Writes the digests, one after another, so that a slow emulator that is stopped leaves what it has computed."""
    fix_threads()
    found = {}
    for name in names or OPERATIONS:
        found[name] = digest(OPERATIONS[name]())
        Path(file).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
