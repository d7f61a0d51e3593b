"""Memory that the jobs of a study need on a GPU, computed from the shapes of its models before anything is loaded.

Every number is of one GPU. Weights, gradients, moments and caches are exact; activations are rough, and what allocators
and kernels waste is in `OVERHEAD`.
"""

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple, get_args

from cocal.settings.base import Algorithm
from cocal_study.config.study import Study
from cocal_study.resources.estimate import Memory, memory_of
from cocal_study.resources.shapes import HALF, SINGLE, cache_bytes, parameters_of, shape_of

GIB = 2**30
OVERHEAD = 1.5 * GIB
"""Bytes of the context of CUDA, of CUDA graphs and of what the allocator cannot use, for each process."""
PROMPT = 512
"""Assumed length of the longest prompt in tokens."""
_TILE = 4096, 32_768
"""Tokens and columns of the logits that TRL's fused head holds at a time (`trl.kernels.chunked_logprob`)."""


class Need(NamedTuple):
    """Memory of one kind of job on one GPU."""

    kind: Memory
    """Its kind in the table of rules (`cocal_study.resources.estimate`)."""
    job: str
    """The job in words."""
    parts: dict[str, float]
    """Bytes of everything that lies on the GPU, or in vLLM's share of it, at the same time, by what it is."""
    keys: str
    """Keys of the study that lower it, or the key of vLLM's share."""
    share: float = 1.0
    """Share of the GPU's memory in which it must fit."""

    @property
    def bytes(self) -> float:
        """Bytes of all of it."""
        return sum(self.parts.values())


def needs(study: Study, name: str, memory: float) -> Iterator[Need]:
    """Memory of every kind of job of a backbone on a GPU of `memory` bytes, of which vLLM takes its share."""
    one = _Jobs(study, name, memory)
    for algorithm in study.policy.algorithms:
        yield from one.training(algorithm)
    yield from one.sampling()
    yield one.features()
    yield one.companions()


def shares(study: Study, name: str) -> Iterator[Need]:
    """Weights, a cache for the longest sequence and the overhead, which vLLM must find in its shares for a backbone."""
    one = _Jobs(study, name, 0)
    if study.policy.trl.vllm and study.policy.engine == "trl":
        parts = one.engine(max(study.policy.max_response_length[a] for a in study.policy.algorithms) + PROMPT)
        share = study.policy.trl.vllm_memory_share
        yield Need("update", "rollouts", parts, "policy.trl.vllm_memory_share", share)
    engine = study.generation.engine
    if engine.kind == "vllm":
        parts = one.engine(one.longest, engine.tensor_parallel)
        yield Need("engine", "responses", parts, "generation.engine.memory_share", engine.memory_share)


def most(study: Study, memory: float) -> dict[str, Need]:
    """The job of each backbone that needs most memory on a GPU of `memory` GiB."""
    return {name: max(needs(study, name, memory * GIB), key=lambda need: need.bytes) for name in study.backbones}


def too_small(study: Study, memory: float, rules: Collection[str] | None = None) -> list[str]:
    """A sentence for each backbone and kind of job that a GPU of `memory` GiB is too small for, with what takes the
    memory and which keys lower it; an empty list if all fit. The judge is not counted: its shape is not known.

    Args:
        rules: Rules of the jobs that count; by default those of all.
    """
    kinds = {*get_args(Memory)} if rules is None else memory_of(rules)
    found = []
    for name in study.backbones:
        worst: dict[str, Need] = {}
        for need in needs(study, name, memory * GIB):
            if need.kind in kinds and need.bytes > memory * GIB:
                job = need.job.partition(" of ")[0]
                worst[job] = max(worst.get(job, need), need, key=lambda one: one.bytes)
        found += [
            f"{name}, {need.job}: {_listed(need.parts)}, together {need.bytes / GIB:.1f} GiB, are more than the "
            f"{memory:.1f} GiB of the GPU: lower {need.keys}"
            for need in worst.values()
        ]
        found += [
            f"{name}, {one.job}: vLLM needs {_listed(one.parts)}, together {one.bytes / GIB:.1f} GiB, but its share is "
            f"{one.share * memory:.1f} GiB: raise {one.keys} = {one.share:g}"
            for one in shares(study, name)
            if one.bytes > one.share * memory * GIB and one.kind in kinds
        ]
    return found


def _listed(parts: dict[str, float]) -> str:
    return ", ".join(f"{name} {size / GIB:.1f}" for name, size in parts.items())


class _Jobs:
    """The jobs of one backbone."""

    def __init__(self, study: Study, name: str, memory: float):
        self._study, self._backbone, self._memory = study, study.backbones[name], memory
        self._shape = shape_of(self._backbone)
        self._vocabulary = self._shape.vocabulary
        self._parameters = parameters_of(self._backbone)
        asked = (dataset for dataset in study.datasets.values() if dataset.role == "evaluation")
        self.longest = max(dataset.max_response_length for dataset in asked) + PROMPT
        # tokens in a pass over states: those of a batch, or of the longest response
        self._batch = self._block(max(study.features.batch_tokens, self.longest))

    def training(self, algorithm: Algorithm) -> Iterator[Need]:
        """The update, Adam's step where it is the larger, and vLLM's rollouts beside the weights."""
        policy = self._study.policy
        if policy.engine != "trl":
            return
        trl, count = policy.trl, self._parameters
        parts = trl.nodes * trl.devices if trl.shard else 1
        # autocast keeps a bfloat16 copy of all weights; of sharded ones it has those of the present blocks alone
        copies = HALF * (count if parts == 1 else 2 * self._largest_block())
        master = {"weights": SINGLE * count / parts, "gradients": SINGLE * count / parts}
        tokens = policy.micro_batch * (PROMPT + policy.max_response_length[algorithm])
        # gradient checkpointing keeps the inputs of all blocks, which are the float32 residual stream
        inputs, block, depth = tokens * self._backbone.width * SINGLE, self._block(tokens), self._backbone.depth
        kept = inputs * depth + block if policy.gradient_checkpointing else block * depth
        lower = "policy.micro_batch, policy.gradient_checkpointing, policy.trl.moments or policy.trl.shard"
        kept_moments = {} if trl.moments == "host" else {"moments": 2 * SINGLE * count / parts}
        update = master | kept_moments | {"bfloat16 copies": copies, "activations": kept, "overhead": OVERHEAD}
        # the fused head makes its whole gradient in float32, which waits for that of a tied embedding until the end
        rows, columns = _TILE
        tile = (rows * columns + columns * self._backbone.width) * HALF + inputs
        update["gradient of the head"] = self._vocabulary * self._backbone.width * SINGLE + tile
        if trl.vllm:
            update["vLLM asleep"] = OVERHEAD
        yield Need("update", f"update of {algorithm}", update, lower)
        if trl.moments == "host":
            largest = max(self._vocabulary, self._shape.intermediate_size) * self._backbone.width
            one = 3 * SINGLE * largest  # its moments, and what the update makes
            step = master | {"moments of one parameter": one, "overhead": 2 * OVERHEAD}
            yield Need("update", f"step of Adam of {algorithm}", step, lower)
        if trl.shard:  # all weights as the checkpoint has them beside vLLM, then in float32 beside their own shards
            whole = {"weights": HALF * count, "vLLM": trl.vllm_memory_share * self._memory, "overhead": OVERHEAD}
            yield Need("update", f"loading of {algorithm}", whole, "policy.trl.vllm_memory_share")
            whole = {"whole weights": SINGLE * count, "shards": master["weights"], "overhead": 2 * OVERHEAD}
            yield Need("update", f"sharding of {algorithm}", whole, "the size of the model in backbones")
        if trl.vllm:
            rollouts = {"weights": master["weights"], "vLLM": trl.vllm_memory_share * self._memory}
            rollouts |= kept_moments | {"overhead": OVERHEAD}
            yield Need("update", f"rollouts of {algorithm}", rollouts, "policy.trl.vllm_memory_share")
        reading = {"weights": master["weights"], "bfloat16 copies": copies}
        if not trl.vllm or policy.temperature != 1:  # the pass also gives log-probabilities
            # of the logits of a micro-batch, which accelerate makes float32
            rows = policy.max_response_length[algorithm] * self._vocabulary
            reading["logits"] = policy.micro_batch * rows * (HALF + SINGLE) + 2 * rows * SINGLE
        reading |= kept_moments | {"activations": block, "overhead": 2 * OVERHEAD}
        yield Need("update", f"states of {algorithm}", reading, lower)

    def sampling(self) -> Iterator[Need]:
        """Responses, and the resampling and the timing that hold the policy beside its engine."""
        engine, weights = self._study.generation.engine, HALF * self._parameters
        if engine.kind == "vllm":
            own = {"vLLM": engine.memory_share * self._memory}
            lower = "generation.engine.memory_share or features.batch_tokens"
        else:
            own = {"cache": cache_bytes(self._backbone, engine.batch_size * self.longest)}
            own["logits"] = engine.batch_size * self._vocabulary * 3 * SINGLE
            lower = "generation.engine.batch_size or features.batch_tokens"
        beside = {"policy": weights, "activations": self._batch, "overhead": OVERHEAD}
        yield Need("policy", "resampling and timing", own | beside, lower)

    def features(self) -> Need:
        """Hidden states of responses."""
        parts = {"weights": HALF * self._parameters, "activations": self._batch, "overhead": OVERHEAD}
        return Need("states", "features", parts, "features.batch_tokens")

    def companions(self) -> Need:
        """Companions of all seeds and targets with their gradients and moments; they take what memory is left for
        features."""
        settings = self._study.companion
        sizes = (2 * self._backbone.width, *settings.widths, 1)
        weights = sum(a * b + 3 * b for a, b in pairwise(sizes))
        members = len(settings.targets) * len(settings.seeds)
        held = 4 * SINGLE * weights * members + settings.batch_size * members * sum(sizes) * 4 * SINGLE
        parts = {"members": held, "overhead": OVERHEAD}
        return Need("fits", "companions", parts, "companion.widths or companion.batch_size")

    def engine(self, longest: int, gpus: int = 1) -> dict[str, float]:
        """Weights of an engine in bfloat16, the cache of one sequence, and the overhead."""
        cache = cache_bytes(self._backbone, longest) / gpus
        return {"weights": HALF * self._parameters / gpus, "cache": cache, "overhead": OVERHEAD}

    def _largest_block(self) -> float:
        """Parameters of the largest unit that FSDP gathers at once: a block, or the embedding."""
        ends = (1 if self._shape.tied else 2) * self._vocabulary * self._backbone.width
        return max((self._parameters - ends) / self._backbone.depth, self._vocabulary * self._backbone.width)

    def _block(self, tokens: float) -> float:
        """Activations of a block: the residual stream and the normed inputs in float32, products in bfloat16."""
        shape = self._shape
        projected = (2 * shape.heads + 2 * shape.key_value_heads) * shape.head_dim
        return tokens * (6 * self._backbone.width * SINGLE + (2 * projected + 4 * shape.intermediate_size) * HALF)
