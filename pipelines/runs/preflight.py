"""Do the models answer? Asked before the first paid call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import orjson
from tokenmill.inference.call import MalformedAnswer
from tokenmill.inference.errors import EndpointRejects
from tokenmill.inference.runtime import Runtime
from tokenmill.pipelines.report.formatting import one_line
from tokenmill.pipelines.runs.errors import UsageError

if TYPE_CHECKING:
    from tokenmill.inference.client import Endpoint

WAIT = 10.0
"""Seconds in which a server that is just starting may come up."""


def check_models(runtime: Runtime) -> None:
    """Every endpoint answers, accepts our key, and knows the model by its name, as far as its model list tells.

    Raises:
        UsageError: no answer, or no such model.
        EndpointRejects: the key is not accepted, or the account is empty.
    """
    for player in runtime.client.players.values():
        if player.offline:
            continue
        listed = runtime.run(_list(player.endpoint))
        if listed and player.model not in listed:
            some = ", ".join(one_line(name, 80) for name in sorted(listed)[:10])
            raise UsageError(f"{player.endpoint.name} serves no model {player.model!r}; it serves {some}")


async def _list(endpoint: Endpoint) -> set[str]:
    """Names of the models that an endpoint serves; empty when it does not say."""
    import openai
    from tokenmill.inference.transport import redirection, said

    end = asyncio.get_running_loop().time() + WAIT
    while True:
        try:
            async with asyncio.timeout(WAIT):
                listed = orjson.loads(await endpoint.client.list_models())["data"]
            return {str(model["id"]) for model in listed}
        except openai.APIStatusError as error:
            if error.status_code < 400:
                raise EndpointRejects(
                    f"{endpoint.name} redirects to {redirection(error)}; give the address that answers itself"
                ) from None
            if error.status_code in (401, 402):
                raise EndpointRejects(
                    f"{endpoint.name} rejects us with HTTP {error.status_code}: {said(error.response.content)}; check "
                    "the key in the environment and what is left on the account"
                ) from None
            if error.status_code < 500:
                return set()  # no model list here; the first call will tell
            problem = f"HTTP {error.status_code}"
        except (openai.APIConnectionError, TimeoutError) as error:
            problem = one_line(error.__cause__ or error, 200) or type(error).__name__
        except MalformedAnswer as error:
            raise UsageError(f"{endpoint.name} answers with {error} as its list of models; check the address") from None
        except (ValueError, KeyError, TypeError):
            return set()
        if asyncio.get_running_loop().time() > end:
            raise UsageError(f"{endpoint.name} does not answer: {problem}; start the server or correct the address")
        await asyncio.sleep(0.5)
