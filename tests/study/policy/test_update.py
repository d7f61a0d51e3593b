"""Adam's moments in the memory of the host: the bytes are those of Adam, also after a resumption."""

from functools import partial

import pytest
import torch

from cocal_study.config.policy import TrlSettings
from cocal_study.policy.update import HostAdamW, in_trimmed_batches
from micro_trainer import micro_trainer, small_settings

UPDATES = 5


def _trained(kind: type, saved: bool, fused: bool) -> list[torch.Tensor]:
    """Weights after some updates; the third parameter has gradients in some of them alone."""
    draw = torch.Generator().manual_seed(0)
    parameters = [torch.randn(n, generator=draw).requires_grad_() for n in (7, 3, 5)]
    groups = [{"params": parameters[:2], "weight_decay": 0.1}, {"params": parameters[2:], "lr": 0.05}]
    make = partial(kind, groups, lr=0.1, betas=(0.9, 0.95), fused=fused)
    optimiser = make()
    for number in range(UPDATES):
        if saved and number == 3:
            state = optimiser.state_dict()
            optimiser = make()
            optimiser.load_state_dict(state)
        for k, parameter in enumerate(parameters):
            gradient = torch.randn(parameter.shape, generator=draw)
            parameter.grad = None if k == 2 and number % 2 else gradient
        optimiser.step()
    return [parameter.detach() for parameter in parameters]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("saved", [False, True])
def test_updates_are_adams_to_the_bit(saved, fused):
    plain, ours = _trained(torch.optim.AdamW, False, fused), _trained(HostAdamW, saved, fused)
    assert all(torch.equal(a, b) for a, b in zip(plain, ours, strict=True))


def test_a_training_takes_the_optimiser_of_its_settings(tmp_path, micro_checkpoint):
    for where, kind in (("host", HostAdamW), ("device", torch.optim.AdamW)):
        settings = small_settings(trl={"moments": where})
        made = micro_trainer(tmp_path, micro_checkpoint, settings).create_optimizer()
        assert type(made) is kind
        assert made.defaults["lr"] == settings.learning_rate
    with pytest.raises(ValueError, match="moments: host is for one process"):
        TrlSettings(moments="host", devices=2)


def test_rows_of_a_step_are_computed_in_batches_with_little_padding():
    """Every token gets its value, and no batch is wider than its longest prompt and its longest response."""
    prompts, responses = torch.tensor([2, 7, 4, 1, 6, 3, 5]), torch.tensor([5, 1, 9, 4, 2, 8, 3])
    mask = torch.cat([torch.arange(7) >= 7 - prompts[:, None], torch.arange(9) < responses[:, None]], dim=1).long()
    ids = torch.arange(1, 7 * 16 + 1).reshape(7, 16) * mask
    shapes = []

    def compute(part, kept, length):
        shapes.append(tuple(part.shape))
        assert torch.equal(part != 0, kept.bool())
        return part[:, -length:].float()

    found = in_trimmed_batches(compute, ids, mask, 9, 3)
    assert shapes == [(3, 12), (3, 14), (1, 13)]
    assert torch.equal(found, ids[:, -9:].float())
