"""The threads that compute batches of any model on this machine's cores."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache


@cache
def lanes() -> ThreadPoolExecutor:
    """Threads that each compute one batch at a time: as many as this process has cores to itself, which `OMP_NUM_THREADS`
    says where several processes share them. All models share them."""
    import torch

    told = os.environ.get("OMP_NUM_THREADS", "")
    cores = int(told) if told.isdecimal() and int(told) else os.cpu_count() or 1
    return ThreadPoolExecutor(cores, "lane", initializer=torch.set_num_threads, initargs=(1,))
