r"""One spelling for mathematical answers: a table of rules, in the order in which they apply.

No rule changes what an answer says. `cocal.answers.notation` decides on two answers by their notation, and computer
algebra on all others (`cocal.answers.algebra`).
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import accumulate
from typing import NamedTuple

from cocal.answers.extraction import extract_answer
from cocal.answers.numerals import SCALE, SCALES, SPOKEN, spoken, ungrouped
from cocal.answers.words import DATA, any_of

Replacement = str | Callable[[re.Match[str]], str]


class Rule(NamedTuple):
    """A rule of spelling.

    Attributes:
        example: What it rewrites, and into what.
        pattern: Regular expression whose matches are replaced.
        replacement: Template of what takes their place, or a function that makes it.
        source: Where answers of this form were found.
    """

    example: str
    pattern: re.Pattern[str]
    replacement: Replacement
    source: str


def _rules(*rows: tuple[str, str, Replacement, str]) -> tuple[Rule, ...]:
    return tuple(Rule(example, re.compile(pattern), new, source) for example, pattern, new, source in rows)


def _raised(mark: str) -> Callable[[re.Match[str]], str]:
    return lambda match: f"{mark}{{{unicodedata.normalize('NFKC', match[0])}}}"


def _renamed(match: re.Match[str]) -> str:
    name = COMMANDS.get(match[0].strip("\\^ "), match[0])
    return name + " " * (name[-1:].isalpha() and match[0].endswith(" "))


def _vulgar(match: re.Match[str]) -> str:
    above, _, below = unicodedata.normalize("NFKC", match[2]).partition("\u2044")
    return rf"{match[1]}\frac{{{above}}}{{{below}}}"


def _scaled(match: re.Match[str]) -> str:
    return f"{Decimal(match[1].replace(',', '')).scaleb(SCALES[match[2].lower()]):f}"


def _repeating(match: re.Match[str]) -> str:
    whole, fixed, period = match[1], match[2], match[3] or match[4]
    return (
        rf"\frac{{{int(whole + fixed + period) - int('0' + whole + fixed)}}}{{{'9' * len(period)}{'0' * len(fixed)}}}"
    )


def _system(match: re.Match[str]) -> str:
    lines = (line.strip(" ,;") for line in match[2].replace("&", "").split(r"\\"))
    return ", ".join(filter(None, lines))


def _matrix(match: re.Match[str]) -> str:
    lines = r"\\".join(line.replace(",", "&") for line in re.findall(r"\[([^\[\]]*)\]", match[1]))
    return rf"\begin{{pmatrix}}{lines}\end{{pmatrix}}"


def _member(match: re.Match[str]) -> str:
    kind, letter = (match[1], match[2]) if match[1] else (match[4], match[3])
    return rf", {letter}\in \mathbb{{{'Z' if kind.lower() == 'integer' else 'R'}}}"


_FUNCTIONS = "arcsin|arccos|arctan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|ln|log|exp|max|min|gcd|lcm"
_END = "(?![A-Za-z])"
_NO_TIME = r"(?!(?:min|sec)(?:\s*\}?[\s,.;]*$|\s*\}?[\s,]*(?:and\b|\d)))"
"""Excludes minutes and seconds, which end the answer or are followed by another quantity."""
_TYPESET = r"\s*(?:\^?\s*\{?\s*(?:\\(?:text|mathrm)\s*\{)?)"
"""What may precede the ending of an ordinal number."""
_NESTED = r"(?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+"
"""The content of parentheses, which may hold two more levels of them."""
_GROUP = r"\{(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*+\})*+\})*+\})*+\}"
"""A group in braces, which may hold three more levels of them."""
_ONE = r"\s*(?![{\[])(\\[A-Za-z]+|[^\s\\{}])"
"""An argument of one character or command, without braces."""
_UNIT = r"\\(?:text|mathrm)\s*\{\s*([A-Za-z]+)\s*\}"
_SQUARED = r"(?:\s*\^\s*\{?([23])\}?)?"
"""A unit, and its power."""
GAP = r"(?:\s|\\[ ,;:]|~)"
"""A typeset space."""
_UPRIGHT = r"\\(?:text|mathrm|operatorname|mathbf|mathbb|rm)\s*\{{\s*({})\s*\}}"
SIGNS: dict[str, str] = DATA["signs"] | {sign: rf"\{name} " for sign, name in DATA["named"].items()}
"""Signs of Unicode and what LaTeX has for them."""
COMMANDS = {name: latex for latex, names in DATA["commands"].items() for name in names.split()}
"""Other names of commands and relations, without their backslash."""
_TRANSLATION = {ord(sign): latex for signs, latex in SIGNS.items() for sign in signs}

CHARACTERS = _rules(
    ("a space without width: nothing", "[\u200b-\u200f\u2060-\u2064\ufeff\u00ad]", "", "EuroEval #2167"),
    ("x²: x^{2}", "[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿⁱ]+", _raised("^"), "Math-Verify #69"),
    ("x₁: x_{1}", "[₀₁₂₃₄₅₆₇₈₉₊₋]+", _raised("_"), "Math-Verify #69"),
    (r"√34: \sqrt{34}", r"√\s*(\d+)", r"\\sqrt{\1}", "Math-Verify #69"),
    (r"1½: 1\frac{1}{2}", "(\\d?)([¼-¾⅐-⅞])", _vulgar, "TinyV #243"),
    ("①③: (1)(3)", "[①-⑳]", lambda match: f"({unicodedata.numeric(match[0]):.0f})", "DeepScaleR"),
)
"""Rules for characters whose meaning compatibility normalisation (NFKC) would change; they apply before it."""
SPELLING = _rules(
    ("$9$ miles: 9 miles", r"(?<!\\)\$([^$]+)(?<!\\)\$", r"\1", "Math-Verify's tests"),
    (r"\dfrac, \leqslant, <=, \left(, \textbf: \frac, \le, \le, (, \text",
     r"(?:\^(?=\\degree))?\\(?:[A-Za-z]+|\|)\s*|[<>!]=", _renamed,
     "DeepScaleR"),
    (r"(\begin{array}{c}1\\2\end{array}): \begin{pmatrix}1\\2\end{pmatrix}",
     r"[(\[]\s*\\begin\{array\}(?:\{[lcr|\s]+\})?(.*?)\\end\{array\}\s*[)\]]", r"\\begin{pmatrix}\1\\end{pmatrix}",
     "DeepScaleR"),
    (r"\begin{cases}x=1\\y=2\end{cases}: x=1,y=2",
     r"(?:\\\{\s*)?\\begin\{(cases|array|aligned)\}(?:\{[lcr|]+\})?((?:[^&]|&(?==))*?)\\end\{\1\}", _system,
     "DeepScaleR"),
    (r"C_{49}^6: \binom{49}{6}", r"(?:\\mathrm\{C\}|(?<![A-Za-z\\])C)_\{?(\d+)\}?\^\{?(\d+)\}?", r"\\binom{\1}{\2}",
     "DeepScaleR"),
    (r"{5 \choose 2}, {1 \over 2}: \binom{5}{2}, \frac{1}{2}",
     rf"(?:\{{|^)([^{{}}]*)\\(choose|over){_END}([^{{}}]*)(?:\}}|$)",
     lambda match: rf"\{'binom' if match[2] == 'choose' else 'frac'}{{{match[1].strip()}}}{{{match[3].strip()}}}",
     "DeepScaleR"),
    (r"25^\circ C, 25^{\circ}C: 25^\circ\text{C}", r"(?:\^\\circ|\^\{\\circ\})\s*([CF])\b",
     r"^\\circ\\text{\1}", "DeepScaleR"),
    (r"22^\circ 30': (22+\frac{30}{60})^\circ",
     r"(\d+)\s*\^\{?\\circ\s*\}?\s*(\d+)\s*(?:'|\^\{?\\prime\s*\}?)(?![\d'])", r"(\1+\\frac{\2}{60})^\\circ ",
     "own pairs"),
    (r"\max\{a,b\}: \max(a,b)", r"(\\(?:max|min|gcd|lcm))\s*\\\{([^{}]*)\\\}", r"\1(\2)", "own pairs"),
    (r"\mathbb{R}-\{2\}: \mathbb{R}\setminus\{2\}", r"(\\mathbb\s*\{?\s*[A-Z]\s*\}?)\s*-\s*(?=\\\{)", r"\1\\setminus ",
     "own pairs"),
    ("x**3: x^3", r"(?<=[\w)}])\*\*(?=[\w({-])", "^", "Math-Verify #69"),
    (r"...: \ldots", r"\.\.\.+", r"\\ldots ", "Math-Verify #14"),
    (r"1\text{, }2\text{, and }3, 2\,\text{or}\,3: 1, 2, \text{ and } 3, 2 \text{ or } 3",
     rf"{GAP}*\\(?:text|mathrm)\s*\{{{GAP}*([,;:.]?){GAP}*((?i:and|or|)){GAP}*\}}{GAP}*",
     lambda match: rf"{match[1]} \text{{ {match[2].lower()} }} " if match[2] else f"{match[1]} ", "own pairs"),
    (r"(mod 7), (\mathrm{mod}\ 7), \text{ mod } 7, \bmod 7: \pmod{7}",
     rf"\({GAP}*\\?(?:(?:text|mathrm)\s*\{{\s*)?[bp]?mod\b\s*\}}?{GAP}*\{{?(\w+)\}}?\s*\)"
     r"|\\(?:[bp]?mod|(?:text|mathrm)\s*\{\s*mod\s*\})\s*\{?(\w+)\}?",
     lambda match: rf"\pmod{{{match[1] or match[2]}}}", "DeepScaleR"),
    (r"10{,}080, 10,\!080, 10'080, 10_080: 10080", r"(?<=\d)(?:,\\!\s*|\{,\}|\\,|'|_)(?=\d{3}(?!\d))", "", "MATH500"),
    (r"5 000\pi, 10\,000: 5000\pi, 10000",
     rf"(?<![\d.,^_])[1-9]\d{{0,2}}(?:{GAP}\d{{3}})+(?!{GAP}?\d|[,/]\d)",
     lambda match: re.sub(GAP, "", match[0]), "DeepScaleR"),
    (r"12,000x, \frac{1}{21,000}: 12000x, \frac{1}{21000}", r"^.*\d,\d{3}.*$", lambda match: ungrouped(match[0]),
     "DeepScaleR"),
    (r"3{:}30, 7: 23: 3:30, 7:23", r"\{:\}|(?<=\d)\s*:\s*(?=\d)", ":", "DeepScaleR"),
    ("3 to 2: 3:2", r"^(\d+)\s*(?:\\text\s*\{\s*to\s*\}|to)\s*(\d+)$", r"\1:\2", "TinyV #206"),
    (r"8\!:\!34: 8:34", r"\\!\s*", "", "DeepScaleR"),
    (r"\color{red}{5}: {5}", r"\\(?:text)?color\s*\{\w+\}", "", "Qwen2.5-Math #29"),
    (r"\phantom{0}5, \hspace{1cm}5, 1\\[2pt]5: 5, 5, 1\\5",
     r"\\(?:[hv]?phantom|[hv]space\*?|tag\*?|label)\s*\{[^{}]*\}|(?<=\\\\)\s*\[-?[\d.]+\s*(?:pt|e[mx]|[cm]m)\]", "",
     "Qwen2.5-Math #29"),
    (r"\text{sin} x, sin(x): \sin x",
     _UPRIGHT.format(f"{_NO_TIME}(?:{_FUNCTIONS})")
     + rf"|(?<![A-Za-z\\])(?!(?<=\d)(?:min|sec)){_NO_TIME}({_FUNCTIONS}){_END}",
     lambda match: rf"\{match[1] or match[2]} ", "Math-Verify #69"),
    (r"\log_2(8): \log_{2}(8)", r"\\log_(\w)(?=\s*\()", r"\\log_{\1}", "Math-Verify #69"),
    (r"sqrt(3): \sqrt(3)", rf"(?<![A-Za-z\\])sqrt{_END}", r"\\sqrt", "Math-Verify #40"),
    (r"4\sqrt(2): 4\sqrt{2}", rf"(\\sqrt(?:\[\w+\])?)\s*\(({_NESTED})\)", r"\1{\2}",
     "reasoning-from-scratch #133"),
    (r"5^{}: 5", r"[\^_]\{\s*\}", "", "Math-Verify #76"),
    ("n!^2: (n!)^2", r"((?:(?<![\w}).])\d+|(?<![A-Za-z\\])[A-Za-z])!)(?=\s*\^)", r"(\1)", "own pairs"),
    (r"1.6e-19: 1.6 \times 10^{-19}", r"(?<![\w.}])(\d+(?:\.\d+)?|\.\d+)[eE]([+-]?\d+)(?!\w)",
     lambda match: rf"{match[1]} \times 10^{{{int(match[2])}}}", "open-r1 #503"),
    (r"2.5 x 10^6: 2.5 \times 10^6", r"(?<=\d)\s*(?:[x*]|\\cdot)\s*(?=10\s*\^)", r" \\times ", "open-r1 #503"),
    ("e^e: e^{e}", rf"\^([A-Za-z]){_END}", r"^{\1}", "DeepScaleR"),
    ("10^-3: 10^{-3}", r"\^-(\d+|\\[A-Za-z]+|[A-Za-z])", r"^{-\1}", "open-r1 #503"),
    (r"12^{\mathrm{th}}, 3rd: 12, 3",
     rf"(?:(?<=\d){_TYPESET}th|(?<=1)(?<!11){_TYPESET}st|(?<=2)(?<!12){_TYPESET}nd|(?<=3)(?<!13){_TYPESET}rd)\b\}}*",
     "", "TinyV #243"),
    (r".666...: .\overline{6}", r"(\.\d*?)(?:(\d)\2\2+|(\d\d+)\3+)\s*\\ldots\s*$", r"\1\\overline{\2\3}", "own pairs"),
    (r"\dot{1}4\dot{2}: \overline{142}", r"\\dot\{(\d)\}(\d*)\\dot\{(\d)\}", r"\\overline{\1\2\3}", "own pairs"),
    (r"0.1\overline{6}, 0.1(6): \frac{15}{90}",
     r"(?<![\w.)}])(\d*)\.(\d*)(?:\\(?:overline|bar|dot)\s*\{(\d+)\}|\((\d+)\)$)", _repeating, "DeepScaleR"),
    ("(1,2) (3,4): (1,2),(3,4)", r"(?<![\\A-Za-z])(\([^()]*,[^()]*\))\s*(?=\([^()]*,[^()]*\))", r"\1,", "DeepScaleR"),
    (r"28 percent, 28\,\%, 28\text{%}: 28\%",
     rf"(?<=[\d}}]){GAP}*(?:\\text\s*\{{\s*(?:percent|per cent|pct|\\?%)\s*\}}|(?:percent|per cent|pct)\b|\\%)", r"\\%",
     "Math-Verify #82"),
    (r"1 1/2, 1\ 1/2, 1 and 1/2: (1+1/2)",
     r"^([+-]?)([0-9]+)(?:(?:\s|\\[ ,;:]|~)+|\s*(?:\\text\s*\{)?\s*and\b\s*\}?\s*)([0-9]+)/([0-9]+)$",
     r"\1(\2+\3/\4)", "MATH500"),
    (r"33\frac{1}{3}\%: (33+\frac{1}{3})\%", r"(?<![\w.}])(\d+)\s*(\\frac\{\d+\}\{\d+\})(?=\s*\\%)", r"(\1+\2)",
     "DeepScaleR"),
    (r"infinity, -oo: \infty, -\infty", rf"(?<![A-Za-z\\])(?:oo|infinity){_END}", r"\\infty ", "DeepScaleR"),
    (r"f^{-1}(x), f^{(2)}(x): f_{inverse}(x), f_{(2)}(x)",
     r"(?<![A-Za-z\\])([f-h])\^\{\s*(?:(-1)|(\(\w\)))\s*\}(?=\s*\()",
     lambda match: f"{match[1]}_{{{match[3] or 'inverse'}}}", "own pairs"),
    (r"[[1,2],[3,4]]: \begin{pmatrix}1&2\\3&4\end{pmatrix}", r"^\[\s*((?:\[[^\[\]]*\]\s*,?\s*){2,})\]$", _matrix,
     "own pairs"),
    (r"x=1\\y=2: x=1, y=2", r"^()(?!.*(?:\\begin|&))([^=]*+=(?:(?!\\\\).)*+\\\\[^=]*+=.*)$", _system,
     "own pairs"),
    (r"\mathbb{R}^+: (0,\infty)", r"^\\mathbb\{R\}\s*[\^_]\s*\{?\+\}?$", r"(0,\\infty)", "own pairs"),
    ("]1,2[: (1,2)", r"^\]([^\[\]]*,[^\[\]]*)\[$", r"(\1)", "own pairs"),
    (r"\frac{\text{m}}{\text{s}^2}, \text{m}/\text{s}^2: \text{m/s2}",
     rf"\\frac\s*\{{\s*{_UNIT}\s*\}}\s*\{{\s*{_UNIT}{_SQUARED}\s*\}}|{_UNIT}\s*/\s*{_UNIT}{_SQUARED}",
     lambda match: rf"\text{{{match[1] or match[4]}/{match[2] or match[5]}{match[3] or match[6] or ''}}}", "own pairs"),
    (r"\text{m}\cdot\text{s}^{-1}, \mathrm{m\,s^{-1}}: \text{m/s}",
     rf"(?:{_UNIT}{GAP}*(?:\\cdot)?\s*{_UNIT}|\\mathrm\{{([a-z]+){GAP}+([a-z]+))\^\{{-([12])\}}\}}?",
     lambda match: rf"\text{{{match[1] or match[3]}/{match[2] or match[4]}{match[5].strip('1')}}}", "own pairs"),
    (r"\text{N}\cdot\text{m}: \text{N m}", rf"{_UNIT}\s*\\cdot\s*{_UNIT}", r"\\text{\1 \2}", "own pairs"),
    ("abs(x-3): |x-3|", r"(?<![A-Za-z\\])abs\(([^()]*)\)", r"|\1|", "Math-Verify #82"),
    (r"f(x)\equiv x: f(x)=x", r"^(?!.*\\pmod)(.*?)\\equiv", r"\1=", "DeepScaleR"),
    (r"pi: \pi", rf"(?<![A-Za-z\\])pi{_END}", r"\\pi", "MATH500"),
    (r"f': f_{prime}", r"(?<=[A-Za-z])('+)(?!clock)", lambda match: f"_{{{'prime' * len(match[1])}}}",
     "Math-Verify #76"),
    (r"\frac\pi2, \sqrt[3]2: \frac{\pi}2, \sqrt[3]{2}",
     rf"(\\(?:frac|binom|sqrt(?:\s*\[[^\]]*\])?|vec|hat|bar|dot|overline|mathbb|mathcal){_END}){_ONE}", r"\1{\2}",
     "MATH500"),
    (r"\hat{i}, \vec{j}, {k}: i, j, k", r"(?:\\(?:hat|vec)\s*|(?<![A-Za-z\]}^_\\]))\{\s*(\{[ijk]\}|[ijk])\s*\}", r"\1",
     "own pairs"),
    (r"\frac{\pi}2: \frac{\pi}{2}", rf"(\\(?:frac|binom)\s*{_GROUP}){_ONE}", r"\1{\2}", "MATH500"),
    (r"e^\frac{1}{2}: e^{\frac{1}{2}}", rf"\^\s*(\\(?:frac\s*{_GROUP}\s*|sqrt(?:\[[^\]]*\])?\s*){_GROUP})",
     r"^{\1}", "MATH500"),
)  # fmt: skip
"""Rules for LaTeX and plain text anywhere in an answer."""
_OF_KIND = "(?:(?:arbitrary|real) )*(integer|constant|number)"
_QUANTITY = rf"(?:the )?(?:(?:{any_of('qualities')}) )*(?:{any_of('quantities')})s?(?: (?:of|for)(?: [^\s:={{}}]+)+?)?"
_HENCE = r"(?:(?:so|thus|hence|therefore)(?:,\s*|\s+(?=the |[\d\\])))?"
_SAID = (
    rf"(?i)^{_HENCE}(?:{_QUANTITY}(?: is:?|\s*[:=]| (?=\d))"
    rf"|\\text\s*\{{\s*{_HENCE}{_QUANTITY}\s*(?:(?:is:?|[:=])\s*\}}|\}}\s*:)|[i-z]:(?!\d))?\s*"
)
PHRASES = _rules(
    ("$5 million: 5000000",
     rf"(?i)^(?:\\\$|[^\w.+\\-])*(\d+(?:,\d{{3}})*(?:\.\d+)?)\s*(?:\\text\s*\{{\s*)?({SCALE})(?: dollars)?\W*$",
     _scaled, "TinyV #191"),
    ("third: 3", rf"(?i)^(?:{any_of('ordinals')})$",
     lambda match: str(DATA["ordinals"].split().index(match[0].lower()) + 1), "own pairs"),
    ("one hundred and five, two and a half, three quarters: 105, (2+1/2), 3/4",
     rf"(?i)^(-?)((?:{SPOKEN})(?:[- ]+(?:{SPOKEN}))*)$", lambda match: match[1] + spoken(match[2]), "TinyV #132"),
    ("minus 5, negative 5: -5",
     rf"(?i)^(?:\\text\s*\{{\s*(?:minus|negative)\s*\}}|(?:minus|negative)\s)\s*(?=[\d\\]|(?:{SPOKEN})\b)", "-",
     "TinyV #132"),
    (r"empty set, there are no solutions, no such integers exist: \emptyset",
     r"(?i)^(?:(?:the )?empty set|(?:there (?:is|are|exist) )?no (?:such |real |integer |positive )*"
     r"(?:solution|root|zero|number|integer|value|triple|pair|function|prime)s?(?: exists?)?)$",
     r"\\emptyset", "TinyV #153"),
    ("DNE: does not exist", r"(?i)^(?:dne|(?:it|the limit) does not exist)$", "does not exist", "TinyV #153"),
    (r"all real numbers: \mathbb{R}", r"(?i)^(?:the set of )?all (?:the )?reals?(?: numbers)?$", r"\\mathbb{R}",
     "DeepScaleR"),
    (r"all integers: \mathbb{Z}", r"(?i)^(?:the set of )?all (?:the )?integers$", r"\\mathbb{Z}", "own pairs"),
    (r"all integers n \ge 3: n \ge 3",
     r"(?i)^(?:\\text\s*\{\s*)?all (?:(?:positive|natural|real) )?(?:integers|numbers|primes|values of)\s*\}?\s*\$?"
     r"(?=[a-z]\s*(?:[<>=]|\\[gln]e(?![a-z])))", "", "own pairs"),
    (r"f(x)=2x \text{ for all } x>0: f(x)=2x",
     rf"^([A-Za-z]\(([a-z])\)\s*=.*?){GAP}*+,?{GAP}*+"
     rf"(?:\\forall|(?:\\text\s*\{{\s*)?for (?:all|every|each|any)\b\s*\}}?){GAP}*\$?\2(?![A-Za-z]).*$", r"\1",
     "own pairs"),
    (r"125\% of the price: 125\%", r"(?<=\\%)\s*(?:\\text\s*\{)?\s*of [A-Za-z ]+\}?$", "", "own pairs"),
    ("The answer is 5, Perimeter: 5, Thus, 5, x: 5: 5", _SAID, "", "inspect_ai #4361"),
    (r"\frac{1}{3} \text{ or approximately } 0.33: \frac{1}{3} \approx 0.33",
     rf"(?<=[\w}})]){GAP}*[,(]?{GAP}*(?:\\text\s*\{{)?[\s,(]*(?:or\b\s*)?(?:approximately|approx\.|about|roughly){GAP}*\}}?"
     rf"{GAP}*(\d*\.\d+)\)?$", r" \\approx \1", "own pairs"),
    ("5 (approx), 5 (exact): 5",
     r"(?i)\s*(?:\\text\s*\{\s*)?\((?:approx\.?|approximately|correct|exact(?:ly)?|rounded(?: [a-z ]+)?|units?)\)\}?$",
     "", "inspect_ai #4361"),
    (r"k\pi, where k is an integer, k\pi for some integer k: k\pi, k\in\mathbb{Z}",
     rf"(?i)(?<=[\w)}}]){GAP}*+[,(]?{GAP}*+(?:\\text\s*\{{)?[\s,]*"
     rf"(?:for (?:some|any|all|every|each) {_OF_KIND}s?{GAP}*\}}?\s*\$?([a-z])"
     rf"|(?:(?:where|for|with)\b)?\s*\}}?{GAP}*\$?([a-z])\$?{GAP}*(?:\\text\s*\{{)?\s*is an?y? {_OF_KIND})"
     r"\s*\}?\$?\)?$", _member, "own pairs"),
    ("exactly 5: 5", r"(?i)^(?:\\text\s*\{\s*)?exactly\s*\}?\s*(?=[\d\\.$-])", "", "own pairs"),
    ("5 is the only solution: 5",
     rf"(?i)(?<=[\w)}}]){GAP}*(?:\\text\s*\{{\s*)?\b(?:is|are) the (?:final |correct |only )*"
     r"(?:answer|solution|value)s?\s*\}?$", "", "own pairs"),
    (r"5 (cm), 5 \text{ (inches)}: 5\text{cm}, 5\text{inches}",
     rf"(?<=\d){GAP}+(?:\\text\s*\{{\s*)?\(([a-z]{{2,}})\)\s*\}}?$|(?<=\d)\\text\s*\{{\s*\(([a-z]{{2,}})\)\s*\}}$",
     lambda match: rf"\text{{{match[1] or match[2]}}}", "own pairs"),
    ("a circle: circle", r"(?i)^(?:an?|the) (?!and\b)(?=[a-z]{3,}(?: [a-z]+)*$)", "", "TinyV #153"),
    (r"= 5, \approx 5, \therefore 5: 5", rf"^(?:=|\\(?:approx|therefore|implies){_END})\s*", "", "Qwen2.5-Math #29"),
)  # fmt: skip
"""Rules for answers that are stated in words; most of them look at the whole answer."""

_MATH = re.compile(r"\$\$?((?:[^$\\]|\\.)+)\$\$?|\\\(((?:(?!\\[()]).)+)\\\)|\\\[((?:(?!\\[\[\]]).)+)\\\]", re.DOTALL)
_FONT = re.compile(
    r"\\(?:mathbf|boldsymbol|bm|text|textbf|textit|textrm|mathrm|mbox)\s*\{(.+)\}"
    r"|\{([^,]+|\s*[(\[][^(){}\[\]]*[)\]]\s*|[+-]?\d{1,3}(?:,\d{3})+)\}",
    re.DOTALL,
)
_MARKS = re.compile(
    r"(?:\*{1,3}|_{2,3}|`+|'|\")(?=\S)([^*`'\"]+?)(?<=\S)(?:\*{1,3}|_{2,3}|`+|'|\")|<([^<>]+)>", re.DOTALL
)
_DOLLAR = re.compile(r"(?<!\\)\$")
_ONE_DOLLAR = re.compile(r"(?:\bUS\s*)?(?<!\\)\$")
_ONE_PRICE = re.compile(r"(?:US\s*)?\$\s*[\d,]*\.?\d+")
_ESCAPED = re.compile(r"\\[{}]")
_TRAILING = re.compile(r"(?:\s|\\[,;:! ]|\\\\|(?<![.\\])[.,;](?!\.)|。|(?<!\\)\\)+$")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_ROUNDS = 4
"""Largest number of times that the rules are applied to their own result; few answers need a second time."""


def plain_answer(text: str) -> str:
    r"""A mathematical answer in one spelling.

    If the text contains a box, as some gold answers do, the content of the box is the answer. Missing closing braces at
    the end, as in two answers of DeepScaleR, are added. What encloses the whole is removed (`$\mathbf{p - q}$.` becomes
    `p - q`), signs of Unicode become LaTeX, and the rules of this module apply in their order.
    """
    plain = " ".join((extract_answer(text) or text).split())
    plain += "}" * _depths(plain)[1]
    if len(_DOLLAR.findall(plain)) == 1:
        plain = _ONE_DOLLAR.sub(r"\\$" if _ONE_PRICE.fullmatch(plain) else "", plain).strip()
    for _ in range(_ROUNDS):
        before, plain = plain, _respelled(plain)
        if plain == before:
            break
    return plain


def _respelled(text: str) -> str:
    plain = _bare(text)
    if not plain.isascii():
        plain = _applied(CHARACTERS, plain)
        plain = unicodedata.normalize("NFKC", plain.translate(_TRANSLATION)).translate(_TRANSLATION)
    plain = _applied(SPELLING, plain)
    plain = _applied(PHRASES, _bare(plain)) or plain
    return " ".join(plain.split())


def _applied(rules: Iterable[Rule], text: str) -> str:
    for rule in rules:
        text = rule.pattern.sub(rule.replacement, text)
    return text


def _bare(text: str) -> str:
    """The text without what encloses the whole and without punctuation and spaces at its ends."""
    before = None
    while text != before:
        before = text
        text = _TRAILING.sub("", text).strip() or text
        for wrapping in (_MATH, _FONT, _MARKS):
            wrapped = wrapping.fullmatch(text)
            if wrapped and _depths(inner := wrapped[wrapped.lastindex or 0].strip())[0] == 0:
                text = inner or text
    return text


def _depths(text: str) -> tuple[int, int]:
    """The lowest depth of braces in a text and the depth at its end; it starts at 0. Escaped braces do not count."""
    depths = list(accumulate((brace == "{") - (brace == "}") for brace in _ESCAPED.sub("", text)))
    return min([0, *depths]), depths[-1] if depths else 0


def canonical_integer(text: str) -> str | None:
    """A plain integer without plus sign and leading zeros, such as "25" for `025` and `+25`; None for other texts."""
    trimmed = text.strip()
    if not _INTEGER.fullmatch(trimmed):
        return None
    digits = trimmed.lstrip("+-").lstrip("0")
    return f"-{digits}" if digits and trimmed[0] == "-" else digits or "0"


def depths(text: str) -> list[int]:
    """The number of open brackets of all kinds behind each character."""
    return list(accumulate((char in "{([") - (char in "})]") for char in text))


def marks(text: str, mark: str) -> dict[int, int]:
    r"""The bracket depth at each place where a mark stands without a backslash before it (`\,` is a space)."""
    return {at: depth for at, depth in enumerate(depths(text)) if text[at] == mark and text[at - 1 : at] != "\\"}
