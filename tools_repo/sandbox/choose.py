"""The sandbox that `--sandbox` names."""

from __future__ import annotations

from functools import partial

from tokenmill.schemas.flags import flag
from tokenmill.tools_repo.sandbox.base import Sandbox
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap
from tokenmill.tools_repo.sandbox.engines import Container, Gvisor

BUBBLEWRAP, GVISOR, DOCKER, PODMAN = "bubblewrap", "gvisor", "docker", "podman"
SANDBOXES = (BUBBLEWRAP, GVISOR, DOCKER, PODMAN)

sandbox_flag = partial(
    flag,
    BUBBLEWRAP,
    choices=SANDBOXES,
    help="what isolates programs: bubblewrap (default; namespaces and seccomp), gvisor (`runsc`, a kernel of its own), or a "
    "container engine",
)


def named(name: str) -> Sandbox:
    """A sandbox by its name."""
    if name == GVISOR:
        return Gvisor()
    return Container(name) if name in (DOCKER, PODMAN) else Bubblewrap()
