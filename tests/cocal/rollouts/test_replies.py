"""Texts of replies that call a tool, and ids that are not those of the texts beside them."""

import pytest

from chat_rows import BEGIN, HEAD, SWITCH, answers
from cocal.errors import ContractError

CALLS = [
    '<tool_call>\n{"name": "add"}\n</tool_call>',
    "<tool_call>add\n<arg_key>",
    '[TOOL_CALLS][{"name": "add"}]',
    '<|python_tag|>{"name": "add"}',
    "<|channel|>commentary to=functions.add<|message|>{}<|call|>",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add",
]


@pytest.mark.parametrize("call", CALLS)
def test_a_text_that_calls_a_tool_is_left_out(reading, call):
    _, found = reading(SWITCH, *answers(), *answers(f"I add. {call}")[:2])
    assert "2 rows left out: its response calls a tool" in found.notes


def test_a_text_that_speaks_of_tools_is_none_of_their_calls(reading):
    assert len(reading(SWITCH, *answers("No <tool_call> is needed; to=all. "))[1].rows) == 6


def test_a_marker_that_the_policy_chose_is_none_of_another_tokenizer(reading):
    opens = HEAD + BEGIN + "<|begin_of_thought|>{% endif %}"
    assert len(reading(opens, *answers("I add.<|end_of_thought|>"))[1].rows) == 6
    assert len(reading(SWITCH, *answers("<|answer|>"))[1].rows) == 6
    with pytest.raises(ContractError, match=r"the text has the chat marker <\|eot_id\|>, which this model's"):
        reading(SWITCH, *(row | {"response": row["response"] + "<|eot_id|>"} for row in answers()))


@pytest.mark.parametrize("count", [11, 120])
def test_ids_are_compared_with_their_texts_in_all_parts_of_a_file(reading, count):
    tokenizer, _ = reading(SWITCH, *answers())
    rows = [row | {"response": f"It is {k}."} for k in range(count // 6 + 1) for row in answers()][:count]
    ids = [tokenizer(row["response"])["input_ids"] for row in rows]
    rows = [
        row | {"response_ids": one[:: 1 if k < 4 else -1]} for k, (row, one) in enumerate(zip(rows, ids, strict=True))
    ]
    with pytest.raises(ContractError, match=r"the ids of the response are not those of its text"):
        reading(SWITCH, *rows)
