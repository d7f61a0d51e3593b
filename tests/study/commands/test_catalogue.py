"""The catalogue of commands: each has its function, and its flags, unless they are a stage's, need no library."""

from argparse import ArgumentParser
from importlib import import_module

import pytest

from cocal.cli import main
from cocal.commands import catalogue, flags
from cocal.commands.catalogue import commands_with, work_of


def test_each_command_has_its_function():
    for name in commands_with(None):
        module, function = work_of(name).split(":")
        assert callable(getattr(import_module(module), function))


def test_the_library_alone_says_where_commands_of_the_study_are(monkeypatch, capsys):
    monkeypatch.setattr(catalogue, "_added", list)
    with pytest.raises(SystemExit, match="2"):
        main(["unpack", "--output", "model"])
    assert "the study's take `pip install . ./src` in a checkout" in capsys.readouterr().err


def test_a_flag_of_pairs_is_given_several_times_and_its_values_are_json_or_words():
    parser = ArgumentParser()
    flags.pairs("--value NAME=VALUE", "a value", "thinking=true", flags.json_or_text).add_to(parser)
    given = parser.parse_args(
        ["--value", "thinking=true", "--value", "mode=so=2", "--value", "depth=3", "--value", 'end=""']
    ).value
    assert dict(given) == {"thinking": True, "mode": "so=2", "depth": 3, "end": ""}
    assert parser.parse_args([]).value == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("fit --model m --rollouts r --ouput c", "unrecognized arguments: --ouput (did you mean --output?)"),
        ("score --stop=3 --model m", "unrecognized arguments: --stop\n"),
        ("score --comp c -- --model", "the following arguments are required: --model"),  # begins --companion
        ("digests --overwite", "unrecognized arguments: --overwite (did you mean --overwrite?)"),
    ],
)
def test_a_mistyped_flag_is_named_before_what_is_missed(capsys, words, said):
    with pytest.raises(SystemExit):
        main(words.split())
    assert said in capsys.readouterr().err
