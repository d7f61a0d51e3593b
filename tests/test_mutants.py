"""The mutants of `tests/mutation` fit the code: each still has the line that it turns wrong, and its tests exist."""

import re
from functools import cache

from mutation.mutants import ROOT, all_mutants

MUTANTS = all_mutants()


@cache
def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_each_mutant_finds_its_line_exactly_once():
    wrong = {f"{one.room}: {one.name}": _text(one.file).count(one.find) for one in MUTANTS}
    assert {name: count for name, count in wrong.items() if count != 1} == {}
    assert [one.name for one in MUTANTS if one.find == one.replace] == []


def test_each_mutant_names_existing_tests():
    missing = set()
    for test in {test for one in MUTANTS for test in one.tests}:
        file, _, name = test.partition("::")
        function = re.sub(r"\[.*", "", name)
        if not (ROOT / file).is_file() or (name and f"def {function}(" not in _text(file)):
            missing.add(test)
    assert missing == set()


def test_names_of_mutants_are_unique():
    names = [(one.room, one.name) for one in MUTANTS]
    assert len(names) == len(set(names)) > 0
