"""Exact token ids in the rollouts that verl dumps (`trainer.rollout_data_dir`).

verl writes the decoded texts of a step without their special tokens. This mixin gives its own writer the ids as further
fields, and `cocal fit` then reads these instead of the texts. docs/formats.md shows where it is put. States are not
captured: the policy lies in other processes.
"""

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer

_HOOKS = (
    ("batch", "timing_raw", "rollout_data_dir"),  # V1
    ("batch", "reward_extra_infos_dict", "timing_raw", "rollout_data_dir"),  # V0
)
"""Parameters of `_log_rollout_data`."""


class ExactIds(RayPPOTrainer if TYPE_CHECKING else object):
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
            raise TypeError(
                f"{cls.__name__}: ExactIds must stand before a trainer of verl whose _log_rollout_data takes "
                f"{_HOOKS[0]} or {_HOOKS[1]}, not {found}; `cocal fit` also reads what verl dumps without it"
            )

    def _log_rollout_data(self, batch: Any, *more: Any) -> None:
        """verl's hook, which dumps every further field that has a value for each response."""
        if len(more) == 3:
            return super()._log_rollout_data(batch, more[0] | exact_ids(batch), *more[1:])
        self._keyed = batch
        super()._log_rollout_data(batch, *more)
        self._keyed = None

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path) -> None:
        """verl's writer. V1 names the responses in the order of the file: PROMPT_SESSION_OUTPUT."""
        if self._keyed is not None:
            import transfer_queue

            names = reward_extra_infos_dict["uid"]
            fields = {"prompt_ids": "prompts", "response_ids": "responses", "response_mask": "response_mask"}
            data = transfer_queue.kv_batch_get(
                keys=names, partition_id=self._keyed.partition_id, select_fields=[*fields.values()]
            )
            more = {name: [row.tolist() for row in data[field].unbind()] for name, field in fields.items()}
            more["group"] = [name.rsplit("_", 2)[0] for name in names]
            reward_extra_infos_dict = reward_extra_infos_dict | more
        super()._dump_generations(inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path)


def exact_ids(batch: Any) -> dict[str, list]:
    """Ids of a step's rollouts without padding, as fields of JSON lines (`cocal.integrations.lines.FIELDS`).

    Args:
        batch: V0's `DataProto`; its `batch` holds `prompts` (n, P), `responses` (n, R), `attention_mask` (n, P + R) and
            perhaps `response_mask` (n, R), and its `non_tensor_batch` the `uid` of each response's group.

    Returns:
        prompt_ids, response_ids and response_mask, a list for each response, and group, where there is a uid.
    """
    tensors, mask = batch.batch, batch.batch["attention_mask"].bool().cpu()
    width = tensors["prompts"].shape[1]
    parts = {"prompt_ids": ("prompts", mask[:, :width]), "response_ids": ("responses", mask[:, width:])}
    if "response_mask" in tensors:
        parts["response_mask"] = "response_mask", mask[:, width:]
    found = {
        name: [row[keep].tolist() for row, keep in zip(tensors[field].cpu(), kept, strict=True)]
        for name, (field, kept) in parts.items()
    }
    if "uid" in batch.non_tensor_batch:
        found["group"] = [str(one) for one in batch.non_tensor_batch["uid"]]
    return found
