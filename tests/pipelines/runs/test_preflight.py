"""What an endpoint's answer about its models tells before the first paid call."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tokenmill.inference.errors import EndpointRejects
from tokenmill.inference.roles import Models, Role
from tokenmill.inference.runtime import obtain, release
from tokenmill.pipelines.runs.preflight import check_models


@contextmanager
def listing(status, body):
    """The address of a server that answers a GET so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def check(address, tmp_path):
    runtime = obtain(Models({"writer": Role(f"m@{address}")}, str(tmp_path / "answers.sqlite"), "test"))
    try:
        check_models(runtime)
    finally:
        release(runtime)


@pytest.mark.parametrize(("status", "said"), [(401, "wrong key"), (402, "Insufficient credits")])
def test_a_wrong_key_and_an_empty_account_stop_the_run_in_the_endpoints_words(tmp_path, status, said):
    body = b'{"error": {"message": "%s"}}' % said.encode()
    with listing(status, body) as address, pytest.raises(EndpointRejects, match=f"HTTP {status}: .*{said}"):
        check(address, tmp_path)


@pytest.mark.parametrize("status", [403, 404])
def test_an_endpoint_need_not_list_its_models(tmp_path, status):
    with listing(status, b"{}") as address:
        check(address, tmp_path)
