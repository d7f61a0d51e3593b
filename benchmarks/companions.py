"""Ten companions fitted in one pass against ten fits one after another; scoring of many responses, and of one.

Every comparison runs ours and its peer in turns in one process and takes the best time of each. On a CPU, both have one
thread, and times are processor time, which does not depend on other work on the machine. The peers are plain PyTorch
modules trained over slices of a tensor, the leanest way to write it; the same over a DataLoader; scikit-learn's
MLPRegressor, which has no layer normalisation, GELU or dropout and so does less; and our own steps written out without
autograd, which the package would use if autograd took more than 1.5 times as long at embedded widths or noticeably
longer at paper widths. The benchmark times one pass over the data, which fits repeat. Times on a GPU are compared with
those of the paper for one companion on a B200 (table of costs).
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from cocal.companion.companions import build_model
from cocal.companion.model import Training, matmul_precision
from cocal.companion.plain import mlp
from cocal.companion.settings import CompanionSettings
from cocal_study.generation.latency import SingleMember
from timing import best, gpu_clock, row, timed
from untrained import untrained
from written_out import WrittenOut

EMBEDDED = "embedded widths, 192 -> 64/32/16/8", CompanionSettings(widths=(64, 32, 16, 8)), 192
PAPER = "paper widths, 8,192 -> 2,048/1,024/512/256", CompanionSettings(), 8192
PAPER_RESPONSES = 221_000
"""Number of training responses in the paper's study: nine tenths of 120 steps of 2,048."""
PAPER_FIT, PAPER_PREDICTION = 15.1, 0.199e-3
"""Seconds that the paper reports for one companion and for one prediction."""
_CPU = torch.device("cpu")


def measure(quick: bool) -> list[dict]:
    """Time fits and predictions on the GPU where there is one, and on the CPU elsewhere."""
    if torch.cuda.is_available():
        return _on_gpu(25_600 if quick else PAPER_RESPONSES)
    rows = []
    for (name, settings, inputs), responses, repeats in ((EMBEDDED, 2560 if quick else 13_824, 5), (PAPER, 512, 2)):
        if not quick or inputs == EMBEDDED[2]:
            rows += _fits(f"{name}: {responses:,} responses, ten companions", settings, inputs, responses, repeats)
            rows += _predictions(name, settings, inputs, 20_480 if inputs == EMBEDDED[2] else 1024)
    return rows


def _fits(case: str, settings: CompanionSettings, inputs: int, responses: int, repeats: int) -> list[dict]:
    """Time one pass of gradient steps."""
    features, wanted = _data(inputs, responses, _CPU)
    members = [(target, seed) for target in range(2) for seed in settings.seeds]

    def batched() -> Callable[[], object]:
        training = Training(build_model(settings, inputs), settings)
        return lambda: training.run(_slices(features, wanted, settings.batch_size))

    def sequential(batches: Callable[[Tensor], Iterable[tuple[Tensor, Tensor]]]) -> Callable[[], object]:
        models = [(target, _plain(settings, inputs, seed).train()) for target, seed in members]
        adams = [torch.optim.Adam(model.parameters(), lr=settings.learning_rate) for _, model in models]

        def train() -> None:
            for (target, model), adam in zip(models, adams, strict=True):
                _plain_pass(model, adam, batches(wanted[target, 0]))

        return train

    def sliced(targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        return zip(features.split(settings.batch_size), targets.split(settings.batch_size), strict=True)

    def loaded(targets: Tensor) -> DataLoader:
        return DataLoader(TensorDataset(features, targets), batch_size=settings.batch_size)

    def sklearn() -> Callable[[], object]:
        return lambda: [_sklearn_pass(settings, features, wanted[target, 0], seed) for target, seed in members]

    def written_out() -> Callable[[], object]:
        training = WrittenOut(build_model(settings, inputs), settings)
        return lambda: training.run(_slices(features, wanted, settings.batch_size))

    peers = {
        "the same steps without autograd": written_out,
        "ten plain PyTorch loops over slices": lambda: sequential(sliced),
        "ten plain PyTorch loops over a DataLoader": lambda: sequential(loaded),
        "ten MLPRegressors of scikit-learn": sklearn,
    }
    steps = -(-responses // settings.batch_size)
    rows = []
    for peer, make in peers.items():
        seconds, theirs = _paired(batched, make, repeats)
        note = _each(seconds, steps, "step")
        rows.append(row("companions, a pass of training", case, seconds, peer, theirs, note))
    return rows


def _predictions(name: str, settings: CompanionSettings, inputs: int, responses: int) -> list[dict]:
    """Time the scoring of many responses by ten companions, and of one response by one companion."""
    features, _ = _data(inputs, responses, _CPU)
    companions = untrained(settings, inputs)
    members = [_plain(settings, inputs, seed).eval() for _ in range(2) for seed in settings.seeds]
    member, one = SingleMember(companions, 0, _CPU), features[:1]

    @torch.inference_mode()
    def plainly() -> None:
        for member in members:
            for batch in features.split(4096):
                member(batch)

    @torch.inference_mode()
    def one_plainly(count: int) -> None:
        for _ in range(count):
            members[0](one).item()

    def one_by_one(count: int) -> None:
        for _ in range(count):
            member.predict(one)

    count = 2000 if inputs == EMBEDDED[2] else 20
    ours, theirs = best(lambda: companions.predict(features), plainly, 3)
    own, plain = best(lambda: one_by_one(count), lambda: one_plainly(count), 5)
    case = f"{name}: {responses:,} responses by ten companions"
    peer, alone = "ten plain PyTorch modules, batches of 4,096", f"{name}: one response by one companion"
    return [
        row("companions, scoring", case, ours, peer, theirs, _each(ours, responses, "response")),
        row("companions, scoring", alone, own / count, "plain PyTorch module", plain / count),
    ]


def _on_gpu(responses: int) -> list[dict]:
    """Time the fit of the paper's study with features on the device and with validation, its steps beside what memory
    allows, and a prediction."""
    name, settings, inputs = PAPER
    device = torch.device("cuda")
    features, wanted = _data(inputs, responses + responses // 9, device)
    training, validation = slice(None, responses), slice(responses, None)
    rows, least = [], _traffic(settings, inputs) / _bandwidth(device)
    steps = settings.passes * -(-responses // settings.batch_size)
    for precision in ("float32", "tf32"):

        def fit(precision: str = precision) -> None:
            model = build_model(settings, inputs).to(device)
            trainer = Training(model, settings)
            with matmul_precision(precision):
                for _ in range(settings.passes):
                    trainer.run(_slices(features[training], wanted[:, :, training], settings.batch_size))
                    with torch.inference_mode():
                        for batch in features[validation].split(settings.batch_size):
                            model(batch)

        torch.cuda.reset_peak_memory_stats()
        case = f"{name}: {responses:,} responses, ten companions, {settings.passes} passes, products in {precision}"
        seconds = timed(fit, gpu_clock)
        note = f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB on the GPU, features included; "
        note += f"{_each(seconds, steps, 'step')}, {seconds / steps / least:.2f} times what moving its bytes takes"
        rows.append(row("companions on GPU", case, seconds, "the paper's one companion, B200", PAPER_FIT, note))
    passes = {}
    for kind in (Training, WrittenOut):
        trainer = kind(build_model(settings, inputs).to(device), settings)
        for _ in range(2):  # the first pass warms up
            work = partial(trainer.run, _slices(features[:25_600], wanted[:, :, :25_600], settings.batch_size))
            passes[kind] = timed(work, gpu_clock)
        del trainer
    case = f"{name}: 25,600 responses, ten companions, one pass"
    peer = "the same steps without autograd"
    note = _each(passes[Training], 100, "step")
    rows.append(row("companions on GPU", case, passes[Training], peer, passes[WrittenOut], note))
    alone, one = SingleMember(untrained(settings, inputs), 0, device), features[:1].float()

    def predict() -> None:
        for _ in range(1000):
            alone.predict(one)

    predict()
    case = f"{name}: one response by one companion"
    seconds = timed(predict, gpu_clock) / 1000
    return [*rows, row("companions on GPU", case, seconds, "the paper's, B200", PAPER_PREDICTION)]


def _traffic(settings: CompanionSettings, inputs: int) -> int:
    """Bytes that a step of ten companions moves at least: Adam reads weights, gradients and two moments, and writes all
    but the gradients; the passes read each weight and write its gradient. Those that read weights again, for what lies
    before a layer, are left out, and so are activations."""
    weights = sum(p.numel() for p in build_model(settings, inputs).parameters())
    return 4 * (7 + 2) * weights


def _bandwidth(device: torch.device) -> float:
    """Bytes per second that the device reads and writes, by a copy of a GiB on it."""
    block = torch.empty(2**30, dtype=torch.uint8, device=device)
    copy = torch.empty_like(block)
    return 2 * len(block) / min(timed(lambda: copy.copy_(block), gpu_clock) for _ in range(5))


def _data(inputs: int, responses: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Features, bfloat16 on a GPU, and targets (2, 1, responses)."""
    torch.manual_seed(0)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    features = torch.randn(responses, inputs, device=device, dtype=dtype)
    return features, (torch.rand(2, 1, responses, device=device) < 0.5).float()


def _slices(features: Tensor, wanted: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(features.split(size), wanted.split(size, dim=2), strict=True)


def _plain(settings: CompanionSettings, inputs: int, seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return mlp(inputs, settings.widths, settings.dropout)


def _plain_pass(
    model: nn.Sequential, optimiser: torch.optim.Optimizer, batches: Iterable[tuple[Tensor, Tensor]]
) -> None:
    for features, wanted in batches:
        loss = nn.functional.mse_loss(model(features), wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def _sklearn_pass(settings: CompanionSettings, features: Tensor, wanted: Tensor, seed: int) -> None:
    model = MLPRegressor(
        hidden_layer_sizes=settings.widths,
        solver="adam",
        alpha=0.0,
        batch_size=settings.batch_size,
        learning_rate_init=settings.learning_rate,
        max_iter=1,
        shuffle=False,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(features.numpy(), wanted.numpy())


def _paired(
    ours: Callable[[], Callable[[], object]], theirs: Callable[[], Callable[[], object]], repeats: int
) -> tuple[float, float]:
    """Best times of both, which are set up anew for each run and run in turns."""
    times = [(timed(ours()), timed(theirs())) for _ in range(repeats)]
    return min(mine for mine, _ in times), min(other for _, other in times)


def _each(seconds: float, items: int, of: str) -> str:
    return f"{seconds / items * 1e6:,.3g} µs per {of}"
