"""Who may look at whom: causal, and never across the documents of a packed row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

PADDING = -1
"""Document id of padding; padding sees only padding and is left out of every loss and statistic."""


@dataclass(frozen=True)
class AttentionMask:
    """Exactly one description is used: `block` by fused flex attention, `allowed` otherwise, neither means causal."""

    allowed: Tensor | None = None
    """Booleans, shape (batch, 1, queries, keys); True where a query may look."""
    block: BlockMask | None = None


def attention_mask(
    document_ids: Tensor | None, length: int, *, batch: int, device: torch.device, flex: bool
) -> AttentionMask:
    """Mask of self-attention over `length` tokens; `document_ids` has shape (batch, length) or is None."""
    if flex:
        return AttentionMask(block=_block_mask(document_ids, length, batch, device))
    if document_ids is None:
        return AttentionMask()
    same = document_ids[:, None, :, None] == document_ids[:, None, None, :]
    return AttentionMask(allowed=same & torch.ones(length, length, dtype=torch.bool, device=device).tril())


def cached_mask(valid: Tensor, queries: int) -> AttentionMask:
    """Mask of the last `queries` tokens over all cached ones; `valid` (batch, keys) is False at padding.

    A padded query keeps itself in view, so that its (unused) softmax stays finite.
    """
    keys = valid.shape[1]
    causal = torch.ones(queries, keys, dtype=torch.bool, device=valid.device).tril(keys - queries)
    itself = torch.eye(queries, keys, dtype=torch.bool, device=valid.device).roll(keys - queries, dims=1)
    return AttentionMask(allowed=((valid[:, None, :] & causal) | itself)[:, None])


def restart_positions(document_ids: Tensor) -> Tensor:
    """Positions that start at 0 in every document; `document_ids` (batch, time) is constant over each document."""
    index = torch.arange(document_ids.shape[1], device=document_ids.device).expand_as(document_ids)
    starts = torch.ones_like(document_ids, dtype=torch.bool)
    starts[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    return index - torch.where(starts, index, 0).cummax(dim=1).values


def _block_mask(document_ids: Tensor | None, length: int, batch: int, device: torch.device) -> BlockMask:
    def causal(b: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return query >= key

    if document_ids is None:
        return _compiled()[1](causal, None, None, length, length, device=device)
    ids = document_ids

    def within_document(b: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (ids[b, query] == ids[b, key])

    return _compiled()[1](within_document, batch, None, length, length, device=device)


@cache
def _compiled() -> tuple[Any, Any]:
    """Flex attention and its mask builder; uncompiled they would write out every logit."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    return torch.compile(flex_attention), torch.compile(create_block_mask)


def flex(
    query: Tensor, key: Tensor, value: Tensor, mask: AttentionMask, scale: float, want_maxima: bool
) -> tuple[Tensor, Tensor | None]:
    """Fused attention; the row maxima that its online softmax keeps anyway are the logit maxima, at no extra pass."""
    from torch.nn.attention.flex_attention import AuxRequest

    attend = _compiled()[0]
    if not want_maxima:
        return attend(query, key, value, block_mask=mask.block, scale=scale), None
    out, aux = attend(query, key, value, block_mask=mask.block, scale=scale, return_aux=AuxRequest(max_scores=True))
    return out, aux.max_scores.detach().amax(dim=(0, 2))
