"""Sends the calls that wait and stores their answers; what a killed command had sent is found and not sent again."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tokenmill.inference.batch.box import Box, Progress, Unsure
from tokenmill.inference.batch.ledger import Ledger, Part
from tokenmill.inference.batch.lines import MOST_BYTES, MOST_REQUESTS, Result, parts, read_result, write_part
from tokenmill.inference.batch.spool import Filed
from tokenmill.inference.cache.base import PAID, REFUSALS, Cache, Entry
from tokenmill.inference.call import Answer, MalformedAnswer
from tokenmill.inference.errors import BudgetSpent, EndpointDown, EndpointRejects
from tokenmill.inference.stats import RoleStats

SETTLE = 20.0
"""Seconds after which a batch whose creation was asked for, and that the endpoint does not list, was not created."""
UNMADE = 3
"""Parts in a row of which no batch was made after which the endpoint counts as gone."""
TRIES = 5
"""Batches in which a call may come back without an answer before it is given up."""
_STORED_AT_ONCE = 256
_REJECTED = frozenset({401, 402})
_DOUBTFUL = frozenset({403, 404})
"""Either the request is refused, or we are: the others tell."""


@dataclass(frozen=True)
class Policy:
    """How a role's calls are sent."""

    poll: float = 60.0
    """Most seconds between two looks at a batch."""
    most_requests: int = MOST_REQUESTS
    most_bytes: int = MOST_BYTES


@dataclass(frozen=True)
class Counter:
    """A box by its name (address and model), with how it wants its parts."""

    name: str
    box: Box
    policy: Policy = field(default_factory=Policy)


class Desk:
    """For one command, on one event loop."""

    def __init__(
        self,
        ledger: Ledger,
        cache: Cache,
        counters: Mapping[str, Counter],
        *,
        budget: int | None = None,
        ask_refused: bool = False,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """
        Args:
            counters: by role.
            ask_refused: whether what the endpoint refused in an earlier run is asked again.
            say: told in one line what is waited for.
        """
        self.ledger, self.cache, self.counters, self.budget, self.say = ledger, cache, counters, budget, say
        self.ask_refused = ask_refused
        self.stats = {role: RoleStats() for role in counters}
        """What the answers of this invocation came to, by role."""
        self.given_up: dict[str, tuple[int, str]] = {}
        """HTTP status, or 0, and words of what got no answer in this invocation, by address."""
        self.filed = 0
        """Calls sent in this invocation."""
        self._boxes = {counter.name: counter for counter in counters.values()}
        self._holds: dict[str, tuple[str | None, int]] = {}
        self._unmade = 0
        self._misses: dict[str, int] = {}
        self._most: dict[str, int] = {}
        """Requests of a part, where an endpoint has shown that it takes no more."""

    async def close(self) -> None:
        for counter in self._boxes.values():
            await counter.box.close()
        self.ledger.close()

    async def settle(self, waiting: Mapping[str, Filed]) -> None:
        """Return when none of these calls, by address, waits any more: each has an answer or a refusal in the cache, or is
        `given_up`.

        Raises:
            BudgetSpent: what is left of the budget is too little for any of the others.
            RunStopped: an endpoint is gone, or rejects us.
        """
        pause = 0.0
        while True:
            await self._reconcile()
            waiting = {address: call for address, call in waiting.items() if await self._open(address)}
            if not waiting:
                return
            sent = await self._send_what_is_new(waiting)
            live = [p for p in self.ledger.parts(self._boxes) if self.ledger.lines(p.name).keys() & waiting.keys()]
            if not live and not sent:
                raise BudgetSpent(
                    f"the token budget has no room for the {len(waiting):,} calls that wait; repeat the command with a "
                    "larger --max-tokens to go on: every answer received so far is kept"
                )
            ended = await self._look(live, len(waiting))
            most = min(self._boxes[part.box].policy.poll for part in live) if live else 1.0
            pause = 0.0 if ended else min(most, max(2 * pause, most / 20))
            await asyncio.sleep(pause)

    async def _open(self, address: str) -> bool:
        if address in self.given_up:
            return False
        return await self.cache.get(address, refusals=not self.ask_refused) is None

    # Sending

    async def _send_what_is_new(self, waiting: Mapping[str, Filed]) -> bool:
        new = {a: call for a, call in waiting.items() if not self.ledger.holds(self.counters[call.role].name, a)}
        affordable = await self._affordable(new)
        for counter in self._boxes.values():
            mine = [(a, call) for a, call in affordable.items() if self.counters[call.role].name == counter.name]
            most = self._most.get(counter.name, counter.policy.most_requests)
            for calls in parts(mine, most_requests=most, most_bytes=counter.policy.most_bytes):
                await self._send(counter, calls)
        return bool(affordable)

    async def _affordable(self, new: Mapping[str, Filed]) -> dict[str, Filed]:
        """As many of the calls as the budget has room for, in their order."""
        if self.budget is None:
            return dict(new)
        left = self.budget - await self.cache.spent() - sum(bound for _, bound in self._holds.values())
        chosen: dict[str, Filed] = {}
        for address, call in new.items():
            if call.bound > left:
                break
            left -= call.bound
            chosen[address] = call
        return chosen

    async def _send(self, counter: Counter, calls: list[tuple[str, Filed]]) -> None:
        name, addresses = self.ledger.prepare(counter.name, calls)
        if not addresses:  # another command has sent them meanwhile
            return
        mine = [(address, call) for address, call in calls if address in addresses]
        await self._hold(name, sum(call.bound for _, call in mine))
        with tempfile.TemporaryDirectory(prefix="tokenmill-") as folder:
            file = Path(folder, f"{name}.jsonl")
            write_part(file, mine)
            self.ledger.trying(name)
            asked = time.time()
            try:
                batch: str | None = await counter.box.put(name, file)
            except Unsure as error:
                batch, problem = None, str(error)
                while batch is None and time.time() < asked + SETTLE:
                    await asyncio.sleep(min(1.0, SETTLE / 10))
                    batch = await counter.box.find(name, asked, addresses, self._known())
        if batch is None:  # it was not made: the next round sends its calls in another part
            await self._forget(name)
            self._unmade += 1
            if self._unmade == UNMADE:
                raise EndpointDown(
                    f"{counter.name} makes no batch of what it is sent ({problem}); repeat the command to go on"
                )
            return
        self._unmade = 0
        self.ledger.sent(name, batch)
        self.filed += len(mine)
        self.say(f"batch {batch}: {len(mine):,} calls sent to {counter.name}")

    async def _hold(self, part: str, bound: int) -> None:
        if self.budget is None or part in self._holds:
            return
        taken = await self.cache.spent() + sum(held for _, held in self._holds.values())
        # What an earlier invocation has sent, with a larger budget, is billed in any case.
        reservation = await self.cache.reserve(bound) if taken + bound <= self.budget else None
        self._holds[part] = (reservation, bound)

    async def _forget(self, part: str) -> None:
        self.ledger.end(part)
        reservation, _ = self._holds.pop(part, (None, 0))
        await self.cache.release(reservation)

    async def _reconcile(self) -> None:
        """Find out what became of parts whose sender did not live to tell."""
        for part in self.ledger.parts(self._boxes):
            if part.batch or not (part.abandoned or part.mine):
                continue
            box = self._boxes[part.box].box
            calls = self.ledger.lines(part.name).keys()
            batch = await box.find(part.name, part.tried, calls, self._known()) if part.tried else None
            if batch is not None:
                self.ledger.sent(part.name, batch)
            elif time.time() > part.tried + SETTLE:
                await self._forget(part.name)

    def _known(self) -> set[str]:
        """The batches that parts have become."""
        return {part.batch for part in self.ledger.parts(self._boxes)} - {""}

    # Waiting

    async def _look(self, live: Iterable[Part], waiting: int) -> bool:
        """Look at batches and store what has ended; whether any has."""
        done = ended = 0
        for part in live:
            if not part.batch:  # its sender is still at it, or may have been killed in the middle of it
                continue
            lines = self.ledger.lines(part.name)
            await self._hold(part.name, sum(bound for _, bound in lines.values()))
            counter = self._boxes[part.box]
            progress = await counter.box.look(part.batch)
            done += progress.done
            if progress.ended:
                await self._store(part, lines, progress)
                ended += 1
        if not ended:
            self.say(f"{waiting:,} calls wait for a batch, {min(done, waiting):,} of them are done")
        return bool(ended)

    async def _store(self, part: Part, lines: Mapping[str, tuple[str, int]], progress: Progress) -> None:
        """Keep the answers of an ended batch, and on record which calls got none."""
        missing = dict(lines)
        problems: dict[str, str] = {}
        rejected: list[str] = []
        doubtful: list[Result] = []
        held: list[Result] = []
        counter = self._boxes[part.box]
        if not progress.problem:
            async for line in counter.box.results(progress):
                result = read_result(line)
                if result is None or result.address not in missing:
                    continue
                if result.status in _REJECTED:
                    rejected.append(f"HTTP {result.status}: {result.body[:300].decode('utf-8', 'replace')}")
                elif result.status in REFUSALS or (result.status == PAID and _good(result)):
                    del missing[result.address]
                    (doubtful if result.status in _DOUBTFUL else held).append(result)
                else:
                    problems[result.address] = result.problem or _fault(result)
                if len(held) >= _STORED_AT_ONCE:
                    await self._keep(held, lines)
                    held = []
            await self._keep(held, lines)
        if len(doubtful) == len(lines) and not any(stats.paid for stats in self.stats.values()):
            rejected += [f"HTTP {one.status}: {one.body[:300].decode('utf-8', 'replace')}" for one in doubtful]
        else:
            await self._keep(doubtful, lines)
        if progress.full:
            await self._forget(part.name)
            if len(lines) == 1:
                raise EndpointRejects(f"{counter.name} takes not even one call in a batch: {progress.problem}")
            self._most[part.box] = -(-len(lines) // 2)
            await asyncio.sleep(min(300.0, 5 * counter.policy.poll))  # for what waits there already
            return
        if progress.problem:
            order = sorted(lines)
            for number, why in progress.bad_lines:
                if 0 <= number < len(order):
                    self.given_up[order[number]] = (400, why)
                    missing.pop(order[number], None)
            if not progress.bad_lines:
                await self._forget(part.name)
                raise EndpointRejects(f"{counter.name} refuses our batch {part.batch}: {progress.problem}")
        await self._forget(part.name)
        if rejected and len(rejected) == len(lines):
            raise EndpointRejects(
                f"{counter.name} rejects us with {rejected[0]}; check the model name, the key and the account"
            )
        if not progress.problem:
            self._missed(
                {address: problems.get(address, "no answer to it in the batch's results") for address in missing}
            )

    def _missed(self, problems: Mapping[str, str]) -> None:
        """Note that calls, by address, came back without an answer, and give up those that did so too often."""
        for address, problem in problems.items():
            count = self._misses[address] = self._misses.get(address, 0) + 1
            if count >= TRIES:
                self.given_up[address] = (0, f"given up after {count} batches, the last: {problem}")

    async def _keep(self, results: list[Result], lines: Mapping[str, tuple[str, int]]) -> None:
        await asyncio.gather(*(self._keep_one(result, self.stats[lines[result.address][0]]) for result in results))

    async def _keep_one(self, result: Result, stats: RoleStats) -> None:
        if result.status != PAID:
            said = result.body[:2000].decode("utf-8", "replace")
            self.given_up[result.address] = (result.status, said)
            await self.cache.put(result.address, Entry(result.status, result.body))
            return
        before = await self.cache.get(result.address, refusals=False)
        if (
            before is not None
        ):  # stored, and counted, by a command that was killed before it could say so, or by another
            return
        usage = Answer.parse(result.body).usage
        await self.cache.put(result.address, Entry(PAID, result.body), tokens=usage.total)
        stats.paid += 1
        stats.batched += 1
        stats.prompt_tokens += usage.prompt
        stats.completion_tokens += usage.completion
        stats.cached_tokens += usage.cached
        stats.batched_prompt_tokens += usage.prompt
        stats.batched_completion_tokens += usage.completion


def _fault(result: Result) -> str:
    return "an answer that cannot be read" if result.status == PAID else f"HTTP {result.status}"


def _good(result: Result) -> bool:
    try:
        Answer.parse(result.body)
    except MalformedAnswer:
        return False
    return True
