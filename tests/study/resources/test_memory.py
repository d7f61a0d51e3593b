"""Memory of a study on a GPU, from the shapes of its models: the arithmetic, and what it refuses."""

import re

import pytest

from cocal.cli import main
from cocal_study.config.load import configured_study
from cocal_study.resources.estimate import Assumptions
from cocal_study.resources.forecast import GPUS, assumptions_on, fitting_card, gpu_of, outlook
from cocal_study.resources.memory import GIB, OVERHEAD, needs, shares, too_small
from cocal_study.resources.shapes import cache_bytes, parameters_of, shape_of


@pytest.fixture
def study(repository):
    def changed(**changes):
        return configured_study([repository / "config/single-gpu.yaml"], changes)

    return changed


def _of(study, backbone, job, memory=80):
    return next(need.parts for need in needs(study, backbone, memory * GIB) if need.job == job)


@pytest.mark.parametrize("name", ["qwen3-0.6b", "qwen3-1.7b"])
def test_parameters_are_those_of_the_model(study, name):
    """Of transformers' own model of this shape, which has norms besides."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    backbone = study().backbones[name]
    shape = shape_of(backbone)
    config = Qwen3Config(
        vocab_size=shape.vocabulary,
        hidden_size=backbone.width,
        num_hidden_layers=backbone.depth,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.intermediate_size,
        tie_word_embeddings=shape.tied,
    )
    with torch.device("meta"):
        model = Qwen3ForCausalLM(config)
    norms = sum(p.numel() for key, p in model.named_parameters() if "norm" in key)
    assert parameters_of(backbone) == sum(p.numel() for p in model.parameters()) - norms
    published = {"qwen3-0.6b": 596_049_920, "qwen3-1.7b": 1_720_574_976}
    assert parameters_of(backbone) + norms == published[name]
    cache = 2 * backbone.depth * config.num_key_value_heads * config.head_dim * 2
    assert cache_bytes(backbone, 7) == 7 * cache == 7 * 114_688


def test_the_update_holds_weights_gradients_and_moments_in_single_precision(study):
    large = study(card="80gb")
    count = parameters_of(large.backbones["qwen3-1.7b"])
    parts = _of(large, "qwen3-1.7b", "update of grpo")
    assert (parts["weights"], parts["gradients"], parts["moments"]) == (4 * count, 4 * count, 8 * count)
    assert parts["bfloat16 copies"] == 2 * count
    small = _of(study(), "qwen3-1.7b", "update of grpo")
    assert "moments" not in small
    assert small["gradients"] == 4 * count
    assert parts["activations"] == 8 * small["activations"], "of eight times as many responses"
    head = 4 * 151_936 * 2048
    assert head < small["gradient of the head"] < 1.5 * head, "TRL makes it in float32 beside all the others"
    plain = study(card="80gb", policy={"gradient_checkpointing": False})
    assert _of(plain, "qwen3-1.7b", "update of grpo")["activations"] > 3 * parts["activations"]


def test_sharded_weights_are_spread_over_all_gpus(repository):
    paper = configured_study([repository / "config/paper.yaml"], {})
    two = configured_study([repository / "config/paper.yaml"], {"policy": {"trl": {"nodes": 2}}})
    count = parameters_of(paper.backbones["qwen3-14b"])
    assert _of(paper, "qwen3-14b", "update of grpo")["moments"] == count
    assert _of(two, "qwen3-14b", "update of grpo")["moments"] == count / 2


def test_whole_weights_lie_on_every_gpu_before_they_are_sharded(repository):
    """As the checkpoint has them beside vLLM, and in float32 when vLLM sleeps."""
    paper = configured_study([repository / "config/paper.yaml"], {"card": "80gb"})
    count = parameters_of(paper.backbones["qwen3-14b"])
    beside, sharding = (_of(paper, "qwen3-14b", f"{job} of grpo") for job in ("loading", "sharding"))
    assert (beside["weights"], beside["vLLM"]) == (2 * count, 0.5 * 80 * GIB)
    assert (sharding["whole weights"], sharding["shards"]) == (4 * count, count / 2)
    assert 4 * count + beside["vLLM"] > 80 * GIB, "in float32 they would not fit beside vLLM"
    plain = configured_study([repository / "config/single-gpu.yaml"], {})
    assert not [need.job for need in needs(plain, "qwen3-1.7b", 24 * GIB) if "loading" in need.job]


def test_the_states_pass_holds_the_logits_in_both_formats(study):
    """accelerate turns a model's bfloat16 outputs into float32 ones (`convert_outputs_to_fp32`). Where vLLM gives the
    log-probabilities, it has none."""
    rows = 2048 * 151_936
    warm = study(policy={"temperature": 0.8})
    assert _of(warm, "qwen3-1.7b", "states of grpo")["logits"] == (2 + 4) * rows + 2 * 4 * rows
    assert "logits" not in _of(study(), "qwen3-1.7b", "states of grpo")


def test_the_judge_of_the_paper_study_fits_a_card_of_80_gb(repository):
    """Weights of Qwen2.5-32B and the cache of the longest sequence (64 layers of 8 heads of 128), in vLLM's share."""
    judge = configured_study([repository / "config/paper.yaml"], {"card": "80gb"}).judge
    cache = judge.engine.max_length * 2 * 64 * 8 * 128 * 2
    assert 2 * 32.76e9 + cache + 3 * GIB < judge.engine.memory_share * 79.6 * GIB


def test_vllm_takes_its_share_beside_the_policy(study):
    parts = _of(study(), "qwen3-1.7b", "resampling and timing", memory=24)
    assert parts["vLLM"] == 0.6 * 24 * GIB
    assert parts["policy"] == 2 * parameters_of(study().backbones["qwen3-1.7b"])
    rollouts, responses = shares(study(), "qwen3-1.7b")
    assert rollouts.parts["cache"] == (3072 + 512) * 114_688, "the longest rollout is RLCR's"
    assert responses.parts["cache"] == (4096 + 512) * 114_688
    assert responses.bytes == parts["policy"] + responses.parts["cache"] + OVERHEAD


@pytest.mark.parametrize(
    ("file", "card", "memory"),
    [
        ("single-gpu", "24gb", 23.99),
        ("single-gpu", "80gb", 79.65),
        ("paper", "80gb", 79.65),
        ("paper", "h200", 140.4),
        ("paper", "b200", 179.06),
    ],
)
def test_the_cards_of_the_studies_are_large_enough(repository, file, card, memory):
    fits = configured_study([repository / f"config/{file}.yaml"], {"card": card})
    assert too_small(fits, memory) == []
    assert too_small(fits, memory / 2) != []


def test_a_card_that_is_too_small_is_told_what_takes_the_memory(study):
    """On 24 GB, the moments of Qwen3-1.7B have no place."""
    found = too_small(study(cards={"24gb": {"settings": {"policy": {"trl": {"moments": "device"}}}}}), 23.99)
    assert [sentence.split()[1] for sentence in found] == ["update", "rollouts", "states"]
    assert found[0].startswith("qwen3-1.7b, update of rlcr: weights 6.4, gradients 6.4, moments 12.8, ")
    assert "are more than the 24.0 GiB of the GPU: lower policy.micro_batch" in found[0]
    assert "policy.trl.moments" in found[0]
    share = {"cards": {"24gb": {"settings": {"policy": {"trl": {"vllm_memory_share": 0.15}}}}}}
    (found,) = too_small(study(**share), 23.99)
    assert "its share is 3.6 GiB: raise policy.trl.vllm_memory_share = 0.15" in found


def test_gpus_are_known_by_the_names_of_drivers_and_clusters():
    names = ("NVIDIA GeForce RTX 4090", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "h200", "NVIDIA B200")
    assert tuple(map(gpu_of, names)) == GPUS
    assert gpu_of("nvidia_l4") is None


def test_times_scale_with_the_data_sheets():
    """An RTX 4090 has an eighth of the bandwidth and 7.3 % of the rate of a B200."""
    small, same = (assumptions_on(GPUS[k], Assumptions()) for k in (0, -1))
    assert same == Assumptions()
    assert (small.bandwidth, small.peak_teraflops) == (pytest.approx(1.008), pytest.approx(165.2))
    assert small.companion_seconds == pytest.approx(15.1 * 2250 / 165.2)


def test_each_gpu_gets_the_card_that_fits_it(study, repository):
    assert [fitting_card(study(), gpu.memory) for gpu in GPUS] == ["24gb", "80gb", "80gb", "80gb", "80gb"]
    assert fitting_card(study(), 12) is None
    lines = outlook(study(), lambda card: study(card=card), Assumptions())
    rows = {line.split("  ")[0]: line for line in lines}
    assert rows["card"].split()[1:] == ["24gb", *["80gb"] * 4]
    *cells, papers = re.findall(r"[0-9.]+", rows["GPU-hours: total"].partition("total")[2])
    low, high = ([float(cell) for cell in cells[k::2]] for k in (0, 1))
    assert low == sorted(low, reverse=True), "from the slowest to the fastest"
    assert all(one < other for one, other in zip(low, high, strict=True))
    assert float(papers) > 0
    assert outlook(configured_study([repository / "config/config.yaml"], {}), study, Assumptions()) == []


def test_the_plan_shows_hours_and_memory(repository, monkeypatch, capsys):

    monkeypatch.setattr("cocal_study.commands.study.jobs_left", lambda *_: {"train_grpo": 2})
    assert main(["plan", "--study", str(repository / "config/single-gpu.yaml")]) == 0
    printed = capsys.readouterr().out
    (header,) = (line for line in printed.splitlines() if "RTX 4090" in line)
    assert re.split("  +", header.strip()) == [*(gpu.label for gpu in GPUS), "paper's times"]
    assert "most: qwen3-1.7b" in printed
    assert "too small" not in printed
