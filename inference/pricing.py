"""What tokens cost: a price table that ships with the package and that a user's own file overrides.

prices = load_prices("my_prices.json")     # {"models": {"kimi-k2*": {"input": 0.6, "output": 2.5}}}
prices.cost("kimi-k2-0905", Usage(prompt=1200, completion=300))
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import orjson
from tokenmill.inference.call import Usage

BATCH_SHARE = 0.5
"""What a call in a batch costs, as a share of its price: so at OpenAI, Azure, Anthropic, Google, Mistral, Groq and Together."""

SHIPPED = Path(__file__).with_name("prices.json")

_SNAPSHOT = re.compile(r"-20\d\d-?\d\d-?\d\d$")


@dataclass(frozen=True)
class Price:
    """Prices of one model in USD per million tokens."""

    input: float
    output: float
    cached_input: float
    """Price of prompt tokens that the endpoint served from its prefix cache."""

    def cost(self, usage: Usage) -> float:
        """What `usage` costs, in USD."""
        cached = min(usage.cached, usage.prompt)
        return (
            (usage.prompt - cached) * self.input + cached * self.cached_input + usage.completion * self.output
        ) / 1e6


@dataclass(frozen=True)
class Prices:
    """Prices by model name. Names may be globs; an exact name goes before a glob and a longer glob before a shorter."""

    models: dict[str, Price]
    own: frozenset[str] = frozenset()
    """Those that the user stated: they hold for servers of this machine too, which cost nothing otherwise."""

    def charged(self, model: str, usage: Usage, *, local: bool) -> float | None:
        """What `usage` costs on a server of this machine or another, in USD; None when that is unknown.

        Args:
            local: whether the server is this machine's, which is free where the user states no price of the model.
        """
        if local:
            return Prices({name: self.models[name] for name in self.own}).cost(model, usage) or 0.0
        return self.cost(model, usage)

    def price(self, model: str) -> Price | None:
        """The price of a model, or None if the table does not know it.

        `model` is a name (`gpt-4o-mini`) or a SPEC (`openai:gpt-4o-mini`, `NAME@http://host/v1`): the whole is looked
        up first, then the name in it, then the name without the date of a snapshot (`-2024-07-18`).
        """
        spec = model.lower()
        name = spec.split("?", 1)[0].split("@http", 1)[0].removeprefix("openai:")
        for candidate in dict.fromkeys((spec, name, _SNAPSHOT.sub("", name))):
            if candidate in self.models:
                return self.models[candidate]
            globs = [pattern for pattern in self.models if fnmatchcase(candidate, pattern)]
            if globs:
                return self.models[max(globs, key=lambda pattern: (len(re.sub(r"[*?]", "", pattern)), pattern))]
        return None

    def cost(self, model: str, usage: Usage) -> float | None:
        """What `usage` of `model` costs in USD, or None (never 0) when the model's price is unknown."""
        price = self.price(model)
        return None if price is None else price.cost(usage)


def load_prices(path: str | None = None) -> Prices:
    """The shipped prices, with those of the JSON file at `path` laid over them.

    Raises:
        ValueError: the file cannot be read or is malformed; one line names the field and the fix.
    """
    models = _read(SHIPPED)
    own = _read(Path(path)) if path is not None else {}
    return Prices({**models, **own}, frozenset(own))


def _read(path: Path) -> dict[str, Price]:
    try:
        table = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    models = table.get("models") if isinstance(table, dict) else None
    if not isinstance(models, dict):
        raise ValueError(f'{path} needs the form {{"models": {{"NAME": {{"input": 0.1, "output": 0.4}}}}}}')
    return {model.lower(): _price(f"{path}: models.{model}", value) for model, value in models.items()}


def _price(where: str, value: Any) -> Price:
    if not isinstance(value, dict):
        raise ValueError(f'{where} must be an object such as {{"input": 0.1, "output": 0.4}}, not {value!r}')
    known = [field.name for field in fields(Price)]
    for name, amount in value.items():
        if name not in known:
            raise ValueError(f"{where}.{name} is not a price; use {', '.join(known)}")
        number = isinstance(amount, int | float) and not isinstance(amount, bool)
        if not number or not math.isfinite(amount) or amount < 0:
            raise ValueError(f"{where}.{name} must be USD per million tokens, a number from 0 up, not {amount!r}")
    for name in ("input", "output"):
        if name not in value:
            raise ValueError(f"{where}.{name} is missing; give USD per million tokens (0 for a local model)")
    return Price(value["input"], value["output"], value["cached_input"] if "cached_input" in value else value["input"])
