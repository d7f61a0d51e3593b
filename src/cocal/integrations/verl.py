"""Exact token ids in the rollouts that verl dumps (`trainer.rollout_data_dir`).

verl writes the decoded texts of a step without their special tokens. This mixin gives its own writer the ids as further
fields, and `cocal fit` then reads these instead of the texts:

    from cocal.integrations.verl import ExactIds
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer

    class Trainer(ExactIds, RayPPOTrainer):
        pass

verl's `main_ppo.TaskRunner.run` names the class of the trainer, and is where to put this one. States are not captured:
the policy lies in other processes.
"""

from typing import Any


class ExactIds:
    """Mixin for verl's `RayPPOTrainer`, before which it stands among the bases of a class."""

    def _log_rollout_data(
        self, batch: Any, reward_extra_infos_dict: dict, timing_raw: dict, rollout_data_dir: str
    ) -> None:
        """verl's hook, which dumps every further field that has a value for each response."""
        more = reward_extra_infos_dict | exact_ids(batch)
        super()._log_rollout_data(batch, more, timing_raw, rollout_data_dir)


def exact_ids(batch: Any) -> dict[str, list]:
    """Ids of a step's rollouts without padding, as fields of JSON lines (`cocal.integrations.lines.FIELDS`).

    Args:
        batch: verl's `DataProto`; its `batch` holds `prompts` (n, P), `responses` (n, R) and `attention_mask`
            (n, P + R), and its `non_tensor_batch` the `uid` of each response's group.

    Returns:
        prompt_ids and response_ids, a list of ids for each response, and group, where there is a uid.
    """
    tensors, mask = batch.batch, batch.batch["attention_mask"].bool().cpu()
    width = tensors["prompts"].shape[1]
    parts = (
        ("prompt_ids", tensors["prompts"], mask[:, :width]),
        ("response_ids", tensors["responses"], mask[:, width:]),
    )
    found = {name: [row[keep].tolist() for row, keep in zip(ids.cpu(), kept, strict=True)] for name, ids, kept in parts}
    if "uid" in batch.non_tensor_batch:
        found["group"] = [str(one) for one in batch.non_tensor_batch["uid"]]
    return found
