import subprocess
import sys
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tokenmill.schemas.draws import digest, normal, pick, shuffled, uniform

PARTS = st.lists(st.one_of(st.text(max_size=8), st.integers()), max_size=3)


@given(PARTS, PARTS)
def test_parts_are_told_apart(a, b):
    assert (digest(*a) == digest(*b)) == ([str(x) for x in a] == [str(x) for x in b])


@given(st.lists(st.integers(), max_size=30), PARTS)
def test_a_shuffle_is_a_permutation_and_repeatable(options, parts):
    assert sorted(shuffled(options, *parts)) == sorted(options)
    assert shuffled(options, *parts) == shuffled(options, *parts)
    assert all(shuffled(options, *parts, first=n) == shuffled(options, *parts)[:n] for n in range(4))


def test_draws_are_even():
    firsts = Counter(shuffled("abcd", i)[0] for i in range(4000))
    picks = Counter(pick("abcd", i) for i in range(4000))
    assert all(850 < firsts[c] < 1150 and 850 < picks[c] < 1150 for c in "abcd")
    values = [uniform(i) for i in range(4000)]
    assert all(0 <= v < 1 for v in values) and 0.47 < sum(values) / 4000 < 0.53
    deviates = [normal(i) for i in range(4000)]
    assert abs(sum(deviates) / 4000) < 0.06 and 0.9 < sum(d * d for d in deviates) / 4000 < 1.1


def test_draws_are_the_same_in_another_process():
    code = "from tokenmill.schemas.draws import *; print(digest(1, 'a'), shuffled(range(9), 'x'), pick('abc', 7))"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONHASHSEED": "5"}
    ).stdout
    assert out.strip() == f"{digest(1, 'a')} {shuffled(range(9), 'x')} {pick('abc', 7)}"
