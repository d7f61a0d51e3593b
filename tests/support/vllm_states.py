"""Hidden states as vLLM holds them, for comparison with ours. Runs in vLLM's environment:

    vllm_states.py CHECKPOINT ROWS.json STATES.npy

ROWS.json: pairs of prompt and response ids. STATES.npy: float32 (rows, layers, 3, hidden), every block's output pooled
as last response token, mean over the response, last prompt token.
"""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1, KVConnectorMetadata, SupportsHMA

POOLED: dict[int, torch.Tensor] = {}
TOKENS_A_STEP = 64
"""Fewer than all rows have, and more than the longest one: a row may be read in two steps."""


@dataclass
class Ready(KVConnectorMetadata):
    """Rows whose last token is read in this step: row, prompt length, length, blocks."""

    rows: list[tuple[int, int, int, list[int]]] = field(default_factory=list)


class PooledStates(KVConnectorBase_V1, SupportsHMA):
    """Pools what vLLM's `extract_hidden_states` keeps as if it were keys and values, when a row has been read.

    The connector that comes with vLLM copies the states of all tokens through pinned memory, which needs CUDA.
    """

    def __init__(self, vllm_config, role, kv_cache_config):
        super().__init__(vllm_config=vllm_config, role=role, kv_cache_config=kv_cache_config)
        (self._group,) = range(len(kv_cache_config.kv_cache_groups))  # of a model this small, all caches share one
        self._reading = {}

    # in the scheduler: which rows end in this step

    def build_connector_meta(self, scheduler_output):
        ready = Ready()
        computed = {}
        for new in scheduler_output.scheduled_new_reqs:
            facts = new.sampling_params.extra_args
            blocks = list(new.block_ids[self._group])
            self._reading[new.req_id] = (facts["row"], facts["prompt"], len(new.prompt_token_ids), blocks)
            computed[new.req_id] = new.num_computed_tokens
        old = scheduler_output.scheduled_cached_reqs
        for request, blocks, done in zip(old.req_ids, old.new_block_ids, old.num_computed_tokens, strict=True):
            if request in self._reading:
                self._reading[request][3].extend(blocks[self._group] if blocks else [])
                computed[request] = done
        for request, done in computed.items():
            if done + scheduler_output.num_scheduled_tokens[request] >= self._reading[request][2]:
                ready.rows.append(self._reading.pop(request))
        return ready

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        return 0, False

    def update_state_after_alloc(self, request, blocks, num_external_tokens):
        pass

    def request_finished_all_groups(self, request, block_ids):
        return False, None

    # beside the model

    def register_kv_caches(self, kv_caches):
        from vllm.config import get_layers_from_vllm_config
        from vllm.model_executor.models.extract_hidden_states import CacheOnlyAttentionLayer

        (name,) = get_layers_from_vllm_config(self._vllm_config, CacheOnlyAttentionLayer, list(kv_caches))
        self._states = kv_caches[name]  # blocks, layers, tokens, hidden

    def wait_for_save(self):
        size = self._states.shape[2]
        for row, prompt, length, blocks in self._get_connector_metadata().rows:
            places = (torch.tensor(blocks)[:, None] * size + torch.arange(size)).flatten()[:length]
            states = self._states[places // size, :, places % size]
            POOLED[row] = torch.stack([states[-1], states[prompt:].mean(dim=0), states[prompt - 1]], dim=1)

    def start_load_kv(self, forward_context, **kwargs):
        pass

    def wait_for_layer_load(self, layer_name):
        pass

    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs):
        pass


def main(checkpoint: Path, rows: list[tuple[list[int], list[int]]]) -> np.ndarray:
    """Pooled states of the rows."""
    import torch._dynamo
    from vllm import LLM, SamplingParams, TokensPrompt

    torch._dynamo.config.disable = True
    blocks = json.loads((checkpoint / "config.json").read_text())["num_hidden_layers"]
    # id k is the state after k blocks: the zero-based block l is l + 1
    hidden = {"eagle_aux_hidden_state_layer_ids": list(range(1, blocks + 1))}
    llm = LLM(
        str(checkpoint),
        dtype="float32",
        enforce_eager=True,
        kv_cache_memory_bytes=2**28,
        enable_prefix_caching=False,
        max_num_batched_tokens=TOKENS_A_STEP,
        max_num_seqs=4,
        speculative_config={
            "method": "extract_hidden_states",
            "num_speculative_tokens": 1,
            "draft_model_config": {"hf_config": hidden},
        },
        kv_transfer_config={
            "kv_connector": "PooledStates",
            "kv_connector_module_path": "vllm_states",
            "kv_role": "kv_producer",
        },
    )
    from vllm_states import POOLED as pooled  # vLLM's import of this file, not the script itself

    llm.generate(
        [TokensPrompt(prompt_token_ids=prompt + response) for prompt, response in rows],
        [
            SamplingParams(max_tokens=1, detokenize=False, extra_args={"row": row, "prompt": len(prompt)})
            for row, (prompt, _) in enumerate(rows)
        ],
        use_tqdm=False,
    )
    return torch.stack([pooled[row] for row in range(len(rows))]).numpy()


if __name__ == "__main__":
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_NO_USAGE_STATS="1", VLLM_CPU_OMP_THREADS_BIND="nobind")
    source, rows, target = map(Path, sys.argv[1:])
    np.save(target, main(source, json.loads(rows.read_text())))
