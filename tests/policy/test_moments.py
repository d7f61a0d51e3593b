"""Adam's moments in the memory of the host: the bytes are those of Adam, also after a resumption."""

from functools import partial

import pytest
import torch
from safetensors.torch import load_file

from cocal.config.policy import PolicySettings, TrlSettings
from cocal.policy import update
from cocal.policy.update import HostAdamW
from micro_trainer import train
from rewarded_questions import write_rewarded

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


def test_moments_of_one_parameter_alone_are_beside_the_weights(monkeypatch):
    """Those of each are taken back to the host before the next one's are fetched."""
    moved = []
    monkeypatch.setattr(update, "_move", lambda state, device: moved.append((id(state), device.type)))
    parameters = [torch.ones(3, requires_grad=True) for _ in range(3)]
    optimiser = HostAdamW(parameters, lr=0.1)
    for parameter in parameters:
        parameter.grad = torch.ones(3)
    optimiser.step()
    assert moved == [(id(optimiser.state[p]), "cpu") for p in parameters for _ in ("there", "back")]


def test_a_schedule_of_the_learning_rate_is_followed():
    parameter = torch.ones(1, requires_grad=True)
    optimiser = HostAdamW([parameter], lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, 1, gamma=0.0)
    parameter.grad = torch.ones(1)
    optimiser.step()
    schedule.step()
    held = parameter.detach().clone()
    optimiser.step()
    assert torch.equal(parameter, held), "the rate is zero now"


def test_several_processes_have_no_moments_in_the_host():
    with pytest.raises(ValueError, match="moments: host is for one process"):
        TrlSettings(moments="host", devices=2)


@pytest.mark.slow
def test_a_training_gives_the_same_policy(tmp_path, monkeypatch, micro_policy, micro_checkpoint, micro_questions):
    updated, update = [], HostAdamW._update
    monkeypatch.setattr(HostAdamW, "_update", lambda self, *of: (updated.append(of), update(self, *of)))
    write_rewarded(tmp_path / "micro-train.parquet", micro_policy, micro_questions / "micro-train.parquet")
    settings = {"steps": 2, "stages": (2,), "questions_per_step": 4, "responses_per_question": 4, "micro_batch": 16}
    settings |= {"max_response_length": {"grpo": 20}, "learning_rate": 1e-3}
    weights = {}
    for where in ("device", "host"):
        one = PolicySettings(dataset="micro-train", trl={"moments": where}, **settings)
        train(tmp_path / where, one, micro_checkpoint, tmp_path)
        weights[where] = load_file(tmp_path / where / "step-2/model.safetensors")
    before = load_file(micro_checkpoint / "model.safetensors")
    assert all(torch.equal(tensor, weights["device"][name]) for name, tensor in weights["host"].items())
    assert not all(torch.equal(tensor, before[name]) for name, tensor in weights["host"].items()), "nothing was learnt"
    assert len(updated) == 2 * len([*micro_policy.model.parameters()]), "every parameter in each of two updates, once"
