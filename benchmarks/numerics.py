"""The cost of portable numerics: jobs of the embedded study with portable and with native numerics.

Each variant runs in a process of its own, since libraries read their variables when they are loaded. The third variant
has the variables alone, so that MKL computes the products; it is why `cocal.runtime.products` exists. All have one
thread, and times are processor time, the best of several runs.
"""

import os
from collections.abc import Callable
from types import SimpleNamespace

from cocal.runtime import numerics
from timing import alone, row, timed

_PEERS = {"native numerics": "native", "portable numerics, products by MKL": "mkl"}


def measure(quick: bool) -> list[dict]:
    """Time a training step and a decoding step of the embedded policy, and a pass of companions."""
    ours, *theirs = (_alone(variant, quick) for variant in ("portable", *_PEERS.values()))
    return [
        row("portable numerics", case, seconds, peer, times[case])
        for case, seconds in ours.items()
        for peer, times in zip(_PEERS, theirs, strict=True)
    ]


def _alone(variant: str, quick: bool) -> dict[str, float]:
    """The times of one variant by case, from a process that starts with its variables."""
    before = dict(os.environ)
    for name in numerics.PORTABLE:
        os.environ.pop(name, None)
    os.environ.update(numerics.environment("native" if variant == "native" else "portable"))
    try:
        return alone(_times, variant, quick)
    finally:
        os.environ.clear()
        os.environ.update(before)


def _times(variant: str, quick: bool) -> dict[str, float]:
    import torch

    from cocal.runtime.machine import fix_threads

    if variant == "mkl":
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    else:
        fix_threads()
    cases = {
        "forward and backward pass of the embedded policy, 32 documents of 160 tokens": (_training(), 4),
        "decoding step of the embedded policy, 64 responses after 100 tokens": (_decoding(), 20),
        "a pass of ten companions at embedded widths, 2,560 responses": (_companions(), 2),
    }
    return {name: _best(work, 1 if quick else count, 2 if quick else 7) for name, (work, count) in cases.items()}


def _best(work: Callable[[], object], count: int, repeats: int) -> float:
    """Seconds of one call: the best of several means over `count` calls."""
    work()
    return min(timed(lambda: [work() for _ in range(count)]) / count for _ in range(repeats))


def _policy():
    from cocal_study.backbones.pretraining import new_policy
    from cocal_study.config.backbone import ArchitectureSettings

    shape = ArchitectureSettings(heads=2, key_value_heads=1, intermediate_size=256, vocabulary=640)
    return new_policy(shape, SimpleNamespace(eos_token_id=1, pad_token_id=0), seed=0)


def _training() -> Callable[[], object]:
    import torch

    model = _policy().train()
    ids = torch.randint(2, 640, (32, 160), generator=torch.Generator().manual_seed(0))
    ids[::3, 120:] = 0
    labels = torch.where(ids == 0, -100, ids)

    def step() -> None:
        model(input_ids=ids, attention_mask=ids != 0, labels=labels).loss.backward()

    return step


def _decoding() -> Callable[[], object]:
    import torch

    from cocal.models.attention import GROUPED

    model = _policy().eval()
    model.set_attn_implementation(GROUPED)
    ids = torch.randint(2, 640, (64, 100), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids).index_fill(1, torch.tensor([0]), 0)  # with padding on the left, as in a batch

    @torch.inference_mode()
    def step() -> None:
        model(input_ids=ids[:, :1], attention_mask=torch.cat([mask, mask[:, 1:2]], 1), past_key_values=cache)
        cache.crop(-1)  # the new token

    with torch.inference_mode():
        cache = model(input_ids=ids, attention_mask=mask, use_cache=True).past_key_values
    return step


def _companions() -> Callable[[], object]:
    import torch

    from cocal.companion.companions import build_model
    from cocal.companion.model import Training
    from cocal.companion.settings import CompanionSettings

    settings = CompanionSettings(widths=(64, 32, 16, 8))
    training = Training(build_model(settings, 192), settings)
    drawn = torch.Generator().manual_seed(0)
    features = torch.randn(2560, 192, generator=drawn)
    wanted = torch.rand(2, 1, 2560, generator=drawn)
    size = settings.batch_size
    batches = list(zip(features.split(size), wanted.split(size, dim=2), strict=True))
    return lambda: training.run(batches)
