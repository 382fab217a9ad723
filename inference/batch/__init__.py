"""Calls at half price: filed as JSONL, worked off by the endpoint within a day, answered from the cache.

A rollout that needs an answer which is not in the cache files the call (`spool`) and its row waits. When all rows have
ended or wait, the calls are sent in parts (`desk`), by way of a `box`: an endpoint's Batch API (`api`) or `vllm run-batch`
(`offline`). Their answers go into the cache and the rollouts are run again, until none waits. What was sent is on record
(`ledger`): a command that was killed and is repeated finds its batches and sends nothing twice.
"""
