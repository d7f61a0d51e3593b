"""Memory of a study on a GPU, from the shapes of its models: the arithmetic, and what it refuses."""

import pytest

from cocal_study.config.study import configured_study
from cocal_study.resources.memory import (
    GIB,
    GPUS,
    HELD,
    OVERHEAD,
    fitting_card,
    gpu_of,
    held_by,
    least_memory,
    parameters_of,
    shape_of,
    too_small,
)
from planned_jobs import rules_of_any_study


@pytest.fixture
def study(repository):
    def changed(**changes):
        return configured_study([repository / "config/single-gpu.yaml"], changes)

    return changed


@pytest.mark.parametrize(("name", "published"), [("qwen3-0.6b", 596_049_920), ("qwen3-1.7b", 1_720_574_976)])
def test_parameters_are_those_of_the_published_model(study, name, published):
    """Which has norms besides: two of the width and two of a head in each block, and the final one."""
    backbone = study().backbones[name]
    norms = backbone.depth * 2 * (backbone.width + shape_of(backbone).head_dim) + backbone.width
    assert parameters_of(backbone) + norms == published


def test_an_update_holds_weights_gradients_moments_and_copies(study, repository):
    """In float32: 4 bytes of a weight, its gradient and each moment, autocast's 2; or vLLM's share beside weights."""
    large = study(card="80gb", policy={"trl": {"vllm": False}})
    count = parameters_of(large.backbones["qwen3-1.7b"])
    assert least_memory(large, "update", 80) == pytest.approx((18 * count + OVERHEAD) / GIB)
    small = study(policy={"trl": {"vllm": False}})
    assert least_memory(small, "update", 24) == pytest.approx((10 * count + OVERHEAD) / GIB), "its moments: the host"
    rollouts = 4 * count / GIB + 0.9 * 24
    crowded = study(cards={"24gb": {"settings": {"policy": {"trl": {"vllm_memory_share": 0.9}}}}})
    assert least_memory(crowded, "update", 24) == pytest.approx(rollouts + OVERHEAD / GIB)
    nodes = {"policy": {"trl": {"nodes": 2, "vllm_memory_share": 0.01}}}
    paper = configured_study([repository / "config/paper.yaml"], {"card": None} | nodes)
    sharded = 16 * parameters_of(paper.backbones["qwen3-14b"]) / 16
    assert least_memory(paper, "update", 179) == pytest.approx((sharded + OVERHEAD) / GIB), "two nodes of eight"
    assert least_memory(small, "engine and policy", 24) == pytest.approx(0.6 * 24 + (2 * count + OVERHEAD) / GIB)


def test_the_judge_of_the_paper_study_fits_a_card_of_80_gb(repository):
    """Weights of Qwen2.5-32B and the cache of the longest sequence (64 layers of 8 heads of 128), in vLLM's share."""
    judge = configured_study([repository / "config/paper.yaml"], {"card": "80gb"}).judge
    cache = judge.engine.max_length * 2 * 64 * 8 * 128 * 2
    assert 2 * 32.76e9 + cache + 3 * GIB < judge.engine.memory_share * 79.6 * GIB


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


def test_a_card_that_is_too_small_is_told_what_lowers_it(study):
    """On 24 GB, the moments of Qwen3-1.7B have no place."""
    (found,) = too_small(study(cards={"24gb": {"settings": {"policy": {"trl": {"moments": "device"}}}}}), 23.99)
    assert found.startswith("qwen3-1.7b, update: at least 31.5 GiB, and the GPU has 24.0 GiB: set policy.trl.moments:")
    share = {"cards": {"24gb": {"settings": {"policy": {"trl": {"vllm_memory_share": 0.15}}}}}}
    (found,) = too_small(study(**share), 23.99)
    assert found == "qwen3-1.7b: vLLM needs 4.7 GiB, but its share is 3.6 GiB: raise policy.trl.vllm_memory_share"
    assert too_small(study(**share), 23.99, ["features"]) == [], "a job that is left"


def test_gpus_are_known_by_the_names_of_drivers_and_clusters():
    names = ("NVIDIA GeForce RTX 4090", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "h200", "NVIDIA B200")
    assert tuple(map(gpu_of, names)) == GPUS
    assert gpu_of("nvidia_l4") is None


def test_each_gpu_gets_the_card_that_fits_it(study):
    assert [fitting_card(study(), gpu.memory) for gpu in GPUS] == ["24gb", "80gb", "80gb", "80gb", "80gb"]
    assert fitting_card(study(), 12) is None


def test_a_rule_asks_for_a_gpu_where_its_jobs_hold_something_there():
    asking = {name for name, rule in rules_of_any_study().items() if rule.gpus}
    assert asking == {name for name in rules_of_any_study() if held_by(name)}
    assert {held_by(name) for name in ("table_online", "figure_online", "questions")} == {None}
    found = [held_by(name) for name in ("train_grpo", "factual_responses", "prompt_features", "latency")]
    assert found == ["update", "engine", "policy", "engine and policy"]


def test_the_page_has_the_memory_of_the_largest_job(study, repository):
    page = (repository / "docs/single-gpu.md").read_text()
    for name, label in (("qwen3-0.6b", "Qwen3-0.6B"), ("qwen3-1.7b", "Qwen3-1.7B")):
        cells = []
        for gpu in GPUS[:3]:
            whole = study(card=fitting_card(study(), gpu.memory))
            one = whole.model_copy(update={"backbones": {name: whole.backbones[name]}})
            cells.append(f"{max(least_memory(one, kind, gpu.memory) for kind in HELD.values()):.1f} GiB")
        assert f"| least memory of the largest job, {label} | {' | '.join(cells)} |" in page
