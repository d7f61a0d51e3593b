"""Token ids of prompts and responses: rows that the model cannot have read are refused, odd ones warned of."""

import re
from types import SimpleNamespace

import pytest

from cocal.errors import ContractError
from cocal.integrations.lines import Fields
from cocal.own_policy.states import Encoder

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}\n{% endfor %}answer:"
ASKED = "What is 12 plus 7, dear model?"
CHAT = [{"role": "user", "content": ASKED}]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            {"messages": [*CHAT, {"role": "assistant", "content": "19"}], "response": "19"},
            "the chat ends with the assistant's reply; give the messages before it as the prompt",
        ),
        ({"messages": [{"role": "user", "content": "no"}], "response": "19"}, "refuses the chat (never no)"),
        (
            {"prompt_ids": [5, 384], "response_ids": [6, 2]},
            "prompt token 1 is 384, outside the model's vocabulary of 384",
        ),
    ],
)
def test_a_row_that_the_model_cannot_have_read_is_refused(own, encoder, line, message):
    with pytest.raises(ContractError, match=re.escape(f"row 1: {message}" if "refuses" not in message else message)):
        encoder.encode([_sample({"prompt": "1?", "response": "1"}, 0), _sample(line, 1)])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"prompt": ASKED, "response": f"{ASKED} It is 19."}, "the whole prompt stands again in the response"),
        ({"prompt": ASKED, "response": f"user\n{ASKED}\nassistant\n19"}, "the whole prompt stands again"),
        ({"messages": CHAT, "response": f"{ASKED} It is 19."}, "the whole prompt stands again in the response"),
        ({"prompt_ids": [5, 6, 7, 8, 9], "response_ids": [5, 6, 7, 8, 9, 2]}, "the whole prompt stands again"),
        ({"prompt": "1?", "response": "1<|eot_id|>"}, "the chat marker <|eot_id|>, which this model's tokenizer"),
        ({"prompt": "<start_of_turn>user 1?", "response": "1"}, "the chat marker <start_of_turn>, which this model's"),
    ],
)
def test_a_row_that_was_hardly_meant_so_is_warned_of(encoder, caplog, line, message):
    good = [{"prompt": "1?", "response": "1? 1"}, {"prompt": ASKED, "response": "19 of those <|im_end|>"}]
    good += [{"prompt_ids": [5, 6], "response_ids": [5, 6, 2]}, {"prompt": "a <|b| c", "response": "x < y > z"}]
    encoder.encode([_sample(one, place) for place, one in enumerate(good)])
    assert caplog.text == ""
    encoder.encode([_sample(one, place) for place, one in enumerate([*good, line, line])])
    assert "row 4: " in caplog.text
    assert message in caplog.text
    assert " 2 of 6 rows" in caplog.text


def test_another_tokenizer_than_the_model_s_is_warned_of(own, caplog):
    for rows, strange in ((384, False), (400, False), (383, True), (500, True)):
        caplog.clear()
        Encoder(SimpleNamespace(tokenizer=own.policy.tokenizer, vocabulary=rows, ends=frozenset({2})))
        assert (f"the tokenizer has 384 tokens, but the model's embedding has {rows} rows" in caplog.text) == strange


@pytest.fixture
def encoder(own):
    """An encoder whose template refuses a chat of one word."""
    template = "{% if messages[0].content == 'no' %}{{ raise_exception('never no') }}{% endif %}" + TEMPLATE
    return Encoder(own.policy, template=template)


def _sample(line, place):
    return Fields.of(line, {}, "row", ("prompt", "response")).sample(line, f"row {place}")
