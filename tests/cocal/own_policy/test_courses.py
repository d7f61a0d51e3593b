"""Courses: the confidence in a response after every so many of its tokens."""

import json

import numpy as np
import pytest

from cocal import Companion
from cocal.errors import ConfigError
from own_rollouts import read_lines, run

EVERY = 4


@pytest.fixture(scope="module")
def fitted(tmp_path_factory, own, mine):
    """Companions of prefixes, by what they read beside states."""
    folder = tmp_path_factory.mktemp("grown")
    words = ("--model", own.checkpoint, "--rollouts", mine, "--seeds", 42, 137, "--passes", 3, "--prefixes", 3)
    for beside in ("nothing", "token-probability"):
        flags = ("--states", "float32", "--with", beside, "--output", folder / beside)
        assert run("fit", *words, *flags) == 0
    return folder


@pytest.fixture
def companion(fitted):
    return fitted / "nothing"


@pytest.mark.parametrize("seed", [None, 42])
@pytest.mark.parametrize("beside", ["nothing", "token-probability"])
def test_a_course_has_the_confidences_of_shorter_responses(own, fitted, micro_policy, seed, beside):
    """In one call, and in that of each, whatever the batches."""
    loaded, rows = Companion.from_pretrained(fitted / beside), own.rollouts
    assert (loaded.about.prefixes, loaded.about.token_probability) == (3, beside != "nothing")
    prompts, responses = rows["prompt_ids"].tolist(), rows["response_ids"].tolist()
    responses[4] = responses[4][:2]  # which has no course
    seed = seed if seed in loaded.about.spec.settings.seeds else None
    whole, courses = loaded.score(*micro_policy, prompts, responses, seed=seed, every=EVERY, batch_tokens=300)
    np.testing.assert_array_equal(whole, loaded.score(*micro_policy, prompts, responses, seed=seed, batch_tokens=300))
    shorter = [(k, n) for k, one in enumerate(responses) for n in range(EVERY, len(one), EVERY)]
    alone = loaded.score(
        *micro_policy, [prompts[k] for k, _ in shorter], [responses[k][:n] for k, n in shorter], seed=seed
    )
    np.testing.assert_allclose(np.concatenate(courses), alone, atol=1e-5)
    assert [len(one) for one in courses] == [(len(one) - 1) // EVERY for one in responses]
    assert np.ptp(alone) > 0.02


def test_the_command_writes_the_course_beside_the_confidence(own, companion, mine, tmp_path, micro_policy):
    words = ("score", "--companion", companion, "--model", own.checkpoint, mine)
    assert run(*words, tmp_path / "plain.jsonl") == 0
    assert run(*words, tmp_path / "course.jsonl", "--every", EVERY, "--name", "sure") == 0
    rows = own.rollouts
    _, courses = Companion.from_pretrained(companion).score(
        *micro_policy, rows["prompt_ids"].tolist(), rows["response_ids"].tolist(), every=EVERY
    )
    plain, found = read_lines(tmp_path / "plain.jsonl"), read_lines(tmp_path / "course.jsonl")
    for before, line, length, values in zip(plain, found, rows["length"], courses, strict=True):
        course = line.pop("sure_course")
        assert (course["every"], course["tokens"]) == (EVERY, length)
        np.testing.assert_allclose(course["values"], values, atol=1e-5)
        assert line.pop("sure") == before.pop("confidence")
        assert line == before


def test_a_field_of_a_course_that_exists_is_refused(own, companion, mine, tmp_path, capsys):
    lines = [{**line, "confidence_course": 1} for line in read_lines(mine)]
    given = tmp_path / "given.jsonl"
    given.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run("score", "--companion", companion, "--model", own.checkpoint, given, tmp_path / "out.jsonl") == 2
    assert "there is a field 'confidence_course' already" in capsys.readouterr().err


def test_a_companion_of_whole_responses_has_no_course(own, companion, mine, tmp_path, capsys, micro_policy):
    words = ("score", "--model", own.checkpoint, mine, tmp_path / "out.jsonl", "--every", EVERY)
    assert run(*words, "--companion", own.companion) == 2
    assert "fit one that has learnt from prefixes, too (cocal fit --prefixes 16)" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="whole responses alone"):
        Companion.from_pretrained(own.companion).score(*micro_policy, ["1"], ["2"], every=EVERY)
    assert run(*words, "--companion", companion, "--engine", "vllm") == 2
    assert "leave out --engine vllm" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()
