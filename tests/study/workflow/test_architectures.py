"""The smoke study over checkpoints of other architectures, from their pre-training on the corpus to all exhibits."""

import shutil

import pandas as pd
import pytest
import torch
import transformers
import yaml
from transformers import AutoModelForCausalLM

import started

SIZE = {"vocab_size": 384, "hidden_size": 48, "num_hidden_layers": 2, "intermediate_size": 88, "head_dim": 20}
HEADS = {"num_attention_heads": 3, "num_key_value_heads": 1}
ENDS = {"bos_token_id": None, "eos_token_id": 2, "pad_token_id": 0}
WITH_SYSTEM = (
    "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou add and subtract.<|im_end|>\n' }}{% endif %}"
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""A chat template that adds a system text of its own, as SmolLM2's does."""
OTHERS = {"Llama": (True, WITH_SYSTEM), "Qwen2": (False, None), "Gemma": (True, None)}
"""By the beginnings of their names in transformers: whether the output layer is the embedding, and the template."""


@pytest.mark.long
@pytest.mark.parametrize("name", OTHERS)
def test_the_smoke_study_runs_over_another_architecture(name, repository, micro_checkpoint, tmp_path):
    tied, template = OTHERS[name]
    torch.manual_seed(5)
    config = getattr(transformers, f"{name}Config")(**SIZE, **HEADS, **ENDS, tie_word_embeddings=tied)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / name)
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(micro_checkpoint / file, tmp_path / name)
    if template:
        (tmp_path / name / "chat_template.jinja").write_text(template)
    start = {"source": "checkpoint", "label": name, "path": str(tmp_path / name), "depth": 2, "width": 48}
    study = yaml.safe_load((repository / "config/smoke.yaml").read_text())
    trained = {"source": "pretraining", "label": name, "steps": 150, "batch_size": 8, "learning_rate": 4.0e-3}
    study |= {"study": name.lower(), "backbones": {"other": trained | {"from": start}}}
    study["policy"]["algorithms"] = ["grpo"]
    study["numerics"] = "bfloat16" if name == "Llama" else "portable"  # as the laptop study
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    flags = ["--cores", "2", "--directory", str(tmp_path), "--configfile", str(tmp_path / "study.yaml")]
    done = started.snakemake(flags, repository)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    results = tmp_path / "results"
    numbers = pd.read_csv(results / "tables/main.csv")
    assert numbers["backbone"].eq("other").all() if "backbone" in numbers else not numbers.empty
    confidences = numbers[(numbers["method"] == "cocal-binary") & (numbers["metric"] == "mean_confidence")]["value"]
    assert confidences.between(0, 1).all()
    prompt = pd.read_parquet(next(results.glob("rollouts/other/grpo/*.parquet")))["prompt_ids"].iloc[0]
    tokenizer = transformers.AutoTokenizer.from_pretrained(results / "policies/other/base/step-0")
    assert ("You add and subtract." in tokenizer.decode(prompt)) == (template is not None)
