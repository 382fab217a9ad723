"""Model specs: the one string a user writes to say which model answers, and where it lives.

    smollm2                              the embedded model (options: ?ctx=8192&parallel=1&threads=1)
    MODEL@http://host:port/v1            any OpenAI-compatible server; key in TOKENMILL_API_KEY or in the URL
    openai:MODEL                         OPENAI_API_KEY, OPENAI_BASE_URL
    anthropic:MODEL, gemini:MODEL, …     the providers of `inference.providers`, each with its own key
    vllm:MODEL?tensor_parallel_size=2    owns a `vllm serve`; every option becomes one of its flags
    llamacpp:FILE.gguf?ctx=8192          owns a llama.cpp server on this file (options as for smollm2)
    hf:ORG/REPO[/FILE.gguf]              the same for a file of the Hub, downloaded first (option: revision=…)
    recorded:FILE                        asks no model: gives the answers that `--record FILE` has kept

What somebody else serves takes `?batch` (half price, within a day), `?effort=low` (how hard it thinks) and `?key=VAR` (the
environment variable that holds its key); `vllm:MODEL?batch` is worked off by `vllm run-batch`.

Parsing touches neither the network, nor the disk, nor the environment: a spec means the same on every worker.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

from tokenmill.inference.providers import PROVIDERS, problem_of
from tokenmill.inference.secrets import secret

Kind = Literal["embedded", "endpoint", "openai", "provider", "vllm", "llamacpp", "hf", "recorded"]

EMBEDDED = "smollm2"
FORMS = (
    f"{EMBEDDED}, MODEL@http://host:port/v1, openai:MODEL, {', '.join(f'{name}:MODEL' for name in PROVIDERS)}, "
    "vllm:MODEL?option=value, llamacpp:FILE.gguf?ctx=8192&parallel=1&threads=1, hf:ORG/REPO[/FILE.gguf], recorded:FILE"
)

_LLAMA_OPTIONS = {"ctx": (512, 1 << 20), "parallel": (1, 256), "threads": (1, 1024)}
_HUB_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OPTION_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[A-Za-z0-9_]+)*")
_SECRET_OPTIONS = {"api_key": "leave it out: the server listens on loopback only", "hf_token": "set HF_TOKEN instead"}
_OWN_OPTIONS = {"host", "port", "uds", "model", "served_model_name", "headless", "root_path", "grpc", "help", "config"}
BATCH_OPTIONS = frozenset({"batch", "poll", "requests", "megabytes"})
_ENDPOINT = re.compile(r"@(?=[A-Za-z][A-Za-z0-9+.-]*://)")


class SpecError(ValueError):
    """A model spec, or what it refers to, is wrong; the text is one line that names the fix and holds no secret."""


@dataclass(frozen=True)
class ModelSpec:
    """A parsed spec. Equal specs reach the same model in the same way."""

    kind: Kind
    model: str
    """The model's name on the wire."""
    base_url: str | None
    """For `endpoint` the address, without credentials; None where the environment or a managed server decides."""
    options: tuple[tuple[str, str], ...]
    """Sorted (name, value) pairs; names in snake_case."""
    text: str
    """Canonical spelling without secrets: what manifests, logs and rows may show."""
    path: str | None = None
    """For `llamacpp` and `recorded` the file, as written; for `hf` the file in the repository, where one is named."""
    provider: str = ""
    """For `provider` its name."""
    _key: str = field(default="", repr=False)

    @property
    def managed(self) -> bool:
        """Whether Tokenmill starts and stops the server itself."""
        return self.kind in ("embedded", "vllm", "llamacpp", "hf")

    @property
    def on_llama(self) -> bool:
        """Whether it is a llama.cpp server of our own, bound to this machine's cores, with a context of its own size."""
        return self.kind in ("embedded", "llamacpp", "hf")

    @property
    def shows_key(self) -> bool:
        """Whether the text that was parsed holds a key."""
        return bool(self._key)

    @property
    def maker(self) -> str:
        """`openai` or the provider's name; empty where it is not known who made the model."""
        return "openai" if self.kind == "openai" else self.provider

    @property
    def batch(self) -> bool:
        """Whether calls are to go into batches."""
        return self.option("batch") is not None

    def option(self, name: str) -> str | None:
        """The value of an option; None where it is not given."""
        return dict(self.options).get(name)

    @property
    def local(self) -> bool:
        """Whether answers cost no money: our own server, an endpoint on this machine, or a recording."""
        return (
            self.managed
            or self.kind == "recorded"
            or (self.base_url is not None and _loopback(urlsplit(self.base_url).hostname or ""))
        )

    def api_key(self) -> str:
        """The bearer token to send, read now from the environment or a file that it names; empty where none is set or needed.

        Raises:
            RunStopped: see `inference.secrets.secret`.
        """
        if named := self.option("key") if not self.managed else None:
            return secret(named)
        if self.kind == "provider":
            return secret(PROVIDERS[self.provider].key)
        if self.kind == "openai":
            return secret("OPENAI_API_KEY")
        if self.kind == "endpoint":
            return self._key or secret("TOKENMILL_API_KEY")
        return ""


def parse_spec(text: str) -> ModelSpec:
    """Read a model spec.

    Raises:
        SpecError: not one of the forms above, or an option that the form does not take.
    """
    text = text.strip()
    if not text or any(c.isspace() or not c.isprintable() for c in text):
        raise _wrong(text, "it is empty or holds blanks")
    if at := _ENDPOINT.search(text):
        return _endpoint(text, text[: at.start()], text[at.end() :])
    scheme, colon, rest = text.partition(":")
    body, _, query = (rest if colon else text).partition("?")
    if colon and scheme == "openai":
        options = _remote_options(text, query)
        return ModelSpec("openai", _name(text, body), None, options, _join(f"openai:{body}", options))
    if colon and scheme in PROVIDERS:
        options = _remote_options(text, query)
        if "batch" in dict(options) and not PROVIDERS[scheme].batches:
            raise _wrong(text, f"{scheme} has no Batch API that we speak; leave out ?batch")
        named = _join(f"{scheme}:{body}", options)
        return ModelSpec("provider", _name(text, body), None, options, named, provider=scheme)
    if colon and scheme == "vllm":
        options = _options(text, query)
        _check_vllm(text, options)
        return ModelSpec("vllm", _name(text, body), None, options, _join(f"vllm:{body}", options))
    if colon and scheme == "llamacpp":
        options = _options(text, query)
        _check_llama(text, options)
        if not body.endswith(".gguf") or PurePath(body).stem in ("", ".gguf"):
            raise _wrong(text, "llamacpp: wants the path of a .gguf file")
        return ModelSpec("llamacpp", PurePath(body).stem, None, options, _join(f"llamacpp:{body}", options), path=body)
    if colon and scheme == "hf":
        return _hub(text, body, _options(text, query))
    if colon and scheme == "recorded":
        if query or not PurePath(rest).stem:
            raise _wrong(text, "recorded: wants the path of a recording, and takes no options")
        return ModelSpec("recorded", f"recorded:{PurePath(rest).stem}", None, (), f"recorded:{rest}", path=rest)
    if not colon and body.lower() == EMBEDDED:
        options = _options(text, query)
        _check_llama(text, options)
        return ModelSpec("embedded", EMBEDDED, None, options, _join(EMBEDDED, options))
    raise _wrong(text, "no such form")


def _hub(text: str, body: str, options: tuple[tuple[str, str], ...]) -> ModelSpec:
    """A GGUF file on the Hub; which one, is decided when it is fetched, where the spec names only the repository."""
    parts = body.split("/")
    if len(parts) < 2 or not all(map(_HUB_PART.fullmatch, parts)) or (parts[2:] and not body.endswith(".gguf")):
        raise _wrong(text, "hf: wants ORG/REPO or ORG/REPO/FILE.gguf")
    _check_llama(text, tuple(option for option in options if option[0] != "revision"))
    file = "/".join(parts[2:]) or None
    return ModelSpec("hf", body.removesuffix(".gguf"), None, options, _join(f"hf:{body}", options), path=file)


def _endpoint(text: str, model: str, url: str) -> ModelSpec:
    url, _, query = url.partition("?")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _wrong(text, "the address cannot be read (is the port a number?)") from None
    if parts.scheme not in ("http", "https") or not host:
        raise _wrong(text, "the address must start with http:// or https:// and name a host")
    if parts.fragment or "#" in url:
        raise _wrong(text, "the address takes no fragment")
    options = _remote_options(text, query)
    netloc = f"[{host}]" if ":" in host else host
    base_url = f"{parts.scheme}://{netloc}{f':{port}' if port is not None else ''}{parts.path.rstrip('/') or '/v1'}"
    key = unquote(parts.password or parts.username or "")
    return ModelSpec("endpoint", _name(text, model), base_url, options, _join(f"{model}@{base_url}", options), _key=key)


def _name(text: str, model: str) -> str:
    # A leading dash would reach `vllm serve` as a flag.
    if not model or model.startswith("-"):
        raise _wrong(text, "the model has no name")
    return model


def _options(text: str, query: str) -> tuple[tuple[str, str], ...]:
    options: dict[str, str] = {}
    for pair in query.split("&") if query else ():
        name, _, value = pair.partition("=")
        head, dot, tail = unquote(name).partition(".")
        name = head.replace("-", "_") + dot + tail
        if not _OPTION_NAME.fullmatch(name):
            raise _wrong(text, "options are written ?name=value&name=value")
        if name in options:
            raise _wrong(text, f"option {name} is given twice")
        options[name] = unquote(value)
    return tuple(sorted(options.items()))


def _remote_options(text: str, query: str) -> tuple[tuple[str, str], ...]:
    options = _options(text, query)
    for name, value in options:
        if problem := problem_of(name, value):
            raise _wrong(text, problem)
    return options


def _check_llama(text: str, options: tuple[tuple[str, str], ...]) -> None:
    for name, value in options:
        if name not in _LLAMA_OPTIONS:
            raise _wrong(text, f"unknown option {name}; there are {', '.join(_LLAMA_OPTIONS)}")
        low, high = _LLAMA_OPTIONS[name]
        if not (value.isascii() and value.isdigit() and low <= int(value) <= high):
            raise _wrong(text, f"{name} must be a whole number from {low} to {high}")


def _check_vllm(text: str, options: tuple[tuple[str, str], ...]) -> None:
    for name, value in options:
        if name in BATCH_OPTIONS - {"batch"} and (problem := problem_of(name, value)):
            raise _wrong(text, problem)
        if name in _SECRET_OPTIONS:
            raise _wrong(text, f"{name} would show in logs; {_SECRET_OPTIONS[name]}")
        if name in _OWN_OPTIONS or name.startswith("ssl_"):
            raise _wrong(text, f"{name} is decided by Tokenmill")
        if not value.isprintable():
            raise _wrong(text, f"{name} holds a control character")


def _join(head: str, options: tuple[tuple[str, str], ...]) -> str:
    if not options:
        return head
    # `=` is kept so that an empty value (a bare flag) reads back as one.
    return head + "?" + "&".join(f"{name}={quote(value, safe='/:,.+-')}" for name, value in options)


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _wrong(text: str, why: str) -> SpecError:
    shown = re.sub(r"(?s)(://).*@", r"\1***@", text)
    shown = re.sub(r"(?i)((?:key|token|secret|password)[\w.-]*=)[^&\s]*", r"\1***", shown)
    return SpecError(f"model spec {shown[:200]!r}: {why}; the forms are {FORMS}")
