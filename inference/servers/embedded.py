"""Serves a GGUF model over the OpenAI protocol with llama.cpp, in this process, until it is told to end.

    python -m tokenmill.inference.servers.embedded --model FILE.gguf --name NAME --port N
        [--ctx 8192] [--parallel 1] [--threads 1]

The server is llama.cpp's own (from the `xllamacpp` wheel): continuous batching, json_schema answers, `/health`.

An answer depends on the request and its seed alone, which makes a repeated run write the same bytes:

- One thread and one slot. llama.cpp's kernels round differently as the batch changes, so an answer computed beside
  others can differ from the same answer computed alone. On one thread more slots bring no speed to pay for that.
- No reuse of the prompt prefix, which changes where batches begin and so, again, the rounding.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

WAITING_ROOM = 64
"""HTTP threads: requests that may wait for a slot while `/health` still gets a word in."""


def serve(model: Path, *, name: str, port: int, ctx: int, parallel: int, threads: int) -> object:
    """Load the model and start answering on 127.0.0.1; returns once ready. Keep the result: it is the server.

    Args:
        name: the model's name in `/v1/models` and in answers.
        ctx: tokens of context of each slot, prompt and answer together.
        parallel: slots, the requests worked on at once.

    Raises:
        RuntimeError: the file cannot be loaded, or the port is taken.
    """
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = parallel
    params.n_ctx = ctx * parallel
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.n_threads_http = WAITING_ROOM + parallel
    params.use_jinja = True
    params.ui = False
    params.endpoint_slots = False
    params.cache_prompt = False
    params.cache_ram_mib = 0
    # The context asked for, not one shrunk to what happens to be free now: answers must not depend on that.
    params.fit_params = False
    params.verbosity = 2
    return xllamacpp.Server(params)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ctx", type=int, default=8192)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    # Python's handlers run only between bytecodes, which a thread inside llama.cpp may not reach for long.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        server = serve(**vars(options))
    except Exception as error:
        sys.exit(f"the server could not start: {error}")
    print(f"serving {options.name} on port {options.port}", flush=True)
    signal.pause()
    del server


if __name__ == "__main__":
    main()
