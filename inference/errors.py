"""What can go wrong between us and a model, by what the run should do about it."""

from __future__ import annotations

from tokenmill.inference.redaction import redacted


class RowError(Exception):
    """This row cannot be processed; it goes to `failed/` and the run goes on."""


class CallRefused(RowError):
    """The endpoint will never answer this request (HTTP 400, 413, 422, and 403 or 404 where it answers others), so
    repeating it would only cost money."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.body = body = redacted(body)
        said = " ".join(body[:300].decode("utf-8", "replace").split())
        super().__init__(f"the endpoint refused the request with HTTP {status}: {said or 'no explanation'}")


class CallFailed(RowError):
    """The endpoint answers others but not this call, however often it is asked."""


class AnswerInvalid(RowError):
    """A structured answer did not meet its schema after every re-ask."""


class RunStopped(Exception):
    """The run cannot go on; nothing is lost and the same command resumes it. Its text is one line for the user."""


class EndpointDown(RunStopped):
    """The endpoint has not answered for longer than the patience allows, or its server is gone for good."""


class EndpointRejects(RunStopped):
    """The endpoint refuses us as such: wrong key, unknown model, no such route, nothing left on the account (HTTP 401,
    402, 403, 404, 405, a redirection)."""


class BudgetSpent(RunStopped):
    """The token budget is used up."""


class NotRecorded(RunStopped):
    """A recording has no answer to a request."""


class Waiting(RunStopped):
    """This row waits for an answer that is asked for in a batch; the run goes on with the others and comes back to it."""


class CacheBroken(RunStopped):
    """The cache cannot be read or written (disk full, permissions, no Redis)."""
