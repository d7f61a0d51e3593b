"""The verifier on the golds of the public sets, and on ten thousand responses that mean it harm."""

import logging
import random
import re

import pytest
import sympy

from cocal.answers.equivalence import Verifier
from cocal.answers.extraction import confidence_span, extract_answer, parse_confidence
from cocal.answers.reading import read
from cocal.answers.settings import VerifierSettings
from cocal.answers.spelling import plain_answer
from raw_data import MATHEMATICS, needs_raw, questions
from verified import equivalent

INTEGER = re.compile(r"-?\d+")
NUMBER = re.compile(r"-?\d+(\.\d+)?")
FRACTION = re.compile(r"(-?)\\d?frac\{(\d+)\}\{(\d+)\}")
UNITS = [r"\text{ cm}", r" \text{ square units}", r"\ \mathrm{cm}^2", r"^\circ", r"^{\circ}", r"\text{ degrees}"]
UNITS += [r"\%", "%"]


def typeset(gold: str) -> dict[str, str]:
    """The answer in typesetting that does not matter; no computer algebra is needed to see through it."""
    whole = plain_answer(gold)
    forms = {
        "spaces": f"  {whole}\n",
        "parentheses": rf"\({whole}\)",
        "thin space": rf"{whole}\,",
        "bold": rf"\mathbf{{{whole}}}",
    }
    if "$" not in whole.replace(r"\$", ""):
        forms |= {"dollars": f"${whole}$", "bold in dollars": rf"$\boldsymbol{{{whole}}}$."}
    return forms if whole.endswith("...") else forms | {"full stop": f"{whole}."}


def rewritten(gold: str) -> dict[str, str]:
    """The same answer in other notation."""
    forms = {
        "dfrac": re.sub(r"\\[dt]?frac", r"\\dfrac", gold),
        "frac": re.sub(r"\\[dt]frac", r"\\frac", gold),
        "no left": gold.replace(r"\left", "").replace(r"\right", ""),
    }
    if r"\left" not in gold and not re.search(r"\\[\[\](){}]", gold):
        forms["left"] = re.sub(r"[)\]]", r"\\right\g<0>", re.sub(r"[(\[]", r"\\left\g<0>", gold))
    # an equation or a letter is not said to be x (or y beside an x), nor are numbers of statements, prose and lists
    unsaid = r"[=<>,%$]|equiv|overline|[ln]dots|\)\(|[a-z]{5} |\\[lg]eq?\b|\\in|text|\\\["
    if re.search(r"\d", gold) and not re.search(unsaid, gold):
        forms["x = "] = f"{next(name for name in 'xyzwq' if name not in gold)} = {gold}"
    if NUMBER.fullmatch(gold):
        forms |= {f"unit {unit}": gold + unit for unit in UNITS}
        forms |= {"money": rf"\${gold}", "decimals": f"{gold}0" if "." in gold else f"{gold}.0"}
    if INTEGER.fullmatch(gold) and len(gold.lstrip("-")) > 3:
        groups = f"{int(gold):,}"
        forms |= {f"groups {mark}": groups.replace(",", mark) for mark in (",", "{,}", r",\!", r"\,")}
    if fraction := FRACTION.fullmatch(gold):
        sign, above, below = fraction[1], int(fraction[2]), int(fraction[3])
        forms |= {"slash": f"{sign}{above}/{below}", "unreduced": rf"{sign}\frac{{{2 * above}}}{{{2 * below}}}"}
        if 10**4 % below == 0:
            forms["decimal"] = f"{sign}{above / below}"
    return {name: form for name, form in forms.items() if form != gold}


@pytest.fixture(scope="module")
def golds() -> list[str]:
    """All of the evaluation sets, and a thousand of the training set, its oddest included."""
    evaluation = {row.answer for name in MATHEMATICS for row in questions(name)}
    training = sorted({a for row in questions("deepscaler-union") for a in (row.answer, *row.aliases)} - evaluation)
    odd = {a for a in training if a.count("{") != a.count("}") or "boxed" in a}
    assert len(odd) == 30
    return [*sorted(evaluation), *sorted(odd | set(random.Random(5).sample(training, 1000)))]


@pytest.mark.slow
@needs_raw
def test_no_gold_is_too_large_to_evaluate():
    sets = (*MATHEMATICS, "deepscaler-union", "deepscaler-dcpo")
    golds = {answer for name in sets for row in questions(name) for answer in (row.answer, *row.aliases)}
    assert len(golds) > 10_000
    grown = [gold for gold in golds if re.search(r"!|\d{3}\}?\)?\^|\^\{?-?\d{2}|binom|choose|\\sum|\\prod", gold)]
    assert len(grown) > 200
    assert [gold for gold in grown if read(plain_answer(gold)) is sympy.nan] == []


@needs_raw
def test_golds_verify_against_themselves_however_they_are_typeset(golds):
    """As a response states them, in a box. No computer algebra is needed, so that none of it can fail by time."""
    for gold in golds:
        assert plain_answer(plain_answer(gold)) == plain_answer(gold)
        for name, form in typeset(gold).items():
            stated = extract_answer(rf"Therefore \boxed{{{form}}}.")
            assert plain_answer(stated) == plain_answer(gold), (name, gold, stated)


@pytest.mark.slow
@needs_raw
def test_golds_verify_against_common_rewritings(golds):
    """Two rewritings of each gold of the evaluation sets, one of each in training: a comparison takes milliseconds."""
    draw = random.Random(7)
    evaluation = {row.answer for name in MATHEMATICS for row in questions(name)}
    pairs = []
    for gold in golds:
        forms = list(rewritten(plain_answer(gold)).items())
        chosen = draw.sample(forms, min(len(forms), 2 if gold in evaluation else 1))
        pairs += [(gold, name, extract_answer(rf"\boxed{{{form}}}")) for name, form in chosen]
    assert len(pairs) > 1000
    assert len({name for _, name, _ in pairs}) == 20
    with Verifier(VerifierSettings()) as verifier:
        verdicts = equivalent(verifier, [(gold, form) for gold, _, form in pairs])
    assert [pair for pair, verdict in zip(pairs, verdicts, strict=True) if not verdict] == []


@needs_raw
def test_golds_do_not_verify_against_a_neighbour(golds):
    """The last digit counts, whatever normal forms do."""
    numbers = [gold for gold in golds if NUMBER.fullmatch(gold) or FRACTION.fullmatch(gold)]
    near = [(gold, re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 3) % 10), gold)) for gold in numbers]
    near = [pair for pair in near if not pair[1].endswith("{0}")]
    with Verifier(VerifierSettings()) as verifier:
        verdicts = equivalent(verifier, near)
    assert [pair for pair, verdict in zip(near, verdicts, strict=True) if verdict] == []


HANGING = [
    "9^{9^{9^{9}}}",
    "100000000!",
    r"\binom{10^{9}}{5 \cdot 10^{8}}",
    r"\prod_{n=1}^{10^{8}} (1 + \frac{1}{n^2})",
    r"\int_0^1 \int_0^1 \int_0^1 e^{xyz} \, dx \, dy \, dz",
    "(x+y+z+1)^{300}",
    r"e^{e^{e^{e^{e}}}}",
    "{" * 8 + "7" + "}" * 8,
]
"""Each takes math-verify longer than the bound, or for ever; most are not even tried."""
RIGHT = ["1/2", "0.5", r"\dfrac{1}{2}", r"\frac{2}{4}", "$0.50$", r"50\%", r"\text{ } 0.5 ."]
SOUP = r"\frac{ \sqrt{ ^{ _{ } ( ) [ ] | = < > , . ; & % $ # ~ \left \right \text{ \pi \infty x 7 0 - + ! \\"
ALPHABET = "aλ中🙂\u202e\u0000\u0301\ud7ff\ufffd١½∞ "


def hostile(draw: random.Random) -> list[str]:
    """One response of each hostile kind; none of them is right."""
    size = 1_000_000 if draw.random() < 0.02 else 700
    return [
        rf"\boxed{{{draw.choice(HANGING)}}} CONFIDENCE: 9^9^9",
        r"\boxed{" + "{" * draw.randrange(9, 400) + "7" + "}" * draw.randrange(1, 400),
        r"\boxed{" * draw.randrange(1, 200) + "}" * draw.randrange(100),
        rf"\boxed{{{''.join(draw.choices(ALPHABET, k=draw.randrange(1, 300)))}}}CONFIDENCE: ٠.٥",
        rf"\boxed{{{draw.choice(['9', '{}', '1+', '=']) * size}}}" + "CONFIDENCE: " * (size // 12),
        rf"\boxed{{{''.join(draw.choices(SOUP.split(' '), k=draw.randrange(1, 12)))}0}} tail",
        "".join(map(chr, (draw.randrange(0xD800) for _ in range(200)))) + r"\boxed{",
        f"<reason>\\boxed{{0.5}}</reason>\nCONFIDENCE: {draw.random() * 1e9}",
        rf"\boxed{{{draw.randrange(-9, 9)}^{{-{draw.randrange(1, 99)}}} + {draw.randrange(3, 9)}}}",
    ]


@pytest.mark.slow
def test_ten_thousand_hostile_responses_neither_hang_nor_crash(caplog):
    """Bounds: a comparison is given up after 1 s, and after 1 s in a chunk of 16 before that. As equal answers are
    compared once, that is 2 s for each hanging answer; the megabytes are never compared."""
    draw = random.Random(2024)
    right = [rf"Half: \boxed{{{draw.choice(RIGHT)}}}" for _ in range(1_000)]
    responses = [*right, *(text for _ in range(1_000) for text in hostile(draw))]
    assert len(responses) == 10_000
    answers = [extract_answer(text) for text in responses]
    for text in responses:
        confidence, span = parse_confidence(text), confidence_span(text)
        assert confidence is None or 0 <= confidence <= 1
        assert span is None or span[1] == len(text)
    with Verifier(VerifierSettings(timeout=1.0, max_timeouts=1.0)) as verifier, caplog.at_level(logging.WARNING):
        verdicts = verifier.correct([[r"\frac{1}{2}"]] * len(responses), answers).values
        assert verifier.correct([["7"]], ["14/2"]).values.all()
    assert verdicts[:1_000].all()
    assert [text for text, verdict in zip(responses[1_000:], verdicts[1_000:], strict=True) if verdict] == []
    given_up = [text.split()[1] for text in caplog.messages if "stay undecided" in text]
    assert 0 < sum(map(int, given_up)) <= 2 * len(HANGING)
