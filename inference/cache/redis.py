"""The cache in Redis, shared by the workers of many machines.

One script commits a batch: answers, spending and reservations together, so the server must not be a Redis Cluster (a
single primary, with replicas if you like). Answers are as durable as the server is set up to be: `appendonly yes`
survives its restart, `maxmemory-policy noeviction` keeps it from forgetting what was paid.

Keys: `tokenmill:answer:ADDRESS`; per run `tokenmill:run:RUN:spent`, `:owners` (a set),
`:leader` (the token of the command that leads the run; expires unless it shows signs of life),
`:fleet` (calls in flight that each worker may have), `:told:TOKEN` and `:stopped:TOKEN` (figures of the workers of a command, and
why they stopped),
`:held:OWNER` (expires unless its owner shows signs of life) and `:last:OWNER` (the last batch and its outcome, so that a
repeated one counts once).
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import redis
from redis import exceptions
from redis.asyncio import Redis
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry
from tokenmill.inference.cache.base import Entry
from tokenmill.inference.cache.batching import OWNER_TTL, Batch, BatchedCache, Outcome, fail
from tokenmill.inference.errors import CacheBroken
from tokenmill.inference.secrets import REDIS_PASSWORD, secret

VERSION = 1
"""Schema version, under the key `tokenmill:schema`."""

FLEET_TTL_MS = 10_000
"""Milliseconds after which the calls that a silent worker may have in flight are others' to have."""
TOLD_TTL = 86_400
"""Seconds for which what workers tell is kept."""

T = TypeVar("T")

AWAY = (exceptions.ConnectionError, exceptions.TimeoutError, OSError)
DENIED = (exceptions.AuthenticationError, exceptions.AuthorizationError)
"""Subclasses of a connection error in that package, but no repetition mends them."""

COMMIT = """
-- KEYS: spent, owners, held (mine), last (mine), then one per answer
-- ARGV: owner, batch number, tokens billed, tokens held, budget or -1, prefix of the held keys, time to live in ms,
--       number of answers, the answers (three digits of status and a body), the reservations asked for
local answers = tonumber(ARGV[8])
local stored = {}
for i = 1, answers do
  local key, mine = KEYS[4 + i], ARGV[8 + i]
  local there = redis.call('GET', key)
  if not there or string.sub(there, 1, 3) ~= '200' then
    redis.call('SET', key, mine)
    there = mine
  end
  stored[i] = there == mine and '' or there
end
local last = redis.call('HMGET', KEYS[4], 'batch', 'spent', 'granted')
if last[1] == ARGV[2] then return {stored, tonumber(last[2]), last[3]} end

local spent = redis.call('INCRBY', KEYS[1], ARGV[3])
local held, budget, granted = tonumber(ARGV[4]), tonumber(ARGV[5]), ''
if #ARGV > 8 + answers then
  local taken = spent + held
  for _, owner in ipairs(redis.call('SMEMBERS', KEYS[2])) do
    if owner ~= ARGV[1] then
      local theirs = redis.call('GET', ARGV[6] .. owner)
      if theirs then taken = taken + tonumber(theirs) else redis.call('SREM', KEYS[2], owner) end
    end
  end
  for i = 9 + answers, #ARGV do
    local tokens = tonumber(ARGV[i])
    local fits = taken + tokens <= budget
    if fits then taken, held = taken + tokens, held + tokens end
    granted = granted .. (fits and '1' or '0')
  end
end
if held > 0 then
  redis.call('SADD', KEYS[2], ARGV[1])
  redis.call('SET', KEYS[3], held, 'PX', ARGV[7])
elseif budget >= 0 then
  redis.call('SREM', KEYS[2], ARGV[1])
  redis.call('DEL', KEYS[3])
end
redis.call('HSET', KEYS[4], 'batch', ARGV[2], 'spent', spent, 'granted', granted)
redis.call('PEXPIRE', KEYS[4], 10 * ARGV[7])
return {stored, spent, granted}
"""

LEAD = """
-- KEYS: leader; ARGV: token, time to live in ms, whether to take it from another
local now = redis.call('GET', KEYS[1])
if now and now ~= ARGV[1] and ARGV[3] ~= '1' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
LEAVE = """
-- KEYS: leader; ARGV: token
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], 'nobody', 'PX', 3600000) end
"""


ALLOT = """
-- KEYS: who may have how many calls in flight; ARGV: owner, in flight, wanted, limit in all, time to live in ms
-- What an owner holds is never less than what it has in flight, so the sum of all that is held is never above the limit.
local clock = redis.call('TIME')
local now = 1000 * clock[1] + math.floor(clock[2] / 1000)
local using, wanted, limit = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local taken, live, hungry = 0, 1, false
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if all[i] ~= ARGV[1] then
    local held, theirs, till = string.match(all[i + 1], '(%d+) (%d+) (%d+)')
    if tonumber(till) < now then
      redis.call('HDEL', KEYS[1], all[i])
    else
      taken, hungry = taken + held, hungry or tonumber(theirs) > tonumber(held)
      live = live + (tonumber(theirs) > 0 and 1 or 0)
    end
  end
end
local grant = math.min(wanted, limit - taken)
if hungry then grant = math.min(grant, math.max(1, math.floor(limit / live))) end
grant = math.max(grant, using)
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d %d %d', grant, wanted, now + ARGV[5]))
redis.call('PEXPIRE', KEYS[1], 10 * ARGV[5])
return grant
"""


class RedisCache(BatchedCache):
    """`inference.cache.base.Cache` in Redis; open it through `inference.cache.open.open_cache`."""

    patience = 60.0
    """Seconds for which a server that does not answer is tried again before the run stops."""
    owner_ttl = OWNER_TTL
    """Seconds after which the reservations of a silent owner lapse."""

    def __init__(self, location: str, run: str, budget: int | None) -> None:
        super().__init__(location, run, budget)
        try:
            parts = parse_url(location)
        except ValueError:  # its text and cause may show a password
            raise CacheBroken(
                "the cache's Redis URL is malformed; write redis://[user:password@]host[:port][/db]"
            ) from None
        self._password = {} if parts.get("password") else {"password": secret(REDIS_PASSWORD) or None}
        self._where = parts.get("path") or f"{parts.get('host', 'localhost')}:{parts.get('port', 6379)}"

    def _reset(self) -> None:
        super()._reset()
        self._client: Redis | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._batches = itertools.count(1)
        self._wanted: dict[str, asyncio.Future[Entry | None]] = {}
        self._broken = False

    # Connection

    def _options(self) -> dict[str, Any]:
        # One layer only repeats, and that is `_insist`.
        return {
            "retry": Retry(NoBackoff(), 0),
            "socket_connect_timeout": 5.0,
            "socket_timeout": 10.0,
            "protocol": 2,
            **self._password,
        }

    def check(self) -> None:
        deadline = time.monotonic() + 5
        while True:
            try:
                with redis.Redis.from_url(self.location, **self._options()) as client:
                    client.set("tokenmill:schema", VERSION, nx=True)
                    version = client.get("tokenmill:schema")
                break
            except exceptions.BusyLoadingError as error:  # it reads its file after a restart
                if time.monotonic() > deadline:
                    raise CacheBroken(self._explain(error)) from error
                time.sleep(0.1)
            except (exceptions.RedisError, OSError) as error:
                raise CacheBroken(self._explain(error)) from error
            except (TypeError, ValueError) as error:  # an option in the URL that no connection takes
                raise CacheBroken(f"the cache's Redis URL has an unusable option ({type(error).__name__})") from None
        if version != str(VERSION).encode():
            raise CacheBroken(f"Redis at {self._where} holds a cache of another schema version; name another database")

    def _connected(self) -> Redis:
        self._check_process()
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._wanted = {}
            self._client, self._loop = Redis.from_url(self.location, **self._options()), loop
            self._script = self._client.register_script(COMMIT)
        return self._client

    async def _disconnect(self) -> None:
        if self._client is not None and self._loop is asyncio.get_running_loop():
            await self._client.aclose()
        self._client = None

    def _explain(self, error: Exception) -> str:
        """One line that says what to do; never the URL, which may hold a password."""
        match error:
            case exceptions.AuthenticationError() | exceptions.AuthorizationError() | exceptions.NoPermissionError():
                return f"Redis at {self._where} refuses the user or password of the cache URL"
            case exceptions.OutOfMemoryError():
                return f"Redis at {self._where} is out of memory; raise its maxmemory and repeat the command"
            case exceptions.ReadOnlyError():
                return f"Redis at {self._where} is a read-only replica; name the primary"
            case exceptions.ConnectionError() | exceptions.TimeoutError() | OSError():
                return (
                    f"Redis at {self._where} does not answer ({type(error).__name__}); start it and repeat the command"
                )
        return f"Redis at {self._where} cannot serve as cache ({type(error).__name__}: {error})"

    async def _insist(self, action: Callable[[Redis], Awaitable[T]]) -> T:
        """Run `action`, reconnecting with backoff while the server is away.

        Raises:
            CacheBroken: it stayed away for longer than the patience (then, once, for each further attempt), or refused.
        """
        deadline, pause = 0.0, 0.05
        while True:
            try:
                result = await action(self._connected())
                self._broken = False
                return result
            except (exceptions.RedisError, OSError) as error:
                passing = isinstance(error, AWAY) and not isinstance(error, DENIED)
                deadline = deadline or time.monotonic() + self.patience
                if not passing or self._broken or time.monotonic() > deadline:
                    self._broken = True
                    raise CacheBroken(self._explain(error)) from error
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, 2.0)

    # Entries and ledger

    async def _load(self, address: str) -> Entry | None:
        """Reads that arrive in one turn of the loop travel together."""
        self._connected()
        future = self._wanted.get(address)
        if future is None:
            loop = asyncio.get_running_loop()
            if not self._wanted:
                self._reader = loop.create_task(self._read())  # starts when this turn of the loop is over
            future = self._wanted[address] = loop.create_future()
        return await asyncio.shield(future)

    async def _read(self) -> None:
        wanted, self._wanted = self._wanted, {}
        keys = [f"tokenmill:answer:{address}" for address in wanted]
        try:
            values: list[Any] = await self._insist(lambda client: client.mget(keys))
            entries = [None if value is None else self._entry(value) for value in values]
        except CacheBroken as error:
            fail(list(wanted.values()), error)
            return
        for future, entry in zip(wanted.values(), entries, strict=True):
            future.set_result(entry)

    def _entry(self, value: bytes) -> Entry:
        return Entry(int(value[:3]), self._codec.unpack(value[3:]))

    # Who leads a run on many machines

    async def lead(self, token: str, seconds: float, *, take: bool = False) -> bool:
        """Lead the run for so many seconds, whoever did before if `take`; whether it is ours."""
        lease, taken = int(1000 * seconds), int(take)
        return bool(await self._insist(lambda client: client.eval(LEAD, 1, self._leader, token, lease, taken)))

    async def leader(self) -> str:
        """The token of who leads the run, or another where that one has left it; empty where nobody shows that he lives."""
        token: Any = await self._insist(lambda client: client.get(self._leader))
        return (token or b"").decode()

    async def leave(self, token: str) -> None:
        """Lead no more, and let everybody know."""
        await self._insist(lambda client: client.eval(LEAVE, 1, self._leader, token))

    @property
    def _leader(self) -> str:
        return f"{self._run}:leader"

    # What workers on many machines tell each other and their driver

    async def allot(self, using: int, wanted: int, limit: int) -> int:
        """How many calls this process may have in flight, of `limit` that all workers of the run may have together.

        Args:
            using: how many it has in flight now; it is given no fewer.
            wanted: how many it would have.
        """
        args = (self._owner, using, wanted, limit, FLEET_TTL_MS)
        return int(await self._insist(lambda client: client.eval(ALLOT, 1, f"{self._run}:fleet", *args)))

    async def tell(self, attempt: str, figures: bytes) -> None:
        """Leave this worker's figures where the driver of the attempt finds them."""

        async def store(client: Redis) -> None:
            await client.hset(f"{self._run}:told:{attempt}", self._owner, figures)
            await client.expire(f"{self._run}:told:{attempt}", TOLD_TTL)

        await self._insist(store)

    async def told(self, attempt: str) -> dict[bytes, bytes]:
        """The last figures of every worker of an attempt."""
        figures: Any = await self._insist(lambda client: client.hgetall(f"{self._run}:told:{attempt}"))
        return dict(figures)

    async def say_stopped(self, attempt: str, why: bytes) -> None:
        """Leave word of why an attempt ends; the first reason stands."""
        key = f"{self._run}:stopped:{attempt}"
        await self._insist(lambda client: client.set(key, why, nx=True, ex=TOLD_TTL))

    async def why_stopped(self, attempt: str) -> bytes | None:
        """What a worker of the attempt has left word of."""
        why: Any = await self._insist(lambda client: client.get(f"{self._run}:stopped:{attempt}"))
        return None if why is None else bytes(why)

    @property
    def _run(self) -> str:
        return f"tokenmill:run:{self.run}"

    async def _spent(self) -> int:
        return int(await self._insist(lambda client: client.get(f"{self._run}:spent")) or 0)

    async def _commit(self, batch: Batch) -> Outcome:
        run = self._run
        keys = [f"{run}:spent", f"{run}:owners", f"{run}:held:{self._owner}", f"{run}:last:{self._owner}"]
        keys += [f"tokenmill:answer:{address}" for address, _ in batch.puts]
        arguments: list[bytes | str | int] = [
            self._owner,
            next(self._batches),
            batch.billed,
            batch.held,
            -1 if self.budget is None else self.budget,
            f"{run}:held:",
            int(self.owner_ttl * 1000),
            len(batch.puts),
            *(b"%d" % entry.status + self._codec.pack(entry.body) for _, entry in batch.puts),
            *batch.asks,
        ]
        stored, spent, granted = await self._insist(lambda client: self._script(keys, arguments, client))
        return Outcome(
            [self._entry(value) if value else entry for value, (_, entry) in zip(stored, batch.puts, strict=True)],
            spent,
            [mark == ord("1") for mark in granted],
        )
