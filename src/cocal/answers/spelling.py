r"""One spelling for mathematical answers: a table of rules, in the order in which they apply.

No rule changes what an answer says. What two answers have to share is in `cocal.answers.notation`, and what is left is
for computer algebra (`cocal.answers.algebra`).
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import accumulate
from typing import NamedTuple

from cocal.answers.extraction import extract_answer
from cocal.answers.numerals import SCALE, SCALES, SPOKEN, spoken, ungrouped
from cocal.answers.words import DATA

Replacement = str | Callable[[re.Match[str]], str]


class Rule(NamedTuple):
    """A rule of spelling.

    Attributes:
        example: What it rewrites, and into what.
        pattern: Regular expression whose matches are replaced.
        replacement: Template of what takes their place, or a function that makes it.
        source: Where answers of this form were met.
    """

    example: str
    pattern: re.Pattern[str]
    replacement: Replacement
    source: str


def _rules(*rows: tuple[str, str, Replacement, str]) -> tuple[Rule, ...]:
    return tuple(Rule(example, re.compile(pattern), new, source) for example, pattern, new, source in rows)


def _raised(mark: str) -> Callable[[re.Match[str]], str]:
    return lambda found: f"{mark}{{{unicodedata.normalize('NFKC', found[0])}}}"


def _vulgar(found: re.Match[str]) -> str:
    above, _, below = unicodedata.normalize("NFKC", found[2]).partition("\u2044")
    return rf"{found[1]}\frac{{{above}}}{{{below}}}"


def _greek(found: re.Match[str]) -> str:
    _, size, _, name = unicodedata.name(found[0]).split()
    return f"\\{name.title() if size == 'CAPITAL' else name.lower()} "


def _scaled(found: re.Match[str]) -> str:
    return f"{Decimal(found[1].replace(',', '')).scaleb(SCALES[found[2].lower()]):f}"


def _repeating(found: re.Match[str]) -> str:
    whole, fixed, period = found[1], found[2], found[3] or found[4]
    return (
        rf"\frac{{{int(whole + fixed + period) - int('0' + whole + fixed)}}}{{{'9' * len(period)}{'0' * len(fixed)}}}"
    )


def _system(found: re.Match[str]) -> str:
    return ", ".join(line.strip(" ,;") for line in found[2].split(r"\\") if line.strip(" ,;"))


_FUNCTIONS = "arcsin|arccos|arctan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|ln|log|exp|max|min|gcd|lcm"
_END = "(?![A-Za-z])"
_NO_TIME = r"(?!(?:min|sec)(?:\s*\}?[\s,.;]*$|\s*\}?[\s,]+(?:and\b|\d)))"
"""No minutes or seconds: these end the answer, or another quantity follows."""
_TYPESET = r"\s*(?:\^?\s*\{?\s*(?:\\(?:text|mathrm)\s*\{)?)"
"""What may precede the ending of an ordinal number."""
_NESTED = r"(?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+"
"""What parentheses enclose, with two more pairs of them inside."""
_BLANK = r"(?: |\\[ ,;]|~)"
"""A space between groups of digits."""
_UPRIGHT = r"\\(?:text|mathrm|operatorname|mathbf|mathbb|rm)\s*\{{\s*({})\s*\}}"
SIGNS: dict[str, str] = DATA["signs"]
"""Signs of Unicode and what LaTeX has for them."""
_TRANSLATION = {ord(sign): latex for signs, latex in SIGNS.items() for sign in signs}

CHARACTERS = _rules(
    ("a space without width: nothing", "[\u200b-\u200f\u2060-\u2064\ufeff\u00ad]", "", "EuroEval #2167"),
    ("x²: x^{2}", "[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿⁱ]+", _raised("^"), "Math-Verify #69"),
    ("x₁: x_{1}", "[₀₁₂₃₄₅₆₇₈₉₊₋]+", _raised("_"), "Math-Verify #69"),
    (r"1½: 1\frac{1}{2}", "(\\d?)([¼-¾⅐-⅞])", _vulgar, "TinyV #243"),
    ("①③: (1)(3)", "[①-⑳]", lambda found: f"({unicodedata.numeric(found[0]):.0f})", "DeepScaleR"),
    (r"θ: \theta", "[Α-ΡΣ-Ωα-ρσ-ω]", _greek, "Math-Verify #69"),
)
"""Characters that compatibility normalisation (NFKC) would change in meaning; it follows, and then SIGNS."""
SPELLING = _rules(
    (r"\\frac: \frac", r"^(?!.*\\begin).*\\\\[A-Za-z].*$", lambda found: re.sub(r"\\\\(?=[A-Za-z])", r"\\", found[0]),
     "Math-Verify's tests"),
    ("$9$ miles: 9 miles", r"(?<!\\)\$([^$]+)(?<!\\)\$", r"\1", "Math-Verify's tests"),
    (r"\left. 5 \right.: 5", r"\\(?:left|right)\s*\.", "", "DeepScaleR"),
    (r"\left(, \displaystyle: (", rf"\\(?:[bB]igg?[lrm]?|left|right|(?:display|text)style|(?:no)?limits){_END}\s*", "",
     "DeepScaleR"),
    (r"\\[4pt]: \\", r"(\\\\)\s*\[[\d.]+\s*(?:pt|em|ex|[cm]m)\]", r"\1", "DeepScaleR"),
    (r"(\begin{array}{c}1\\2\end{array}): \begin{pmatrix}1\\2\end{pmatrix}",
     r"[(\[]\s*\\begin\{array\}(?:\{[lcr|\s]+\})?(.*?)\\end\{array\}\s*[)\]]", r"\\begin{pmatrix}\1\\end{pmatrix}",
     "DeepScaleR"),
    ("x&=1: x=1", r"&\s*(?==)|(?<==)\s*&", "", "DeepScaleR"),
    (r"\begin{cases}x=1\\y=2\end{cases}: x=1,y=2",
     r"(?:\\\{\s*)?\\begin\{(cases|array|align\*?|aligned|gathered)\}(?:\{[lcr|]+\})?([^&]*?)\\end\{\1\}", _system,
     "DeepScaleR"),
    (r"\dfrac, \dbinom: \frac, \binom", r"\\[dtc](frac|binom)", r"\\\1", "MATH500"),
    (r"{5 \choose 2}, {1 \over 2}: \binom{5}{2}, \frac{1}{2}",
     rf"(?:\{{|^)([^{{}}]*)\\(choose|over){_END}([^{{}}]*)(?:\}}|$)",
     lambda found: rf"\{'binom' if found[2] == 'choose' else 'frac'}{{{found[1].strip()}}}{{{found[3].strip()}}}",
     "DeepScaleR"),
    (r"\lbrace 1\rbrace: \{1\}", rf"\\([lr])brace{_END}\s*", lambda found: r"\{" if found[1] == "l" else r"\}",
     "DeepScaleR"),
    (r"90\degree, 90^o: 90^\circ", rf"\^?\s*\\degrees?{_END}|(?<=\d)\s*\^\s*(?:\{{o\}}|o{_END})", r"^\\circ",
     "DeepScaleR"),
    (r"20°C, 20 degrees Celsius: 20^\circ\text{C}",
     r"(?:\^\s*(?:\\circ|\{\s*\\circ\s*\})|(?<=\d)\s+degrees?)\s*(?:(C)(?:elsius)?|(F)(?:ahrenheit)?)\b",
     lambda found: rf"^\circ\text{{{found[1] or found[2]}}}", "DeepScaleR"),
    (r"\text{degrees Celsius}: ^\circ\text{C}", r"\\text\s*\{\s*degrees?\s*(C|F)[a-z]*\s*\}", r"^\\circ\\text{\1}",
     "DeepScaleR"),
    (r"\pounds, \euro: £, €", rf"\\(?:(pounds)|(?:text)?euro){_END}\s*", lambda found: "£" if found[1] else "€",
     "DeepScaleR"),
    ("x**3: x^3", r"(?<=[\w)}])\*\*(?=[\w({-])", "^", "Math-Verify #69"),
    (r"\leqslant, <=: \le", rf"\\leq(?:slant|q)?{_END}|<=", r"\\le ", "DeepScaleR"),
    (r"\geqslant, >=: \ge", rf"\\geq(?:slant|q)?{_END}|>=", r"\\ge ", "DeepScaleR"),
    (r"\neq, !=: \ne", rf"\\neq{_END}|!=", r"\\ne ", "DeepScaleR"),
    (r"\lt, \gt: <, >", rf"\\([lg])t{_END}", lambda found: "<" if found[1] == "l" else ">", "DeepScaleR"),
    (r"\mid, \|, \lvert: |", rf"\\(?:mid|[lr]?vert){_END}|\\\|", "|", "Math-Verify #82"),
    (r"\varnothing, \{\}: \emptyset", rf"\\varnothing{_END}|\\\{{\s*\\\}}", r"\\emptyset ", "DeepScaleR"),
    (r"\langle 1,2\rangle: (1,2)", r"\\langle(.*?)\\rangle", r"(\1)", "DeepScaleR"),
    (r"..., \dots, \cdots: \ldots", rf"\\[cd]?dots[bcmio]?{_END}|\.\.\.+|…", r"\\ldots ", "Math-Verify #14"),
    (r"(mod 7), \bmod 7, \pmod 7: \pmod{7}",
     r"\(\s*\\?(?:text\s*\{\s*)?[bp]?mod\b\s*\}?\s*\{?(\w+)\}?\s*\)|\\[bp]?mod\s*\{?(\w+)\}?",
     lambda found: rf"\pmod{{{found[1] or found[2]}}}", "DeepScaleR"),
    (r"10{,}080, 10,\!080, 10'080, 10_080: 10080", r"(?<=\d)(?:,\\!\s*|\{,\}|\\,|'|_)(?=\d{3}(?!\d))", "", "MATH500"),
    (r"5 000\pi, 10\,000: 5000\pi, 10000",
     rf"(?<![\d.,^_])[1-9]\d{{0,2}}(?:{_BLANK}\d{{3}})+(?!{_BLANK}?\d|[.,]\d)",
     lambda found: re.sub(_BLANK, "", found[0]), "DeepScaleR"),
    (r"12,000x, \frac{1}{21,000}: 12000x, \frac{1}{21000}", r"^.*\d,\d{3}.*$", lambda found: ungrouped(found[0]),
     "DeepScaleR"),
    ("0{.}75: 0.75", r"(?<=\d)\{\.\}(?=\d)", ".", "MATH500"),
    (r"3\colon 2, 3{:}30, 7: 23: 3:2, 3:30, 7:23", rf"\{{:\}}|\\colon{_END}\s*|(?<=\d)\s*:\s*(?=\d)", ":",
     "DeepScaleR"),
    (r"8\!:\!34: 8:34", r"\\!\s*", "", "DeepScaleR"),
    (r"\color{red}{5}: {5}", r"\\(?:text)?color\s*\{\w+\}", "", "Qwen2.5-Math #29"),
    (r"\phantom{0}5, \hspace{1cm}5: 5", r"\\(?:[hv]?phantom|[hv]space\*?|tag\*?|label)\s*\{[^{}]*\}", "",
     "Qwen2.5-Math #29"),
    (r"\underline{5}, \mathbf{5}: {5}", r"\\(?:underline|fbox|math(?:bf|it|sf|tt)|boldsymbol|bm)\s*(?=\{)", "",
     "Qwen2.5-Math #29"),
    (r"\textbf{m}, \mbox{m}: \text{m}", r"\\(?:text(?:bf|it|rm|normal|sf|tt|up|sc)|emph|mbox)\s*(?=\{)", r"\\text",
     "Qwen2.5-Math #29"),
    (r"\bf{5}, {\bf 5}: {5}", rf"\\(?:bf|it|rm|sf|tt|tiny|small|large|Large|LARGE|huge|Huge){_END}\s*", "",
     "Qwen2.5-Math #29"),
    (r"5 \blacksquare: 5", rf"\\(?:(?:black)?square|qed|checkmark){_END}|[✓✔]", "", "EuroEval #2167"),
    (r"\mathrm{e}, \imath: e, i", rf"{_UPRIGHT.format('[eij]')}|\\([ij])math{_END}", lambda found: found[1] or "i",
     "Math-Verify #69"),
    (r"\text{sin} x, sin(x): \sin x",
     _UPRIGHT.format(f"{_NO_TIME}(?:{_FUNCTIONS})")
     + rf"|(?<![A-Za-z\\])(?!(?<=\d)(?:min|sec)){_NO_TIME}({_FUNCTIONS}){_END}",
     lambda found: rf"\{found[1] or found[2]} ", "Math-Verify #69"),
    (r"\log _{2}: \log_{2}", r"(\\[A-Za-z]+)\s+(?=[_^])", r"\1", "Math-Verify #69"),
    (r"\log_2(8): \log_{2}(8)", r"\\log_(\w)(?=\s*\()", r"\\log_{\1}", "Math-Verify #69"),
    (r"\exp(2), \exp\{2\}: e^{2}", r"\\exp\s*(?:\\?\{([^{}]*?)\\?\}|\(([^()]*)\))",
     lambda found: f"e^{{{found[1] or found[2] or ''}}}", "Math-Verify #69"),
    (r"sqrt(3): \sqrt(3)", rf"(?<![A-Za-z\\])sqrt{_END}", r"\\sqrt", "Math-Verify #40"),
    (r"4\sqrt(2): 4\sqrt{2}", rf"(\\sqrt(?:\[\w+\])?)\s*\(({_NESTED})\)", r"\1{\2}",
     "reasoning-from-scratch #133"),
    (r"5 \text{.}: 5", r"\\text\s*\{[\s.,;]*\}", "", "Math-Verify #76"),
    (r"5^{}: 5", r"[\^_]\{\s*\}", "", "Math-Verify #76"),
    (r"1.6e-19: 1.6 \times 10^{-19}", r"(?<![\w.}])(\d+(?:\.\d+)?|\.\d+)[eE]([+-]?\d+)(?!\w)",
     lambda found: rf"{found[1]} \times 10^{{{int(found[2])}}}", "open-r1 #503"),
    (r"2.5 x 10^6: 2.5 \times 10^6", r"(?<=\d)\s*(?:[x*]|\\cdot)\s*(?=10\s*\^)", r" \\times ", "open-r1 #503"),
    ("e^e: e^{e}", rf"\^([A-Za-z]){_END}", r"^{\1}", "DeepScaleR"),
    ("10^-3: 10^{-3}", r"\^-(\d+|\\[A-Za-z]+|[A-Za-z])", r"^{-\1}", "open-r1 #503"),
    (r"12^{\mathrm{th}}, 3rd: 12, 3",
     rf"(?:(?<=\d){_TYPESET}th|(?<=1)(?<!11){_TYPESET}st|(?<=2)(?<!12){_TYPESET}nd|(?<=3)(?<!13){_TYPESET}rd)\b\}}*",
     "", "TinyV #243"),
    (r"0.\dot{1}2\dot{3}: 0.\overline{123}", r"(?<=\.)(\d*)\\dot\s*\{(\d)\}(\d*)\\dot\s*\{(\d)\}",
     r"\1\\overline{\2\3\4}", "DeepScaleR"),
    (r"0.1\overline{6}, 0.1(6): \frac{15}{90}",
     r"(?<![\w.)}])(\d*)\.(\d*)(?:\\(?:overline|bar|dot)\s*\{(\d+)\}|\((\d+)\)$)", _repeating, "DeepScaleR"),
    ("(1,2) (3,4): (1,2),(3,4)", r"(?<![\\A-Za-z])(\([^()]*,[^()]*\))\s*(?=\([^()]*,[^()]*\))", r"\1,", "DeepScaleR"),
    (r"28 percent: 28\%",
     r"(?<=[\d}])\s*(?:\\text\s*\{\s*(?:percent|per cent|pct)\s*\}|(?:percent|per cent|pct)\b)", r"\\%",
     "Math-Verify #82"),
    (r"1 1/2, 1\ 1/2, 1 and 1/2: (1+1/2)",
     r"^([+-]?)([0-9]+)(?:(?:\s|\\[ ,;:]|~)+|\s*(?:\\text\s*\{)?\s*and\b\s*\}?\s*)([0-9]+)/([0-9]+)$",
     r"\1(\2+\3/\4)", "MATH500"),
    (r"33\frac{1}{3}\%: (33+\frac{1}{3})\%", r"(?<![\w.}])(\d+)\s*(\\frac\{\d+\}\{\d+\})(?=\s*\\%)", r"(\1+\2)",
     "DeepScaleR"),
    (r"infinity, -oo: \infty, -\infty", rf"(?<![A-Za-z\\])(?:oo|infinity){_END}", r"\\infty ", "DeepScaleR"),
    (r"A \backslash B: A \setminus B", rf"\\backslash{_END}", r"\\setminus ", "DeepScaleR"),
    (r"]1,2], [1,2[: (1,2], [1,2)", r"^([\[\]])([^\[\]]*,[^\[\]]*)([\[\]])$",
     lambda found: ("(" if found[1] == "]" else "[") + found[2] + (")" if found[3] == "[" else "]"), "DeepScaleR"),
    ("abs(x-3): |x-3|", r"(?<![A-Za-z\\])abs\(([^()]*)\)", r"|\1|", "Math-Verify #82"),
    (r"f(x)\equiv x: f(x)=x", r"^(?!.*\\pmod)(.*?)\\equiv", r"\1=", "DeepScaleR"),
    (r"pi: \pi", rf"(?<![A-Za-z\\])pi{_END}", r"\\pi", "MATH500"),
    (r"f': f_{prime}", r"(?<=[A-Za-z])('+)", lambda found: f"_{{{'prime' * len(found[1])}}}", "Math-Verify #76"),
)  # fmt: skip
"""Spellings of LaTeX and of plain text, wherever they stand."""
_SAID = (
    r"(?:(?:(?:so|thus|hence|therefore),?\s+)?(?:the )?(?:final )?(?:answer|ans\.?|result|solution)"
    r"(?: is:?|\s*[:=]| (?=\d))|(?:so|thus|hence|therefore)(?:,|\s+(?=[\d\\])))"
)
PHRASES = _rules(
    ("$5 million: 5000000",
     rf"(?i)^[^\w.+\\-]*(\d+(?:,\d{{3}})*(?:\.\d+)?)\s*(?:\\text\s*\{{\s*)?({SCALE})\W*$", _scaled, "TinyV #191"),
    ("one hundred and five, two and a half, three quarters: 105, (2+1/2), 3/4",
     rf"(?i)^(?:{SPOKEN})(?:[- ]+(?:{SPOKEN}))*$", lambda found: spoken(found[0]), "TinyV #132"),
    ("minus 5, negative 5: -5",
     r"(?i)^(?:\\text\s*\{\s*(?:minus|negative)\s*\}|(?:minus|negative)\s)\s*(?=[\d\\])", "-", "TinyV #132"),
    (r"empty set, there are no solutions, no real roots: \emptyset",
     r"(?i)^(?:(?:the )?empty set|(?:there (?:is|are) )?no (?:real )?(?:solution|root|zero)s?)$", r"\\emptyset",
     "TinyV #153"),
    ("DNE: does not exist", r"(?i)^(?:dne|(?:it|the limit) does not exist)$", "does not exist", "TinyV #153"),
    (r"all real numbers: \mathbb{R}", r"(?i)^(?:the set of )?all (?:the )?reals?(?: numbers)?$", r"\\mathbb{R}",
     "DeepScaleR"),
    ("The answer is 5, Answer: 5, x: 5: 5", rf"(?i)^(?:{_SAID}|\\text\s*\{{\s*{_SAID}\s*\}}|[i-z]:(?!\d))\s*", "",
     "inspect_ai #4361"),
    ("5 (approx), 5 (exact): 5",
     r"(?i)\s*(?:\\text\s*\{\s*)?\((?:approx\.?|approximately|correct|exact(?:ly)?|rounded|units?)\)\}?$", "",
     "inspect_ai #4361"),
    ("a circle: circle", r"(?i)^(?:an?|the) (?!and\b)(?=[a-z]{3,}(?: [a-z]+)*$)", "", "TinyV #153"),
    (r"= 5, \approx 5, \therefore 5: 5", rf"^(?:=|\\(?:approx|therefore|implies){_END})\s*", "", "Qwen2.5-Math #29"),
)  # fmt: skip
"""What the whole answer says in words."""

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
_TRAILING = re.compile(r"(?:\s|\\[,;:! ]|\\q?quad|\\\\|(?<![.\\])[.,;](?!\.)|。|(?<!\\)\\)+$")
_LEADING = re.compile(r"^(?:\s|\\[,;:! ]|\\q?quad(?![A-Za-z]))+")
_SPACED = re.compile(r"[+-]?[0-9]{1,3}(?:(?: |\\ )[0-9]{3})+(?:\.[0-9]+)?")
_ARGUMENTS = re.compile(r"\\(frac|binom|sqrt|vec|hat|bar|dot|overline|mathbb|mathcal)(?![a-z])")
_ONE = re.compile(r"\s*(\\[A-Za-z]+|[^\s\\{}])")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_ROUNDS = 4
"""Number of times that the rules are applied to what they have made; few answers need a second one."""


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
    plain = _with_braces(_applied(SPELLING, plain))
    plain = _applied(PHRASES, _bare(plain)) or plain
    return " ".join((plain.replace("\\ ", "").replace(" ", "") if _SPACED.fullmatch(plain) else plain).split())


def _applied(rules: Iterable[Rule], text: str) -> str:
    for rule in rules:
        text = rule.pattern.sub(rule.replacement, text)
    return text


def _bare(text: str) -> str:
    """The text without what encloses the whole and without punctuation and spaces at its ends."""
    before = None
    while text != before:
        before = text
        text = _TRAILING.sub("", _LEADING.sub("", text)) or text
        for wrapping in (_MATH, _FONT, _MARKS):
            wrapped = wrapping.fullmatch(text)
            if wrapped and _depths(inner := wrapped[wrapped.lastindex or 0].strip())[0] == 0:
                text = inner or text
    return text


def _with_braces(text: str) -> str:
    r"""Braces around arguments that are one character or command: `\frac\pi2` becomes `\frac{\pi}{2}`."""
    found = _ARGUMENTS.search(text)
    if found is None:
        return text
    begin, end = ("{", "}") if text[: found.start()].rstrip().endswith("^") else ("", "")
    read, rest = text[: found.start()] + begin + found[0], text[found.end() :]
    if found[1] == "sqrt" and rest.lstrip().startswith("["):
        degree, closing, rest = rest.lstrip().partition("]")
        read += degree + closing
    for _ in range(2 if found[1] in ("frac", "binom") else 1):
        if rest.lstrip().startswith("{"):
            argument, rest = _group(rest.lstrip())
            read += _with_braces(argument)
        elif argument := _ONE.match(rest):
            read, rest = f"{read}{{{argument[1]}}}", rest[argument.end() :]
    return read + end + _with_braces(rest)


def _group(text: str) -> tuple[str, str]:
    """A group in braces at the start of a text, and what follows it."""
    depth = 0
    for place, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if depth == 0:
            return text[: place + 1], text[place + 1 :]
    return text, ""


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


def nesting(text: str) -> int:
    """Largest depth of nested brackets of all kinds."""
    return max(accumulate((char in "{([") - (char in "})]") for char in text), default=0)
