"""Where the confidence part of a response begins, to whose tokens DCPO gives the calibration advantage."""

import pytest

from cocal.rewards import confidence_start

SOLUTION = "2+3=5\n\\boxed{5}"


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        (SOLUTION + "\n", "CONFIDENCE: 0.9"),
        (SOLUTION + "\nCONFIDENCE: 0.2\n", "CONFIDENCE: 0.7"),
        (SOLUTION + "\n", "CONFIDENCE\uff1a 0.9"),
        ("caf\u00e9 \U0001d4b3 " + SOLUTION + "\n", "CONFIDENCE: 0.5"),
        (SOLUTION + "\n<reason>I am fairly sure.</reason>\n", "CONFIDENCE: 0.8"),
        (SOLUTION, ""),
    ],
)
def test_the_boundary_is_found_on_token_ids(micro_policy, before, statement):
    """No token belongs to both parts or to neither, and the statement's first letter opens the confidence part."""
    tokenizer = micro_policy.tokenizer

    def decode(ids):
        return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    ids = [*tokenizer(before + statement)["input_ids"], tokenizer.eos_token_id]
    start = confidence_start(ids, decode)
    if not statement:
        assert start == len(ids), "the end of sequence belongs to the answer then"
        return
    assert decode(ids[:start]) + decode(ids[start:]) == before + statement
    assert decode(ids[start:]).endswith(statement)
    assert not decode(ids[start + 1 :]).endswith(statement)
