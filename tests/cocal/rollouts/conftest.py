"""What several tests of reading start from."""

import pytest

from cocal.fitting.fit import read
from cocal.models.loading import load_policy
from cocal.rollouts.encoding import Encoder
from cocal.rollouts.format import Reading
from hand_rows import lines
from micro import own_copy


@pytest.fixture
def reading(micro_checkpoint, tmp_path):
    """Reads rows behind a template; says what it was of them, or why not."""

    def start(template, *rows, beside=(), **how):
        folder = own_copy(micro_checkpoint, tmp_path / f"model{len([*tmp_path.iterdir()])}")
        (folder / "chat_template.jinja").write_text(template)
        encoder = Encoder(load_policy(folder), Reading(**how))
        encoder.check_wishes()
        return encoder.policy.tokenizer, read([lines(tmp_path / "rows.jsonl", *rows), *beside], encoder)

    return start
