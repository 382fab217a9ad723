"""Opening a cache by where it is."""

from __future__ import annotations

from tokenmill.inference.cache.base import Cache
from tokenmill.inference.cache.batching import BatchedCache
from tokenmill.inference.cache.sqlite import SqliteCache
from tokenmill.inference.errors import CacheBroken


def open_cache(location: str, *, run: str, budget: int | None = None) -> Cache:
    """Open the cache at a path (SQLite) or at a `redis://`, `rediss://` or `unix://` URL, and check that it is usable.

    Args:
        location: a file path (its folders are created) or a Redis URL.
        run: names the job; tokens spent add up under this name over all invocations, with or without a budget.
        budget: tokens that the job may spend in all, or None for no limit.

    Raises:
        ValueError: an empty location or run, or a budget below 1.
        tokenmill.inference.errors.CacheBroken: the store cannot be used; one line says why and what to do.
    """
    if not location:
        raise ValueError("cache: name a file or a redis:// URL")
    if not run:
        raise ValueError("run: name the job that the cache's token ledger belongs to")
    if budget is not None and budget < 1:
        raise ValueError(f"budget: must be at least 1 token, not {budget}; leave it out for no limit")
    if location.startswith(("redis://", "rediss://", "unix://")):
        try:
            from tokenmill.inference.cache.redis import RedisCache
        except ImportError as error:
            raise CacheBroken("a Redis cache needs the redis package: pip install 'tokenmill[redis]'") from error
        cache: BatchedCache = RedisCache(location, run, budget)
    else:
        cache = SqliteCache(location, run, budget)
    cache.check()
    return cache
