"""Names of fields and other flags: kept in the companion, carried by the commands that are printed, named by advice."""

import argparse
import json
import re
import shlex

import pytest

from cocal import Companion
from cocal.commands.catalogue import OWN
from own_rollouts import read_lines, run, write_lines


@pytest.fixture
def rollouts(own):
    return own.rollouts


@pytest.fixture
def texts(own):
    return own.texts


def test_names_of_fields_are_kept_and_printed_commands_carry_them(tmp_path, capsys, own, rollouts):
    """The commands that are printed are run as they are, with files whose fields have names of their own."""
    tokenizer = own.policy.tokenizer
    lines = [
        {
            "question": own.texts[row.question_id],
            "text": tokenizer.decode(row.response_ids, skip_special_tokens=True),
            "grade": 9.5 if row.correct else 2.25,
            "at": int(row.step),
            "output": "not the response",
        }
        for row in rollouts.itertuples()
    ]
    folder = tmp_path / "a folder"
    folder.mkdir()
    mine, new, out = folder / "mine.jsonl", folder / "new.jsonl", folder / "out.jsonl"
    mine.write_text("".join(json.dumps(line) + "\n" for line in lines))
    unstepped = [{name: value for name, value in line.items() if name != "at"} for line in lines[::-1]]
    new.write_text("".join(json.dumps(line) + "\n" for line in unstepped))
    flags = ["--field", "response=text", "reward=grade", "--field", "step=at", "--correct-above", "4.75"]
    flags += ["--max-response-length", "20", "--batch-tokens", "2000"]
    assert own.fit(mine, folder / "companion", *flags) == 0
    about = Companion.from_pretrained(folder / "companion").about
    assert about.fields == {"response": "text", "reward": "grade", "step": "at"}
    assert (about.correct_above, about.max_response_length) == (4.75, 20)

    command = capsys.readouterr().out.rpartition("Next: cocal ")[2]
    assert shlex.split(command)[-6:-2] == ["--batch-tokens", "2000", "--field", "response=text"]
    words = [{"in.jsonl": new, "out.jsonl": out}.get(word, word) for word in shlex.split(command)]
    assert run(*words) == 0
    printed = capsys.readouterr().out
    assert "fields: question as prompt, text as response; not read: grade, output" in printed
    assert "responses of 20 tokens or more count as cut" in printed
    confidences = [line["confidence"] for line in read_lines(out)]
    again = tmp_path / "again.jsonl"
    given = ("--companion", folder / "companion", "--model", own.checkpoint, "--batch-tokens", "2000")
    assert run("score", *given, new, again) == 0
    assert "text as response" in capsys.readouterr().out, "the companion's own names do without flags"
    assert [line["confidence"] for line in read_lines(again)] == confidences

    vote, evaluate = (line.partition("cocal ")[2] for line in printed.splitlines()[-2:])
    assert run(*(folder / word if word == "chosen.jsonl" else word for word in shlex.split(vote))) == 0
    assert "wrong" not in capsys.readouterr().err
    assert run(*(folder / word if word == "report" else word for word in shlex.split(evaluate))) == 0
    printed = capsys.readouterr().out
    assert "a reward above 4.75 means correct" in printed
    assert f"{'Accuracy (%)':<30} {100 * rollouts['correct'].mean():6.1f}" in printed
    assert "not read: output, confidence_ids" in printed


def test_several_values_of_a_flag_leave_the_files_alone(tmp_path, own, rollouts, texts):
    source, output = write_lines(tmp_path / "in.jsonl", rollouts[:3], texts), tmp_path / "out=1.jsonl"
    given = ("score", "--companion", own.companion, "--model", own.checkpoint)
    for fields in (["--field", "prompt=question_id"], ["--field", "prompt=question_id", "response_ids=response_ids"]):
        assert run(*given, *fields, source, output, "--name", "p") == 0
        assert len(read_lines(output)) == 3
        output.unlink()


@pytest.mark.parametrize(
    ("rows", "flags"),
    [(slice(0, 4), ()), (slice(0, 60), ("--max-response-length", "1")), (slice(0, 60), ("--field", "correct=no"))],
)
def test_advice_about_few_rollouts_names_flags_that_exist(tmp_path, capsys, own, rollouts, texts, rows, flags):
    """One question, none complete, all wrong; nothing is computed before."""
    few = rollouts[rows]
    lines = read_lines(write_lines(tmp_path / "few.jsonl", few, texts, no=[False] * len(few)))
    for place, line in enumerate(lines):
        line |= {"correct": place % 2 == 0, "response_ids": [7, 7]}
        del line["truncated"]
    (tmp_path / "few.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert own.fit(tmp_path / "few.jsonl", tmp_path / "companion", *flags) == 2
    error = capsys.readouterr().err
    parser = argparse.ArgumentParser()
    OWN["fit"].add_to(parser)
    named = re.findall(r"--[a-z][a-z-]+", error)
    assert named
    assert {*named} <= {*parser._option_string_actions}
