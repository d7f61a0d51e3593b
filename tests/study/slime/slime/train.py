"""In slime's place: reads its arguments, samples, calls the hooks, dumps and saves as documented. Trains nothing.

Its state is the last save: what came after it is sampled again by the next run.
"""

import argparse
import asyncio
import importlib
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import torch

from cocal.models.loading import load_policy
from cocal.models.text import chat_ids
from cocal_study.generation.engines import Sampling
from cocal_study.generation.transformers_engine import TransformersEngine

FLAGS = ["hf-checkpoint", "ref-load", "load", "save", "save-hf", "prompt-data", "custom-rm-path", "reward-key"]
FLAGS += ["custom-reward-post-process-path", "custom-advantage-function-path", "save-debug-rollout-data"]
NUMBERS = ["save-interval", "num-rollout", "rollout-batch-size", "n-samples-per-prompt", "rollout-max-response-len"]


def function(path: str):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def holds_lock(run: Path) -> bool:
    """True if this process, which writes into the run folder, has been given the folder's lock."""
    lock = run.with_name(f".{run.name}.lock").stat()
    opened = [file.stat() for file in Path("/proc/self/fd").iterdir() if file.exists()]
    return any(os.path.samestat(lock, one) for one in opened)


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for flag in FLAGS:
        parser.add_argument(f"--{flag}")
    for flag in NUMBERS:
        parser.add_argument(f"--{flag}", type=int)
    args, _ = parser.parse_known_args()
    assert holds_lock(Path(args.prompt_data).parent), "a second run could start beside this process"
    lines = Path(args.prompt_data).read_text().splitlines()
    saved = Path(args.load) / "latest.txt"
    start = int(saved.read_text()) + 1 if saved.exists() else 0
    print("starting at rollout", start, flush=True)
    policy = load_policy(args.hf_checkpoint)
    tokenizer = policy.tokenizer
    engine = TransformersEngine.of(policy, batch_size=64)
    for rollout in range(start, args.num_rollout):
        if os.environ.get("STOP_AT") == str(rollout):
            raise SystemExit("stopped")
        first = rollout * args.rollout_batch_size
        asked = [json.loads(line) for line in lines[first : first + args.rollout_batch_size]]
        samples = sample_step(args, rollout, asked, engine, tokenizer)
        post_process = function(args.custom_reward_post_process_path)
        raw, rewards = post_process(args, samples)
        assert len(raw) == len(rewards) == len(samples)
        if args.custom_advantage_function_path:
            vectors = [torch.tensor(sample.teacher_log_probs) for sample in samples]
            data = {"teacher_log_probs": vectors, "log_probs": vectors}
            function(args.custom_advantage_function_path)(args, data)
            assert [len(row) for row in data["advantages"]] == [sample.response_length for sample in samples]
        path = Path(args.save_debug_rollout_data.format(rollout_id=rollout))
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"rollout_id": rollout, "samples": [vars(sample) for sample in samples]}, path)
        if (rollout + 1) % args.save_interval == 0:
            shutil.copytree(args.hf_checkpoint, args.save_hf.format(rollout_id=rollout), dirs_exist_ok=True)
            Path(args.save).mkdir(parents=True, exist_ok=True)
            (Path(args.save) / "latest.txt").write_text(str(rollout))


def sample_step(args, rollout, asked, engine, tokenizer) -> list[SimpleNamespace]:
    ids = chat_ids(tokenizer, [entry["prompt"][0]["content"] for entry in asked])
    size = args.n_samples_per_prompt
    sampling = Sampling(1.0, 0, 1.0, 0.0, max_tokens=args.rollout_max_response_len, samples=size)
    groups = engine.generate(ids, sampling, [10_000 * rollout + size * k for k in range(len(ids))])
    samples = []
    for place, (entry, prompt, group) in enumerate(zip(asked, ids, groups, strict=True)):
        for completion in group:
            sample = SimpleNamespace(
                group_index=rollout * len(asked) + place,
                index=len(samples),
                prompt=tokenizer.decode(prompt),
                tokens=[*prompt, *completion.token_ids],
                response=tokenizer.decode(completion.token_ids),
                response_length=len(completion.token_ids),
                label=entry["label"],
                metadata=entry["metadata"],
                reward=None,
                loss_mask=None,
                rollout_log_probs=completion.logprobs.tolist(),
                status="completed" if completion.finish_reason == "stop" else "truncated",
            )
            samples.append(sample)

    async def judge():
        reward = function(args.custom_rm_path)
        return await asyncio.gather(*(reward(args, sample) for sample in samples))

    for sample, found in zip(samples, asyncio.run(judge()), strict=True):
        sample.reward = found
    return samples


if __name__ == "__main__":
    main()
