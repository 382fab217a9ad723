"""Honest repositories of many kinds, whose tests and code share no process: what a test may do with the code's objects."""

import dataclasses

import pytest
from tokenmill.pipelines.agentic.code.parse import CodeTaskParser
from tokenmill.tools_repo.code.grade import Grader, GradingFailed
from tokenmill.tools_repo.code.workspace import Workspace

from tests.tools_repo.sandboxed import runtime, together

GRADER = Grader(runtime())
PARSER = CodeTaskParser(time_limit=8)

REPOSITORIES = {
    "classes and exceptions": (
        {
            "shapes/__init__.py": "from .circle import Circle, ShapeError\n",
            "shapes/circle.py": """
class ShapeError(ValueError):
    def __init__(self, why, code=7):
        super().__init__(why)
        self.code = code

class Shape:
    sides = 0

class Circle(Shape):
    '''A circle.'''
    made = 0
    def __init__(self, r):
        if r < 0:
            raise ShapeError("negative radius")
        self.r = r
        Circle.made += 1
    @property
    def area(self):
        return 3 * self.r ** 2
    @classmethod
    def unit(cls):
        return cls(1)
    def __eq__(self, other):
        return isinstance(other, Circle) and self.r == other.r
    def __lt__(self, other):
        return self.r < other.r
    def __hash__(self):
        return hash(self.r)
    def __add__(self, other):
        return Circle(self.r + other.r)
    def __repr__(self):
        return f"Circle({self.r})"
    def __len__(self):
        return self.r
    def __bool__(self):
        return self.r > 0
    def __getitem__(self, n):
        return [self.r][n]
    def __contains__(self, x):
        return x < self.r
    def grow(self, by=1):
        self.r += by
        return self
""",
        },
        """
import copy, pytest
import shapes
from shapes import Circle, ShapeError
from shapes.circle import Shape

def test_fields():
    c = Circle(2)
    assert c.r == 2 and c.area == 12 and Circle.sides == 0 and c.sides == 0
    c.r = 3
    assert c.area == 27
    assert Circle.__name__ == "Circle" and Circle.__doc__ == "A circle."
    assert hasattr(c, "area") and not hasattr(c, "volume")
    with pytest.raises(AttributeError):
        c.volume

def test_kinds():
    c = Circle.unit()
    assert isinstance(c, Circle) and isinstance(c, Shape) and issubclass(Circle, Shape) and type(c) is Circle
    assert not isinstance(c, int) and isinstance(c, shapes.Circle)

def test_errors():
    with pytest.raises(ShapeError, match="negative") as told:
        Circle(-1)
    assert told.value.code == 7 and isinstance(told.value, ValueError) and str(told.value) == "negative radius"
    with pytest.raises(ValueError):
        Circle(-1)

def test_operators():
    assert Circle(1) + Circle(2) == Circle(3) and Circle(1) != Circle(2) and Circle(1) < Circle(2)
    assert repr(Circle(2)) == "Circle(2)" and f"{Circle(2)}" == "Circle(2)" and len(Circle(4)) == 4
    assert {Circle(1), Circle(1)} == {Circle(1)} and Circle(5)[0] == 5 and not Circle(0)
    assert 1 in Circle(5) and 9 not in Circle(5)
    assert sorted([Circle(3), Circle(1)])[0].r == 1
    assert Circle(1) != 1

def test_copies():
    c = Circle(1)
    d = copy.deepcopy(c)
    c.grow().grow(by=2)
    assert (c.r, d.r) == (4, 1) and c.grow() is c
""",
    ),
    "values that change in place": (
        {
            "reg.py": """
REGISTRY = {}
LIMIT = 3
def register(name):
    def wrap(f):
        REGISTRY[name] = f
        return f
    return wrap
def sort_in_place(xs):
    xs.sort()
def apply(f, xs):
    return [f(x) for x in xs]
def each(xs):
    for x in xs:
        yield x * 2
def limit():
    return LIMIT
"""
        },
        """
import reg
from reg import REGISTRY, register, sort_in_place, apply, each, limit
from unittest.mock import MagicMock, patch
import operator

def test_registry():
    @register("a")
    def one():
        return 1
    assert "a" in REGISTRY and REGISTRY["a"]() == 1
    assert reg.REGISTRY is REGISTRY

def test_argument():
    xs = [3, 1, 2]
    assert sort_in_place(xs) is None
    assert xs == [1, 2, 3]

def test_callbacks():
    seen = []
    assert apply(lambda x: seen.append(x) or x + 1, [1, 2]) == [2, 3] and seen == [1, 2]
    assert apply(str, [1]) == ["1"] and apply(operator.neg, [1]) == [-1]
    import pytest
    def bad(x):
        raise KeyError("k")
    with pytest.raises(KeyError):
        apply(bad, [1])

def test_generator():
    g = each([1, 2, 3])
    assert next(g) == 2 and list(g) == [4, 6]
    assert sum(each(range(10))) == 90

def test_mocks(monkeypatch):
    mock = MagicMock(return_value=5)
    assert apply(mock, [1]) == [5]
    mock.assert_called_once_with(1)
    monkeypatch.setattr(reg, "LIMIT", 9)
    assert limit() == 9
    with patch("reg.LIMIT", 4):
        assert limit() == 4
    assert limit() == 9
    with patch("reg.apply", return_value="x") as other:
        assert reg.apply(1, 2) == "x"
        other.assert_called_once()
""",
    ),
    "the outside world": (
        {
            "app.py": """
import argparse, json, logging, os, sys, time, warnings
from pathlib import Path
log = logging.getLogger(__name__)
def main(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("n", type=int)
    a = p.parse_args(argv)
    print(a.n * 2)
    return 0
def save(path, data):
    Path(path).write_text(json.dumps(data))
def load(path):
    with open(path) as f:
        return json.load(f)
def name():
    return os.environ.get("APP_NAME", "none")
def ask():
    return input("name? ").strip()
def noisy():
    log.warning("careful %d", 3)
    warnings.warn("old", DeprecationWarning)
def now():
    return time.time()
def here():
    return os.getcwd()
def parse(text):
    return json.loads(text)
class Store:
    def __init__(self, path): self.f = open(path, "w")
    def put(self, x): self.f.write(x)
    def __enter__(self): return self
    def __exit__(self, *a): self.f.close()
if __name__ == "__main__":
    sys.exit(main())
""",
            "data/one.json": '{"a": 1}',
        },
        """
import io, json, os, subprocess, sys, logging
from pathlib import Path
import pytest
import app
from unittest import mock

def test_prints(capsys):
    assert app.main(["4"]) == 0
    assert capsys.readouterr().out == "8\\n"

def test_exits(capsys):
    with pytest.raises(SystemExit) as told:
        app.main(["x"])
    assert told.value.code == 2 and "invalid int" in capsys.readouterr().err

def test_files(tmp_path):
    place = tmp_path / "sub"
    place.mkdir()
    app.save(place / "x.json", {"k": [1]})
    assert json.loads((place / "x.json").read_text()) == {"k": [1]}
    (tmp_path / "y.json").write_text("[1, 2]")
    assert app.load(str(tmp_path / "y.json")) == [1, 2]
    with pytest.raises(FileNotFoundError):
        app.load(tmp_path / "none")
    with app.Store(tmp_path / "z") as store:
        store.put("abc")
    assert (tmp_path / "z").read_text() == "abc"
    assert app.load(Path(__file__).parent.parent / "data" / "one.json") == {"a": 1}

def test_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("APP_NAME", "x")
    assert app.name() == "x"
    monkeypatch.delenv("APP_NAME")
    assert app.name() == "none"
    monkeypatch.chdir(tmp_path)
    assert app.here() == str(tmp_path)

def test_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("bob\\n"))
    assert app.ask() == "bob"
    monkeypatch.setattr("builtins.input", lambda _: " eve ")
    assert app.ask() == "eve"
    with mock.patch("time.time", return_value=12.5):
        assert app.now() == 12.5
    assert app.now() > 1e9

def test_logs(caplog):
    with pytest.warns(DeprecationWarning):
        app.noisy()
    assert "careful 3" in caplog.text

def test_command():
    done = subprocess.run([sys.executable, "app.py", "21"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "42\\n")
    done = subprocess.run([sys.executable, "-m", "app"], capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run([sys.executable, "app.py"], check=True, capture_output=True)

def test_own_errors():
    with pytest.raises(json.JSONDecodeError) as told:
        app.parse("{")
    assert told.value.pos == 1
""",
    ),
    "plain kinds": (
        {
            "kinds.py": """
import asyncio, collections, dataclasses, datetime, decimal, enum, fractions, functools, pathlib, typing
Point = collections.namedtuple("Point", "x y")
class Pair(typing.NamedTuple):
    a: int
    b: str = "b"
class Color(enum.Enum):
    RED = 1
    BLUE = "b"
class Level(enum.IntEnum):
    LOW = 1
class Tag(str, enum.Enum):
    A = "a"
@dataclasses.dataclass
class Item:
    name: str
    tags: list = dataclasses.field(default_factory=list)
@dataclasses.dataclass(frozen=True)
class Frozen:
    n: int
async def later(x):
    await asyncio.sleep(0)
    return x + 1
class Ctx:
    async def __aenter__(self): return 5
    async def __aexit__(self, *a): return False
    def __aiter__(self): self.n = 0; return self
    async def __anext__(self):
        self.n += 1
        if self.n > 2: raise StopAsyncIteration
        return self.n
@functools.lru_cache
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def many():
    return (collections.Counter("aab"), datetime.date(2024, 1, 2), datetime.timedelta(1), decimal.Decimal("1.5"),
            fractions.Fraction(1, 3), pathlib.Path("a/b"), {1: (2, {3})}, float("inf"), b"x", collections.deque([1]))
def typed(n: int, *, deep: bool = False) -> str:
    '''Doc.'''
    return "x"
class Stack(list):
    def push(self, x): self.append(x)
"""
        },
        """
import asyncio, collections, dataclasses, datetime, decimal, fractions, inspect, pathlib
import pytest
import kinds
from kinds import Point, Pair, Color, Level, Tag, Item, Frozen, later, Ctx, fib, many, typed, Stack

def test_tuples():
    assert Point(1, 2) == (1, 2) and Point(1, 2).x == 1 and Point(1, 2) == Point(1, 2) and Pair(1) == (1, "b")
    x, y = Point(3, 4)
    assert (x, y) == (3, 4)

def test_enums():
    assert Color.RED is Color.RED and Color.RED == Color.RED and Color.RED != Color.BLUE and Color(1) is Color.RED
    assert Color.RED.value == 1 and Color["BLUE"].name == "BLUE" and [c.name for c in Color] == ["RED", "BLUE"]
    assert Level.LOW == 1 and Tag.A == "a" and len(Color) == 2 and {Color.RED: 1}[Color.RED] == 1

def test_dataclasses():
    assert Item("a") == Item("a") and Item("a") != Item("b") and repr(Item("a")) == "Item(name='a', tags=[])"
    assert dataclasses.asdict(Item("a", [1])) == {"name": "a", "tags": [1]} and dataclasses.is_dataclass(Item)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Frozen(1).n = 2
    item = Item("a")
    item.tags.append(3)
    assert item.tags == [3]
    assert dataclasses.replace(Frozen(1), n=2).n == 2

def test_async():
    assert asyncio.run(later(1)) == 2
    async def all():
        async with Ctx() as five:
            got = [n async for n in Ctx()]
            return five, got, await later(5), await asyncio.gather(later(1), later(2))
    assert asyncio.run(all()) == (5, [1, 2], 6, [2, 3])

def test_functions():
    assert fib(30) == 832040 and fib.cache_info().hits > 0
    fib.cache_clear()
    assert typed.__name__ == "typed" and typed.__doc__ == "Doc." and callable(typed)
    assert list(inspect.signature(typed).parameters) == ["n", "deep"]
    assert inspect.iscoroutinefunction(later) and "Doc." in inspect.getsource(typed)

def test_many():
    want = (collections.Counter("aab"), datetime.date(2024, 1, 2), datetime.timedelta(1), decimal.Decimal("1.5"),
            fractions.Fraction(1, 3), pathlib.Path("a/b"), {1: (2, {3})}, float("inf"), b"x", collections.deque([1]))
    assert many() == want and [type(x) for x in many()] == [type(x) for x in want]
    assert many()[3] == pytest.approx(decimal.Decimal("1.5"))

def test_subclass_of_list():
    s = Stack()
    s.push(1)
    assert len(s) == 1 and list(s) == [1] and s[0] == 1 and 1 in s
""",
    ),
}


def task(name):
    files, hidden = REPOSITORIES[name]
    row = {
        "id": name,
        "instructions": "Mend it.",
        "files": files,
        "hidden_tests": {"tests_hidden/test_hidden.py": hidden},
    }
    return PARSER(row, "f", 0)


@pytest.mark.parametrize("name", REPOSITORIES)
def test_honest_work_passes(name):
    (told,) = together(GRADER.grade(task(name), Workspace.of(task(name).files)))
    bad = [(test.name, test.outcome, test.detail) for test in told.tests if test.outcome != "passed"]
    assert not bad and told.passed, told


def test_what_only_the_code_could_say_is_nobodys_failure():
    files = {
        "money.py": "class Money:\n    def __init__(self, n): self.n = n\n    def __eq__(self, o): return self.n == o\n"
    }
    hidden = "from money import Money\n\ndef test_it():\n    assert Money(5) == 5\n"
    row = {"id": "m", "instructions": "x", "files": files, "hidden_tests": {"tests_hidden/test_m.py": hidden}}
    made = PARSER(row, "f", 0)
    with pytest.raises(GradingFailed, match=r"cannot decide on this work from outside: .*by its own word"):
        together(GRADER.grade(made, Workspace.of(made.files)))
    (wrong,) = together(GRADER.grade(dataclasses.replace(made, hidden_tests=[
        dataclasses.replace(made.hidden_tests[0], content=hidden.replace("== 5", "== 6"))
    ]), Workspace.of(made.files)))  # fmt: skip
    assert not wrong.passed and wrong.tests[0].outcome == "failed"
