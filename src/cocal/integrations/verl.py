"""Exact token ids in the rollouts that verl dumps (`trainer.rollout_data_dir`).

verl writes the decoded texts of a step without their special tokens. This mixin gives its own writer the ids as further
fields, and `cocal fit` then reads these instead of the texts:

    from cocal.integrations.verl import ExactIds
    from verl.trainer.ppo.v1 import PPOTrainerSync  # of V0, verl.trainer.ppo.ray_trainer.RayPPOTrainer

    class Trainer(ExactIds, PPOTrainerSync):
        pass

docs/own-policy.md says where verl takes the class of its trainer from. States are not captured: the policy lies in
other processes.
"""

import inspect
from collections.abc import Sequence
from typing import Any

_HOOKS = (
    ("batch", "timing_raw", "rollout_data_dir"),  # V1, of verl 0.8 and later
    ("batch", "reward_extra_infos_dict", "timing_raw", "rollout_data_dir"),  # V0
)
"""Parameters of `_log_rollout_data`."""


class ExactIds:
    """Mixin for verl's trainers, before which it stands among the bases of a class.

    Raises:
        TypeError: when such a class is defined, if the trainer has no hook of a version that is known.
    """

    _keyed: Any = None
    """V1's batch while it is dumped."""

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        hook = getattr(super(), "_log_rollout_data", None)
        found = tuple(inspect.signature(hook).parameters)[1:] if hook else None
        if found not in _HOOKS:
            known = " or ".join(map(str, _HOOKS))
            raise TypeError(
                f"{cls.__name__}: ExactIds must stand before a trainer of verl whose _log_rollout_data takes {known}, "
                f"not {found}; `cocal fit` also reads what verl dumps without this mixin"
            )

    def _log_rollout_data(self, batch: Any, *more: Any) -> None:
        """verl's hook, which dumps every further field that has a value for each response."""
        if len(more) == len(_HOOKS[1]) - 1:
            super()._log_rollout_data(batch, more[0] | exact_ids(batch), *more[1:])
            return
        self._keyed = batch
        try:
            super()._log_rollout_data(batch, *more)
        finally:
            self._keyed = None

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path) -> None:
        """verl's writer, which V1 gives the names of the responses in the order of the file."""
        if self._keyed is not None:
            more = ids_by_name(reward_extra_infos_dict["uid"], self._keyed.partition_id)
            reward_extra_infos_dict = reward_extra_infos_dict | more
        super()._dump_generations(inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path)


def exact_ids(batch: Any) -> dict[str, list]:
    """Ids of a step's rollouts without padding, as fields of JSON lines (`cocal.integrations.lines.FIELDS`).

    Args:
        batch: V0's `DataProto`; its `batch` holds `prompts` (n, P), `responses` (n, R), `attention_mask` (n, P + R) and
            perhaps `response_mask` (n, R), and its `non_tensor_batch` the `uid` of each response's group.

    Returns:
        prompt_ids, response_ids and response_mask, a list for each response; group, where there is a uid; and whether
        there are images, where this is known.
    """
    tensors, others, mask = batch.batch, batch.non_tensor_batch, batch.batch["attention_mask"].bool().cpu()
    width = tensors["prompts"].shape[1]
    parts = [
        ("prompt_ids", tensors["prompts"], mask[:, :width]),
        ("response_ids", tensors["responses"], mask[:, width:]),
    ]
    if "response_mask" in tensors:
        parts.append(("response_mask", tensors["response_mask"], mask[:, width:]))
    found = {name: [row[keep].tolist() for row, keep in zip(ids.cpu(), kept, strict=True)] for name, ids, kept in parts}
    if "uid" in others:
        found["group"] = [str(one) for one in others["uid"]]
    if "multi_modal_inputs" in others:
        found["multi_modal"] = [bool(one) for one in others["multi_modal_inputs"]]
    return found


def ids_by_name(names: Sequence[str], partition: str) -> dict[str, list]:
    """The same of responses of V1, which lie in verl's TransferQueue under names such as PROMPT_SESSION_PLACE."""
    import transfer_queue

    fields = {"prompt_ids": "prompts", "response_ids": "responses", "response_mask": "response_mask"}
    data = transfer_queue.kv_batch_get(keys=[*names], partition_id=partition, select_fields=[*fields.values()])
    found = {name: [row.tolist() for row in data[field].unbind()] for name, field in fields.items()}
    return found | {"group": [name.rsplit("_", 2)[0] for name in names]}
