"""The update of a policy: micro-batches with little padding, and Adam with its moments in the memory of the host."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Batch = Mapping[str, torch.Tensor]


def sorted_by_length(batches: Sequence[Batch]) -> list[dict[str, torch.Tensor]]:
    """Sort the rows of some micro-batches by length, into the same number of micro-batches, and trim the padding.

    The mean of the micro-batches' losses stays the same, since padding has no loss and every row keeps its weight. In
    TRL's form, `prompt_ids` and `prompt_mask` (rows, prompt length) are padded on the left; all other tensors of two
    dimensions, such as `completion_ids` (rows, response length or 1), on the right. Scalars belong to the whole update.
    """
    whole = {key: torch.cat([b[key] for b in batches]) if value.dim() else value for key, value in batches[0].items()}
    prompts, responses = whole["prompt_mask"].sum(dim=1), whole["completion_mask"].sum(dim=1)
    responses = responses.clamp(min=1)  # masked responses have none, and keep one token so that a batch is not empty
    order = torch.argsort(prompts + responses, stable=True)
    return [
        {
            key: _part(key, value, rows, int(prompts[rows].max()), int(responses[rows].max()))
            for key, value in whole.items()
        }
        for rows in order.chunk(len(batches))
    ]


def in_trimmed_batches(
    compute: Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor],
    ids: torch.Tensor,
    mask: torch.Tensor,
    length: int,
    size: int,
) -> torch.Tensor:
    """What `compute` gives for each token of the responses, float32 (rows, length), in batches with little padding.

    Args:
        compute: Function of ids and mask of some rows and the length of their longest response.
        ids: Prompts, padded on the left, and responses, padded on the right (rows, prompt length + length).
        mask: Zero where they are padded.
        size: Number of rows in a batch.
    """
    whole = {"prompt_ids": ids[:, :-length], "prompt_mask": mask[:, :-length]}
    whole |= {"completion_ids": ids[:, -length:], "completion_mask": mask[:, -length:]}
    whole["row"] = torch.arange(len(ids), device=ids.device)
    values = torch.zeros((len(ids), length), device=ids.device)
    split = [{key: value[k : k + size] for key, value in whole.items()} for k in range(0, len(ids), size)]
    for part in sorted_by_length(split):
        longest = part["completion_ids"].shape[1]
        rows, given = (torch.cat([part[f"prompt_{key}"], part[f"completion_{key}"]], dim=1) for key in ("ids", "mask"))
        values[part["row"], :longest] = compute(rows, given, longest).float()
    return values


def _part(key: str, value: torch.Tensor, rows: torch.Tensor, prompt: int, response: int) -> torch.Tensor:
    """Some rows of a tensor, cut to the length of their longest prompt or response."""
    if value.dim() == 0:
        return value
    if value.dim() == 1:
        return value[rows]
    return value[rows, -prompt:] if key.startswith("prompt_") else value[rows, :response]


class HostAdamW(torch.optim.AdamW):
    """AdamW that updates one parameter after another, with the moments of only that one beside the weights.

    The result is that of AdamW to the bit, since an update of one parameter reads no other. Copying the moments of 1.7
    billion parameters should take a second or two, at the 25 GB/s of PCIe 4. With a GPU, the moments lie in page-locked
    memory, which PyTorch allocates in powers of two, so they need a third more of it.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """One update, as `torch.optim.AdamW.step` makes it without a closure."""
        groups = self.param_groups
        try:
            for group in groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        host = self.state[parameter]
                        self.state[parameter] = {
                            key: value.to(parameter.device, non_blocking=True) for key, value in host.items()
                        }
                        self.param_groups = [{**group, "params": [parameter]}]
                        super().step()
                        self.state[parameter] = _on_host(self.state[parameter], host, locked=parameter.is_cuda)
            if torch.cuda.is_available():
                torch.cuda.synchronize()  # copies to locked memory are still under way
        finally:
            self.param_groups = groups

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load saved moments, none of which is copied to the GPU."""
        super().load_state_dict(state_dict | {"state": {}})
        saved = [index for group in state_dict["param_groups"] for index in group["params"]]
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        for index, parameter in zip(saved, parameters, strict=True):
            if index in state_dict["state"]:
                self.state[parameter] = _on_host(state_dict["state"][index], {}, locked=parameter.is_cuda)


def _on_host(state: Mapping[str, torch.Tensor], places: dict[str, torch.Tensor], locked: bool) -> dict:
    """Copy a state to `places` in the memory of the host, creating those that are missing, and return them."""
    for key, value in state.items():
        if key not in places:
            places[key] = torch.empty_like(value, device="cpu", pin_memory=locked)
        places[key].copy_(value, non_blocking=True)
    return places
