"""A package index and an npm registry on this machine, with packages made on the spot."""

import base64
import hashlib
import http.server
import io
import json
import tarfile
import threading
import zipfile

WHEEL_SERVER = """
import json, os, sys

def main():
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "initialize":
            result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                      "serverInfo": {"name": "wheel", "version": "9"}}
        elif message.get("method") == "tools/list":
            try:
                open(os.path.join(os.path.dirname(__file__), "mark"), "w").close(); wrote = "wrote"
            except OSError:
                wrote = "refused"
            result = {"tools": [{"name": wrote, "description": "d", "inputSchema": {"type": "object"}}]}
        else:
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""

NODE_SERVER = """#!/usr/bin/env node
require("readline").createInterface({input: process.stdin}).on("line", line => {
  const m = JSON.parse(line);
  const result = m.method === "initialize"
    ? {protocolVersion: m.params.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: "node", version: "9"}}
    : m.method === "tools/list" ? {tools: [{name: "n", description: "d", inputSchema: {type: "object"}}]} : null;
  if (result) console.log(JSON.stringify({jsonrpc: "2.0", id: m.id, result}));
});
"""


def wheel(name="tiny-mcp", version="1.0", scripts=("tiny-mcp",), license="MIT"):
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    files = {
        f"{module}.py": WHEEL_SERVER,
        f"{info}/METADATA": f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense-Expression: {license}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\n" + "".join(f"{s} = {module}:main\n" for s in scripts),
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, content)
    return f"{module}-{version}-py3-none-any.whl", buffer.getvalue()


def _tar(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content.encode()), 0o755
            archive.addfile(entry, io.BytesIO(content.encode()))
    return buffer.getvalue()


def sdist(name="evil-mcp", version="1.0", payload=""):
    info = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    folder = f"{name}-{version}"
    setup = f"{payload}\nfrom setuptools import setup\nsetup(name={name!r}, version={version!r})\n"
    return f"{folder}.tar.gz", _tar({f"{folder}/setup.py": setup, f"{folder}/PKG-INFO": info})


def npm_package(name="tiny-node-mcp", version="1.0.0", scripts=None):
    package = {"name": name, "version": version, "license": "ISC", "bin": {name: "main.js"}, "scripts": scripts or {}}
    return package, _tar({"package/package.json": json.dumps(package), "package/main.js": NODE_SERVER})


class Registries:
    """Serves PyPI's simple index under /simple and npm's registry under /npm; counts what is asked for."""

    def __init__(self):
        self.files, self.asked = {}, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                found = outer.files.get(self.path.rstrip("/"))
                kind, content = found or ("text/plain", b"no such package")
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(content)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def add_python(self, name, filename, content):
        digest = hashlib.sha256(content).hexdigest()
        page = f'<!DOCTYPE html><a href="{self.url}/files/{filename}#sha256={digest}">{filename}</a>'
        self.files[f"/simple/{name}"] = ("text/html", page.encode())
        self.files[f"/files/{filename}"] = ("application/octet-stream", content)

    def add_node(self, package, content):
        name, version = package["name"], package["version"]
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
        dist = {"tarball": f"{self.url}/npm/{name}.tgz", "integrity": integrity}
        # A registry repeats the package's own scripts, by which npm decides whether to run any.
        told = {"name": name, "dist-tags": {"latest": version}, "versions": {version: {**package, "dist": dist}}}
        self.files[f"/npm/{name}"] = ("application/json", json.dumps(told).encode())
        self.files[f"/npm/{name}.tgz"] = ("application/octet-stream", content)
