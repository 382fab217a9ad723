"""Who can be asked by name, and in what they differ from the protocol that they say they speak.

A SPEC such as `gemini:MODEL` or `anthropic:MODEL?effort=low` is resolved here: address, variable of the key, wire format.
`NAME_BASE_URL` in the environment (`GEMINI_BASE_URL`) gives a provider another address, such as a gateway's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Wire = Literal["openai", "anthropic"]
Schemas = Literal["json_schema", "json_object", "words"]


@dataclass(frozen=True)
class Provider:
    """One provider."""

    base_url: str
    key: str
    """Environment variable of the key."""
    wire: Wire = "openai"
    header: str = "Authorization"
    """Header that carries the key: after `Bearer` in the usual one, bare in any other."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Parameters that have another name there."""
    unknown: frozenset[str] = frozenset()
    """Parameters that it refuses, and that are left out."""
    batches: bool = False
    """Whether it has a Batch API: like OpenAI's, or Anthropic's own."""
    schemas: Schemas = "json_schema"
    """How it is told what form an answer must have: by the schema, only that it is to be JSON, or in words alone."""


_SAMPLERS = frozenset({"repeat_penalty", "min_p"})
_COMPLETION = {"max_tokens": "max_completion_tokens"}

PROVIDERS: dict[str, Provider] = {
    "anthropic": Provider("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "anthropic", "x-api-key", batches=True),
    "azure": Provider("", "AZURE_OPENAI_API_KEY", header="api-key", batches=True, names=_COMPLETION, unknown=_SAMPLERS),
    "cerebras": Provider("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", names=_COMPLETION, unknown=_SAMPLERS),
    "deepinfra": Provider("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    "deepseek": Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", unknown=frozenset({"seed"}), schemas="json_object"),
    "doubleword": Provider("https://api.doubleword.ai/v1", "DOUBLEWORD_API_KEY", batches=True),
    "fireworks": Provider("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", unknown=frozenset({"seed"})),
    "gemini": Provider(
        "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY",
        unknown=_SAMPLERS | {"seed", "frequency_penalty", "presence_penalty", "logit_bias", "store", "top_k"},
    ),
    "groq": Provider("https://api.groq.com/openai/v1", "GROQ_API_KEY", batches=True, names=_COMPLETION,
                     unknown=_SAMPLERS | {"top_k"}),
    "huggingface": Provider("https://router.huggingface.co/v1", "HF_TOKEN"),
    "mistral": Provider("https://api.mistral.ai/v1", "MISTRAL_API_KEY", names={"seed": "random_seed"}, unknown=_SAMPLERS),
    "moonshot": Provider("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", unknown=_SAMPLERS | {"seed"}, schemas="json_object"),
    "nebius": Provider("https://api.studio.nebius.com/v1", "NEBIUS_API_KEY"),
    "nvidia": Provider("https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY", schemas="words"),
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "sambanova": Provider("https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY", unknown=frozenset({"seed"})),
    "together": Provider("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "xai": Provider("https://api.x.ai/v1", "XAI_API_KEY", unknown=_SAMPLERS),
}  # fmt: skip

KEYS = frozenset(provider.key for provider in PROVIDERS.values() if provider.key != "HF_TOKEN")
"""Variables that no server of ours needs to see."""

EFFORTS = {"none": 0, "minimal": 1_000, "low": 2_000, "medium": 8_000, "high": 24_000, "xhigh": 48_000, "max": 64_000}
"""How hard a model may think before it answers, and the tokens that its thinking may take on top of the answer's."""

OPTIONS = ("batch", "effort", "key", "megabytes", "poll", "requests")
"""What may stand behind the `?` of a model that somebody else serves."""
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")

_THINKERS = re.compile(r"^(o\d|gpt-5(?!\.)(?!.*chat))")
"""Models of OpenAI that always think, and refuse sampling parameters."""
_TAKEN_AS_IS = re.compile(r"opus-4-(?:[7-9]|\d\d(?!\d))|(?:opus|sonnet|haiku|fable|mythos)-[5-9]")
"""Models of Anthropic that refuse sampling parameters."""


class NoAddress(Exception):
    """A provider's address is not to be had; the text is one line."""


def problem_of(name: str, value: str) -> str:
    """What is wrong with an option of a model that somebody else serves; empty where nothing is."""
    if name not in OPTIONS:
        return f"unknown option {name}; there are {', '.join(OPTIONS)}"
    if name == "batch" and value.lower() not in ("", "true"):
        return "batch takes no value here"
    if name == "effort" and value not in EFFORTS:
        return f"effort is one of {', '.join(EFFORTS)}"
    if name == "key" and not _VARIABLE.fullmatch(value):
        return "key names the environment variable that holds the key, such as MY_API_KEY; it is not the key itself"
    if name in ("poll", "requests", "megabytes"):
        try:
            if float(value) > 0 and (name == "poll" or (value.isascii() and value.isdigit())):
                return ""
        except ValueError:
            pass
        return f"{name} must be a number above 0"
    return ""


def address_of(name: str) -> str:
    """A provider's base URL, without a slash at its end.

    Raises:
        NoAddress: only the environment could tell, and it does not.
    """
    given = os.environ.get(f"{name.upper()}_BASE_URL", "")
    if name == "azure" and not given:
        resource = os.environ.get("AZURE_OPENAI_ENDPOINT", "").rstrip("/")
        if not resource:
            raise NoAddress("azure: needs AZURE_OPENAI_ENDPOINT, such as https://RESOURCE.openai.azure.com")
        given = resource if resource.endswith("/openai/v1") else f"{resource}/openai/v1"
    return (given or PROVIDERS[name].base_url).rstrip("/")


def reasoning(model: str, maker: str, effort: str) -> dict[str, Any]:
    """Parameters of a role that follow from how its model thinks; None leaves one out.

    Args:
        maker: `openai` or a name of `PROVIDERS`; empty where it is not known.
        effort: as the SPEC has it, possibly empty.
    """
    name = model.rpartition("/")[2].lower()
    told: dict[str, Any] = {"reasoning_effort": effort} if effort else {}
    thinks = thinks_anyway(model, maker) or (maker in ("openai", "azure") and effort not in ("", "none"))
    if thinks or (maker == "anthropic" and (_TAKEN_AS_IS.search(name) or effort not in ("", "none"))):
        told |= {"temperature": None, "top_p": None}
    return told


def thinks_anyway(model: str, maker: str) -> bool:
    """Whether a model thinks even if it is not told to."""
    return maker in ("openai", "azure") and bool(_THINKERS.match(model.rpartition("/")[2].lower()))


def room_to_think(model: str, maker: str, params: Mapping[str, Any]) -> int:
    """Tokens of an answer's limit that are for thinking, which endpoints count as part of it."""
    effort = params.get("reasoning_effort") or ("medium" if thinks_anyway(model, maker) else "none")
    return EFFORTS.get(str(effort), EFFORTS["medium"])
