"""Inference times: what is timed, on which questions, and that the timed routes give the evaluated confidences."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from cocal import cli
from cocal.companion.companions import load_companions
from cocal.engines.engine import Completion
from cocal.errors import ConfigError
from cocal.features.forward import score
from cocal_study.config.evaluation import GenerationSettings, TimingSettings
from cocal_study.generation import latency
from cocal_study.generation.engines import Sampling
from cocal_study.generation.latency import PromptSet, SingleCompanion, measure_latency
from cocal_study.generation.transformers_engine import TransformersEngine
from cocal_study.planning.costs import Latency, read_cost
from evaluated_study import write_companions

HIDDEN, FINAL = 32, 1
RESPONSE, PROMPT = ("last", "mean"), ("prompt",)
POOLINGS = {"pre": PROMPT, "post": RESPONSE}
SAMPLING = Sampling(temperature=0.7, top_k=20, top_p=0.8, presence_penalty=1.5, max_tokens=24)
PROMPTS = [[1, 30 + k, 40, 50][: 2 + k % 3] for k in range(12)]
TIMING = {"samples": 2, "predictions": 5, "concurrent": 8}
TICK = 0.001


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """Companions of responses and of prompts."""
    folder = tmp_path_factory.mktemp("companions")
    return {
        "post": write_companions(folder / "post", hidden=HIDDEN),
        "pre": write_companions(folder / "pre", experience="prompts", hidden=HIDDEN),
    }


@pytest.fixture(scope="module")
def routes(folders, micro_policy) -> dict[str, SingleCompanion]:
    return {name: SingleCompanion(load_companions(folders[name]), micro_policy) for name in POOLINGS}


@pytest.fixture(scope="module")
def engine(micro_policy):
    return TransformersEngine.of(micro_policy, 4)


class Clock:
    """Advances by a tick whenever it is read, and by what is planted."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self) -> float:
        self.now += TICK
        return self.now


class SlowEngine:
    """Takes a second for each response; remembers what it was asked."""

    label = "slow 1.0"

    def __init__(self, clock: Clock):
        self.clock = clock
        self.asked: list[tuple[list, Sampling, list]] = []

    def generate(self, prompts, sampling, seeds):
        self.asked.append((list(prompts), sampling, list(seeds)))
        self.clock.now += len(prompts) * sampling.samples
        completion = Completion([60, 2], np.zeros(2, dtype=np.float32), "stop")
        return [[completion] * sampling.samples for _ in prompts]


@pytest.fixture
def slow(monkeypatch) -> SlowEngine:
    clock = Clock()
    monkeypatch.setattr(latency, "time", clock)
    return SlowEngine(clock)


def measure(engine, routes, sizes=(5, 12, 7), pipeline=None, kept=None, **changed) -> Latency:
    sets = {f"set{size}": PromptSet(PROMPTS[:size], 10 + size) for size in sizes}
    timing = TimingSettings(**{"samples": 3, "predictions": 10, "concurrent": 4, "seed": 42, **changed})
    engines = {"pipeline": pipeline or engine, "generator": engine}
    return measure_latency(sets, **engines, settings=GenerationSettings(pool=3), **routes, timing=timing, kept=kept)


def test_routes_give_the_evaluated_confidences(engine, routes, folders, micro_policy):
    """Each route alone, as it is timed, against all responses in one padded batch and all members at once."""
    prompts, seeds = PROMPTS[:5], [10, 20, 30, 40, 50]
    responses = [group[0].token_ids for group in engine.generate(prompts, SAMPLING, seeds)]
    assert len(set(map(len, responses))) > 1
    for name, given in (("pre", [()] * 5), ("post", responses)):
        companions = load_companions(folders[name])
        batch = score(micro_policy[0], prompts, given, [np.arange(5)], layers=[FINAL], pad=0, poolings=POOLINGS[name])
        expected = companions.predict(batch.features.reshape(5, -1))
        assert np.abs(expected[0] - expected[1:]).min() > 1e-3  # another member would show
        found = [routes[name].confidence(prompt, response) for prompt, response in zip(prompts, given, strict=True)]
        np.testing.assert_allclose(found, expected[0], atol=1e-5)


def test_a_number_is_the_mean_without_the_warm_up(slow, routes):
    """Planted: every response takes a second, everything else a tick; a warm-up within a time would add to it. Single
    questions go to the pipeline, and batches of the largest set to the generator."""
    pipeline = SlowEngine(slow.clock)
    times = measure(slow, routes, pipeline=pipeline)
    # a warm-up and three questions of each set, one response in a submission
    assert [len(prompts) for prompts, _, _ in pipeline.asked] == [1] * 12
    assert [sampling.max_tokens for _, sampling, _ in pipeline.asked] == [15] * 4 + [22] * 4 + [17] * 4
    # a batch of four responses to warm up, then every question, with one response and with three
    assert [len(prompts) for prompts, _, _ in slow.asked] == [4, 12, 2, 12]
    expected = [Sampling.of(GenerationSettings(), 22, samples) for samples in (1, 1, 3, 3)]
    assert [sampling for _, sampling, _ in slow.asked] == expected
    for prompts, sampling, seeds in slow.asked:
        assert prompts == PROMPTS[: len(prompts)]
        assert len({seed + j for seed in seeds for j in range(sampling.samples)}) == len(seeds) * sampling.samples
    assert [time.dataset for time in times.time_to_confidence] == ["set5", "set12", "set7"]
    for time in times.time_to_confidence:
        assert time.pre_ms == pytest.approx(1000 * TICK)
        assert time.post_s == pytest.approx(1 + TICK)
    assert (times.questions, times.generation_questions, times.pool, times.predictions) == (3, 12, 3, 10)
    assert times.generation_seconds == pytest.approx(1 + TICK / 12)
    assert times.pool_seconds == pytest.approx(3 + TICK / 12)
    assert times.prediction_ms == pytest.approx(1000 * TICK / 10)


def test_pools_of_some_questions_are_timed(slow, routes):
    """Five of twelve questions, evenly spaced; the time of a question with one response stays that of all twelve."""
    times = measure(slow, routes, pipeline=SlowEngine(slow.clock), pool_questions=5)
    assert [len(prompts) for prompts, _, _ in slow.asked] == [4, 12, 2, 5]
    assert slow.asked[-1][0] == [PROMPTS[row] for row in (0, 2, 4, 7, 9)]
    assert (times.generation_questions, times.pool_questions) == (12, 5)
    assert times.pool_seconds == pytest.approx(3 + TICK / 5)


def test_whole_sets_are_not_timed_again(slow, routes, tmp_path):
    """A kill within the second set; what was measured before it is taken as it was."""
    kept, asked = tmp_path / "times.json", []

    class Killed(SlowEngine):
        def generate(self, prompts, sampling, seeds):
            asked.append(prompts)
            if len(asked) == 6:
                raise KeyboardInterrupt
            return super().generate(prompts, sampling, seeds)

    with pytest.raises(KeyboardInterrupt):
        measure(slow, routes, pipeline=Killed(slow.clock), kept=kept)
    slow.clock.now *= 2
    again = SlowEngine(slow.clock)
    times = measure(slow, routes, pipeline=again, kept=kept).time_to_confidence
    assert [time.dataset for time in times] == ["set5", "set12", "set7"]
    assert [sampling.max_tokens for _, sampling, _ in again.asked] == [22] * 4 + [17] * 4
    assert all(time.post_s == pytest.approx(1 + TICK) for time in times)


def test_a_gpu_is_idle_when_the_clock_is_read(monkeypatch):
    """Kernels run behind the program's back: what is not waited for would not be timed."""
    events = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _device: events.append("idle"))
    monkeypatch.setattr(latency.time, "perf_counter", lambda: events.append("clock") or len(events))
    assert latency._seconds(lambda: events.append("work"), torch.device("cuda")) == 3
    assert events == ["idle", "clock", "work", "idle", "clock"]


def test_more_questions_than_a_set_has_are_refused(slow, routes):
    with pytest.raises(ConfigError, match="set5 has only 5 questions, not 6"):
        measure(slow, routes, samples=6)


def command(folders, questions: Path, checkpoint: Path, output: Path, *flags: str) -> list[str]:
    return [
        "latency",
        "--prompts=tiny",
        '--settings={"pool": 2}',
        f"--datasets={json.dumps({'micro-eval': 24})}",
        f"--questions={questions}",
        f"--checkpoint={checkpoint}",
        f"--companions={folders['post']}",
        f"--prompt-companions={folders['pre']}",
        f"--timing={json.dumps(TIMING)}",
        f"--run-folder={output.parent / 'run'}",
        f"--output={output}",
        *flags,
    ]


@pytest.mark.parametrize("engine", ["transformers", pytest.param("vllm", marks=pytest.mark.vllm)])
def test_command_writes_positive_times(folders, micro_questions, micro_checkpoint, tmp_path, engine):
    output = tmp_path / "latency" / "micro.json"
    flags = [f'--settings={{"pool": 2, "engine": {{"kind": "{engine}"}}}}']
    assert cli.main(command(folders, micro_questions, micro_checkpoint, output, *flags)) == 0
    times = read_cost(output, Latency)  # refuses what is not positive
    assert (times.questions, times.generation_questions, times.pool, times.predictions) == (2, 9, 2, 5)
    assert times.engine.split()[0] == engine
    (time,) = times.time_to_confidence
    assert time.dataset == "micro-eval"
    assert not (output.parent / "run").exists()
    assert times.device
