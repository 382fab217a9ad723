"""Texts built to hang, exhaust or enter a checker: towers of powers, endless digits, deep nesting, code."""

from __future__ import annotations

from tokenmill.judges.math import numerals


def hostile_texts() -> dict[str, str]:
    """Name to text; each is given to every check as note, as answer and as source.

    All but the last are cut to the longest text that the checks still read.
    """
    tower = "9^{" * 30 + "9" + "}" * 30
    texts = {
        "tower of powers": f"${tower} = 1$",
        "flat tower": "2 = " + "9**" * 40 + "9",
        "tower with a symbol": f"$x = {tower} + x^{{{tower}}}$",
        "huge exponent": "10^1000000000000 = 7 and 7 = 2^(10^10)",
        "just under the limit": " ".join(f"{n}^8000 = {n}^8000 + 1." for n in range(2, 200)),
        "ten thousand digits": "9" * 10_000 + " * " + "9" * 10_000 + " = 1",
        "million digits": "7" * 900_000,
        "many long products": "*".join(["9" * 190] * 120) + " = 5",
        "sum of unlike fractions": " + ".join(f"1/{10**60 + 2 * i + 1}" for i in range(120)) + " = 3",
        "factorials": "170! = 5, 171! = 5, 100000! = 2, (((9!)!)!)! = 1",
        "nested brackets": "(" * 50_000 + "1" + ")" * 50_000 + " = 1",
        "open brackets": "1+(" * 50_000 + " = 1",
        "nested braces": "\\frac{" * 20_000 + "1" + "}{2}" * 20_000 + " = 1",
        "nested roots": "\\sqrt{" * 20_000 + "2" + "}" * 20_000 + " = 1",
        "boxed braces": "\\boxed{" * 20_000 + "2" + "}" * 20_000,
        "signs": "-" * 100_000 + "1 = 1",
        "relations": "1=" * 30_000 + "1",
        "math delimiters": "\\[" * 60_000 + "1=2",
        "dollars": "$ $" * 60_000 + "1=2",
        "stars": "**" * 90_000 + " 1=2",
        "commas": "1,234," * 60_000 + "= 5",
        "annotations": "<<" * 60_000 + "1+1=3>>",
        "mathml": "<math>" * 20_000 + "<mn>1</mn>" + "</math>" * 20_000,
        "nested mathml": "<math>"
        + "<msqrt>" * 2_000
        + "<mn>2</mn>"
        + "</msqrt>" * 2_000
        + "<mo>=</mo><mn>1</mn></math>",
        "environments": "\\begin{aligned}" * 10_000 + "1 &= 2 \\\\ " + "\\end{aligned}" * 10_000,
        "units": "5 " + "apple " * 60_000 + "= 5",
        "lists": "{" + ",".join(f"{i}/7" for i in range(500)) + "}",
        "python": "__import__('os').system('touch /tmp/tokenmill-owned') = 1",
        "sympy": "x = sympify('__import__(\"os\").getpid()'), \\boxed{eval(open('/etc/passwd').read())}",
        "lambda": "(lambda f: f(f))(lambda f: f(f)) = 1",
        "hard trigonometry": "$\\boxed{" + "+".join(f"\\sin(x^{{{i}}})^{{{i}}}" for i in range(2, 14)) + "}$",
        "hard equation": "$\\boxed{" + "+".join(f"\\sqrt{{x^{{{i}}}+{i}}}" for i in range(2, 14)) + " = 0}$",
        "symbolic power": "\\boxed{(a+b+c+d+e+f+g+h)^{40}}",
        "digits of every script": "১২৩৪৫৬৭৮৯০" * 10_000,
        "null bytes": "1\x00+\x001 = 3" * 1000,
    }
    return {name: text[: numerals.MAX_TEXT] for name, text in texts.items()} | {"too long": "1 + 1 = 3. " * 200_000}
