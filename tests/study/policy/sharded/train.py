"""`cocal train` without a GPU: FSDP over gloo, where weights are sharded, and a stand-in for vLLM.

accelerate shards on accelerators alone, so its state is told otherwise. The stand-in keeps a whole copy of the policy,
which it gets as vLLM does, weight by weight, and samples from it with our engine.
"""

import os
import sys

import torch
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType
from trl.generation import vllm_generation
from trl.trainer import grpo_trainer

from cocal.cli import main
from cocal.models.loading import load_policy
from cocal_study.generation.engines import Sampling
from cocal_study.generation.transformers_engine import TransformersEngine
from cocal_study.policy import train, trainer
from cocal_study.policy.agreement import Agreement

_plain = AcceleratorState.__init__


def _sharding(self, *arguments, fsdp_plugin=None, **options):
    """The state of a machine with accelerators."""
    _plain(self, *arguments, fsdp_plugin=fsdp_plugin, **options)
    if fsdp_plugin is not None:
        if os.environ["TEST_PRECISION"] != "no":
            fsdp_plugin.set_mixed_precision(os.environ["TEST_PRECISION"])
        self.fsdp_plugin = fsdp_plugin
    if getattr(self, "fsdp_plugin", None) is not None:
        self.distributed_type = DistributedType.FSDP


def _add_float32(self, *arguments, add=Agreement.add):
    assert self.latest.dtype == torch.float32, self.latest.dtype
    add(self, *arguments)


def _float32_batches(compute, *arguments, plain=trainer.in_trimmed_batches):
    def checked(*part):
        found = compute(*part)
        assert found.dtype == torch.float32, found.dtype
        return found

    print("all rows of a step", file=sys.stderr)
    return plain(checked, *arguments)


class StandIn:
    """Takes the place of TRL's `VLLMGeneration`."""

    def __init__(self, model, accelerator, max_completion_length, temperature, **_):
        self._model, self._longest, self._temperature = model, max_completion_length, temperature
        self._copy = load_policy(sys.argv[sys.argv.index("--base") + 1])
        self._calls, self._process = None, accelerator.process_index

    def sync_weights(self):
        """Every weight of the copy must come, under its own name."""
        weights = self._model.named_parameters()
        found = {name: p.full_tensor() if hasattr(p, "full_tensor") else p for name, p in weights}
        own = dict(self._copy.model.named_parameters())
        assert found.keys() == own.keys(), found.keys() ^ own.keys()
        with torch.no_grad():
            for name, value in found.items():
                assert value.shape == own[name].shape, name
                own[name].copy_(value)

    def generate(self, prompts, images, num_generations, profiler=None):
        """One response to each prompt, which depends on weights, process and place: a resumed run draws the same."""
        drawn = sum(float(p.detach().double().sum()) for p in self._copy.model.parameters())
        first = hash(round(drawn, 6)) % 2**20 * 2**12 + self._process * 2**10
        engine = TransformersEngine.of(self._copy, len(prompts))
        sampling = Sampling(self._temperature, 0, 1.0, 0.0, max_tokens=self._longest)
        groups = engine.generate(prompts, sampling, list(range(first, first + len(prompts))))
        ids = [group[0].token_ids for group in groups]
        off = float(os.environ.get("TEST_DIFFERENCE", "0"))
        logprobs = [[[float(value) + off] for value in group[0].logprobs] for group in groups]
        return prompts, ids, logprobs, None


if __name__ == "__main__":  # the processes of the verifier import this file, too
    AcceleratorState.__init__ = _sharding
    grpo_trainer.VLLMGeneration = StandIn
    vllm_generation.LLM = StandIn  # as if vLLM were installed
    train.require_vllm = lambda: None
    if "TEST_FUSED_HEAD" in os.environ:
        trainer.RecordingGRPOTrainer._fused_head = True
        Agreement.add, trainer.in_trimmed_batches = _add_float32, _float32_batches
    sys.exit(main(["train", *sys.argv[1:]]))
