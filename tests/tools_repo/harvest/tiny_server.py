"""MCP servers in all their moods, for tests: `python tiny_server.py MODE`. The well-behaved ones use the mcp SDK."""

import json
import os
import sys
import time
from pathlib import Path


def sdk(pages=1, port=None):
    """A low-level SDK server with 3 tools a page."""
    import anyio
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    async def list_tools(ctx, params):
        page = int(params.cursor) if params and params.cursor else 0
        tools = [
            types.Tool(
                name=f"tool_{page}_{i}",
                title="Look up" if i == 0 else None,
                description=f"Looks up item {i} on page {page}.",
                input_schema={"type": "object", "properties": {"id": {"type": "integer", "default": None}}},
                annotations=types.ToolAnnotations(read_only_hint=True),
            )
            for i in range(3)
        ]
        return types.ListToolsResult(tools=tools, next_cursor=str(page + 1) if page + 1 < pages else None)

    server = Server("tiny", version="1.2.3", on_list_tools=list_tools)
    if port is not None:
        import uvicorn

        uvicorn.run(server.streamable_http_app(), port=port, log_level="error")
        return

    async def serve():
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(serve)


def raw(list_tools, before=lambda: None):
    """A server in a dozen lines, for answers that the SDK would not give."""
    before()
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "raw", "version": "0"},
            }
        elif message.get("method") == "tools/list":
            result = list_tools(message.get("params") or {})
        else:
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


def tools(*names, **extra):
    return {
        "tools": [{"name": n, "description": f"Does {n}.", "inputSchema": {"type": "object"}} for n in names],
        **extra,
    }


def dial():
    import urllib.request

    try:
        urllib.request.urlopen("http://example.org", timeout=5)
    except OSError as error:
        print(f"cannot fetch the catalogue: {error}", file=sys.stderr)
        sys.exit(1)


def need_key():
    if "ACME_API_KEY" not in os.environ:
        print("Starting Acme server\nError: ACME_API_KEY environment variable is required", file=sys.stderr)
        sys.exit(1)


def leave_a_daemon():
    if os.fork() == 0:
        os.setsid()
        for fd in (0, 1, 2):
            os.close(fd)
        time.sleep(120)
        os._exit(0)


def greet():
    print("*** Welcome to Tiny ***\n\n{not json}\n[1, 2]", flush=True)


def spy(_):
    """Lists as its tools whatever it can find out about where it runs."""
    files = [path.name for folder in (Path.home(), Path("/tmp")) for path in folder.iterdir()]
    return tools(*os.environ, *files, f"uid-{os.getuid()}")


def die(_):
    print("Traceback: out of cheese", file=sys.stderr, flush=True)
    sys.exit(3)


def flood(_):
    while True:
        sys.stdout.write("x" * 65536)


def grow(_):
    hoard = []
    while True:
        hoard.append(bytearray(b"x" * 1_000_000))


MODES = {
    "good": lambda: sdk(),
    "pages": lambda: sdk(pages=4),
    "http": lambda: sdk(pages=2, port=int(sys.argv[2])),
    "empty": lambda: raw(lambda _: tools()),
    "greets": lambda: raw(lambda _: tools("a"), before=greet),
    "key": lambda: raw(lambda _: tools("a"), before=need_key),
    "network": lambda: raw(lambda _: tools("a"), before=dial),
    "daemon": lambda: raw(lambda _: tools("a"), before=leave_a_daemon),
    "spy": lambda: raw(spy),
    "loops": lambda: raw(lambda _: tools("a", nextCursor="again")),
    "endless": lambda: raw(lambda p: tools("a", nextCursor=str(int(p.get("cursor", 0)) + 1))),
    "dies": lambda: raw(die),
    "floods": lambda: raw(flood),
    "grows": lambda: raw(grow),
    "odd": lambda: raw(lambda _: {"tools": "none"}),
    "broken": lambda: __import__("a_package_that_is_not_there"),
    "silent": lambda: time.sleep(300),
    "hangs": lambda: raw(lambda _: time.sleep(300)),
    "garbage": lambda: [print("garbage " * 20, flush=True) for _ in range(1_000_000)],
    "quits": lambda: None,
}

if __name__ == "__main__":
    MODES[sys.argv[1]]()
