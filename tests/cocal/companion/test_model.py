"""Gradient steps of stacked members, against plain PyTorch modules."""

import torch
from torch import nn

from cocal.companion.companions import build_model
from cocal.companion.model import CompanionMLP, Training, matmul_precision
from cocal.companion.plain import mlp
from cocal.companion.settings import CompanionSettings

INPUTS, BATCH = 9, 16
SETTINGS = CompanionSettings(widths=(8, 6), dropout=(), batch_size=BATCH, seeds=(1, 2, 3), weight_decay=0.0)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Features, and what each of two targets learns."""
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(BATCH, INPUTS, generator=draw)
    return features, torch.rand(2, 1, BATCH, generator=draw)


def plain(model: CompanionMLP, member: int) -> nn.Sequential:
    """One member as plain modules."""
    one = mlp(INPUTS, [norm.weight.shape[1] for norm in model.norms], ())
    with torch.no_grad():
        for mine, stacked in zip(one.parameters(), parameters(model), strict=True):
            mine.copy_(stacked[member])
    return one


def parameters(model: CompanionMLP) -> list[nn.Parameter]:
    """In the order of the layers."""
    modules = [module for pair in zip(model.linears, model.norms, strict=True) for module in pair]
    return [parameter for module in (*modules, model.output) for parameter in module.parameters()]


def test_steps_are_those_of_adam_with_the_settings_decay():
    settings = SETTINGS.model_copy(update={"weight_decay": 0.5, "learning_rate": 0.01})
    model = build_model(settings, INPUTS)
    training = Training(model, settings)
    one = plain(model, 4)
    optimiser = torch.optim.Adam(one.parameters(), lr=0.01, weight_decay=0.5)
    features, wanted = batch()
    for _ in range(3):
        training.run([(features, wanted)])
        optimiser.zero_grad()
        nn.functional.mse_loss(one(features), wanted[1, 0]).backward()
        optimiser.step()
    for mine, other in zip(parameters(model), one.parameters(), strict=True):
        torch.testing.assert_close(mine[4], other, rtol=1e-3, atol=1e-4)


def test_losses_are_means_over_all_responses_of_a_pass():
    features, wanted = batch()
    still = SETTINGS.model_copy(update={"learning_rate": 1e-30})
    model = build_model(still, INPUTS)
    training = Training(model, still)
    at_once = training.run([(features, wanted)])
    unequal = [(features[:10], wanted[:, :, :10]), (features[10:], wanted[:, :, 10:])]
    torch.testing.assert_close(training.run(unequal), at_once)
    error = model(features).view(2, 3, BATCH) - wanted
    torch.testing.assert_close(at_once, error.double().square().mean(2).flatten())


def test_means_of_layer_norms_are_not_rounded(monkeypatch):
    """They are computed as products, and tf32 would keep ten bits of them."""
    found, product, settings = [], torch.bmm, torch.backends.cuda.matmul
    model, before = build_model(SETTINGS, INPUTS), settings.fp32_precision
    monkeypatch.setattr(torch, "bmm", lambda *of: found.append(settings.fp32_precision) or product(*of))
    with matmul_precision("tf32"):
        Training(model, SETTINGS).run([batch()])
        assert settings.fp32_precision == "tf32"
    assert settings.fp32_precision == before
    assert found == ["ieee"] * 2 * len(SETTINGS.widths)
