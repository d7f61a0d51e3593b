"""Which tokens of a response are the task's (appendix D), and from characters to tokens."""

import pytest

from cocal.answers.extraction import token_of
from cocal.cli import main
from cocal.features.store import open_features
from cocal.models.loading import load_policy
from cocal_study.generation.evaluated import task_length
from evaluated_study import responses, write_responses

TOKENS = ["1+1=2\n", r"\boxed{2}", "\n<rea", "son>", "sure", "</reason>", "\nCONF", "IDENCE: ", "0.9", ""]
END = len(TOKENS) - 1  # a special token: no text


def decode(ids) -> str:
    return "".join(TOKENS[i] for i in ids)


@pytest.mark.parametrize(
    ("ids", "length"),
    [
        (range(len(TOKENS)), 2),  # the token that joins the line break with the tag is out
        ([0, 1, 2, 3, 4, 0, 2, 3], 2),  # the first tag counts
        ([0, 1, END], 3),  # neither tag nor confidence: all of it, the end-of-sequence token included
        ([0, 1, 6, 7, 8, END], 2),  # no tag: the confidence statement ends it
        ([2, 3, 4, 5], 0),
        ([0, 2], 2),  # "<rea" is no tag
    ],
)
def test_the_task_response_ends_before_the_first_reason_tag(ids, length):
    assert task_length(ids, decode) == length


def test_a_character_is_found_in_its_token():
    ids = [0, 1, 2, 3, END]
    text = decode(ids)
    for character in range(len(text)):
        ends = [len(decode(ids[: k + 1])) for k in range(len(ids))]
        assert token_of(ids, decode, character) == next(k for k, end in enumerate(ends) if end > character)


def test_a_token_that_begins_inside_a_character_does_not_mislead():
    pieces = [b"a\xc3", b"\xa9 ", b"<reason>"]

    def decode_bytes(ids) -> str:
        return b"".join(pieces[i] for i in ids).decode(errors="replace")

    assert task_length([0, 1, 2], decode_bytes) == 2


@pytest.mark.parametrize(("flags", "whole"), [(["--task-response"], False), ([], True)])
def test_command_pools_what_the_flag_says(tmp_path, micro_checkpoint, flags, whole):
    """RLCR ends before the tag, DCPO keeps the response's end; the states are those of the shorter ids."""
    _, tokenizer = load_policy(micro_checkpoint)
    texts = [r"1+1=2\n\boxed{2}\n<reason>Sure.</reason>\nCONFIDENCE: 0.9", "<reason>No.</reason>", r"\boxed{3}"]
    ids = [[*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for text in texts]
    rows = responses(pool=1).head(3).assign(sample=0, response_ids=ids, length=[len(one) for one in ids])
    rows["logprobs"] = [[-1.0] * len(one) for one in ids]
    rows = rows.assign(mean_logprob=-1.0, prompt_ids=[[5, 6]] * 3, truncated=False, finish_reason="stop")
    rows = rows.assign(answer="1", answer_class=0)
    write_responses(tmp_path / "responses", rows)
    places = [f"--responses={tmp_path / 'responses'}", f"--checkpoint={micro_checkpoint}", f"--output={tmp_path}"]
    settings = '--settings={"dtype": "float32"}'
    assert main(["features", settings, '--samples={"sums": 1}', *places, *flags]) == 0
    found = open_features(tmp_path / "sums.zarr")
    cut = len(tokenizer(texts[0].partition("<reason>")[0])["input_ids"])
    if whole:
        assert found.length.tolist() == [len(one) for one in ids]
    else:
        assert found.response_id.tolist() == [0, 2]  # the second has nothing before the tag
        assert found.length[1] == len(ids[2])
        assert abs(int(found.length[0]) - cut) <= 1
        assert tokenizer.decode(ids[0][: found.length[0]]) in texts[0].partition("<reason>")[0]
