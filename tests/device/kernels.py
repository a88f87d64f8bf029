"""Kernels of CUDA devices against float64, at odd shapes, with poisoned outputs.

By hand, on a machine with a GPU, or on a CPU through Triton's interpreter:

    python -m tests.device.kernels
    TRITON_INTERPRET=1 python -m tests.device.kernels --device cpu
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import accumulate

import torch
from torch import Tensor

from octavo.device.ops.cuda import attention, draw, gate, linear, norm, qkv
from octavo.device.sample.noise import noise_keys, noise_of_all

BOUNDS = {torch.float32: 2e-6, torch.float16: 1.5e-3, torch.bfloat16: 1e-2}
BLOCK_SIZE = 16


def error(found: Tensor, expected: Tensor) -> float:
    wide = expected.double()
    return float((found.double() - wide).norm() / wide.norm())


class Cases:
    """Yields (name, error, bound) of every case; a NaN never passes."""

    def __init__(self, device: str, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self.random = torch.Generator(device="cpu").manual_seed(0)

    def randn(self, *shape: int, scale: float = 1.0) -> Tensor:
        values = torch.randn(*shape, generator=self.random) * scale
        return values.to(self.device, self.dtype)

    def poisoned(self, *shape: int) -> Tensor:
        return torch.full(shape, float("nan"), device=self.device, dtype=self.dtype)

    def linear(self) -> Iterator[tuple[str, float]]:
        small = self.dtype == torch.float32
        for rows, is_wide in ((1, False), (5, False), (17, True), (40, True)):
            x, weight = self.randn(rows, 160), self.randn(96, 160, scale=0.1)
            residual = self.randn(rows, 96)
            tile = linear.Tile(16 if rows <= 16 else 32, 32, 32 if small else 64, 4, 2, is_wide)
            out = linear.linear(
                x, weight, tile=tile, out=self.poisoned(rows, 96), residual=residual
            )
            yield f"linear {rows}", error(out, linear.linear_reference(x, weight, residual))
            out = linear.gated_linear(x, weight, tile=tile, out=self.poisoned(rows, 48))
            yield f"gated {rows}", error(out, linear.gated_linear_reference(x, weight))
            both = linear.linear(x, weight, tile=tile, out=self.poisoned(rows, 96), residual=None)
            yield f"gate alone {rows}", 0.0 if torch.equal(gate.silu_and_mul(both), out) else 1.0

    def norm(self) -> Iterator[tuple[str, float]]:
        x, residual, weight = self.randn(3, 100), self.randn(3, 100), self.randn(100)
        out = norm.rms_norm(x, weight, 1e-6, out=self.poisoned(3, 100))
        yield "norm", error(out, norm.rms_norm_reference(x, weight, 1e-6))
        total = x + residual
        out = norm.rms_norm(x, weight, 1e-6, out=self.poisoned(3, 100), residual=residual)
        yield "norm of sum", error(out, norm.rms_norm_reference(total, weight, 1e-6))
        yield "sum", error(residual, total)

    def qkv(self) -> Iterator[tuple[str, float]]:
        heads, kv_heads, size, slots = 4, 2, 64, [16, 17, 40, 99, 70]
        tokens = len(slots)
        rows = self.randn(tokens, (heads + 2 * kv_heads) * size)
        half = self.randn(tokens, size // 2)
        cos, sin = torch.cat((half, half), 1), self.randn(tokens, size // 2)
        gains = self.randn(size), self.randn(size)
        cache = self.poisoned(8, 2, kv_heads, BLOCK_SIZE, size)
        for norms in (None, gains):
            query = qkv.rotate_and_store(
                rows, num_heads=heads, num_kv_heads=kv_heads, head_size=size, norms=norms,
                eps=1e-6, cos=cos, sin=sin, slots=torch.tensor(slots, device=self.device),
                kv_cache=cache, block_size=BLOCK_SIZE, query=self.poisoned(tokens, heads, size),
            )  # fmt: skip
            parts = rows.view(tokens, -1, size).split([heads, kv_heads, kv_heads], 1)
            gain = norms or (None, None)
            held = [cache[slot // BLOCK_SIZE, :, :, slot % BLOCK_SIZE] for slot in slots]
            keys, values = torch.stack(held, 1)
            yield "query", error(query, qkv.rotate_reference(parts[0], gain[0], 1e-6, cos, sin))
            yield "key", error(keys, qkv.rotate_reference(parts[1], gain[1], 1e-6, cos, sin))
            yield "value", error(values, parts[2])

    def attention(self) -> Iterator[tuple[str, float]]:
        for heads, kv_heads, size, window in (
            (4, 2, 64, 0), (4, 2, 64, 100), (9, 3, 64, 0), (8, 1, 128, 0)
        ):  # fmt: skip
            lengths, queries = [1, 130, 300, 517], [1, 65, 300, 10]
            table, cache = self.cache(lengths, kv_heads, size)
            seq_lens = torch.tensor(lengths, dtype=torch.int32, device=self.device)
            clean = cache.nan_to_num(0)
            name = f"{heads}/{kv_heads} heads of {size}, window {window}"
            ones = torch.arange(len(lengths) + 1, dtype=torch.int32)
            query = self.randn(len(lengths), heads, size)
            expected = attention.reference(
                query, clean, block_table=table, seq_lens=seq_lens, query_start=ones,
                scale=0.2, window=window,
            )  # fmt: skip
            alone = None
            for splits in (1, 2, 5):
                shape = (len(lengths), heads, 9)
                partial = tuple(
                    torch.full((*shape, last), float("nan"), device=self.device)
                    for last in (size, 2)
                )
                out = attention.decode(
                    query, cache, block_table=table, seq_lens=seq_lens, scale=0.2, window=window,
                    num_splits=splits, partial=partial, out=self.poisoned(*query.shape),
                )  # fmt: skip
                yield f"decode, {splits} splits, {name}", error(out, expected)
                alone = out if alone is None else alone
                yield "bits of splits", 0.0 if torch.equal(out, alone) else 1.0
            yield from self.prefill(
                (heads, kv_heads, size, window), queries, (table, cache, clean), lengths
            )

    def prefill(
        self,
        heads: tuple[int, int, int, int],
        queries: list[int],
        held: tuple[Tensor, Tensor, Tensor],
        lengths: list[int],
    ) -> Iterator[tuple[str, float]]:
        num_heads, kv_heads, size, window = heads
        tile = attention.tokens_per_tile(num_heads, kv_heads)
        cut = [(r, first) for r, n in enumerate(queries) for first in range(0, n, tile)]
        request, first = torch.tensor(cut, dtype=torch.int32, device=self.device).T.contiguous()
        start = torch.tensor([0, *accumulate(queries)], dtype=torch.int32, device=self.device)
        seq_lens = torch.tensor(lengths, dtype=torch.int32, device=self.device)
        query = self.randn(sum(queries), num_heads, size)
        facts = {"block_table": held[0], "seq_lens": seq_lens, "query_start": start}
        facts |= {"scale": 0.2, "window": window}
        out = attention.prefill(
            query, held[1], tile_request=request, tile_first=first,
            out=self.poisoned(*query.shape), **facts,
        )  # fmt: skip
        yield f"prefill {heads}", error(out, attention.reference(query, held[2], **facts))
        if self.dtype != torch.bfloat16:
            return  # the backend does not mix the two kernels
        last = query[start[1:].long() - 1]
        partial = tuple(torch.empty(1, 1, 1, n, device=self.device) for n in (size, 2))
        alone = attention.decode(
            last, held[1], block_table=held[0], seq_lens=seq_lens, scale=0.2, window=window,
            num_splits=1, partial=partial, out=self.poisoned(*last.shape),
        )  # fmt: skip
        same = torch.equal(alone, out[start[1:].long() - 1])
        yield f"bits of prefill and decode {heads}", 0.0 if same else 1.0

    def cache(self, lengths: list[int], kv_heads: int, size: int) -> tuple[Tensor, Tensor]:
        """Blocks in random order; what no request owns is NaN."""
        cache = self.randn(140, 2, kv_heads, BLOCK_SIZE, size)
        cache[0] = float("nan")
        free = (torch.randperm(139, generator=self.random) + 1).tolist()
        table = torch.zeros(len(lengths), 40, dtype=torch.int32)
        for row, length in enumerate(lengths):
            count = -(-length // BLOCK_SIZE)
            table[row, :count] = torch.tensor([free.pop() for _ in range(count)])
            if length % BLOCK_SIZE:
                cache[table[row, count - 1], :, :, length % BLOCK_SIZE :] = float("nan")
        return table.to(self.device), cache

    def draw(self) -> Iterator[tuple[str, float]]:
        rows, vocab_size, width = 5, 2500, 7
        logits = torch.randn(rows, vocab_size, generator=self.random) * 3
        logits[1, 900] = logits[1, 40] = 50.0
        logits[3, 7] = float("nan")
        logits[4] = float("-inf")
        temperature = torch.tensor([0.6, 0.0, 1.5, 0.0, 0.0])
        keys = torch.from_numpy(
            noise_keys(torch.arange(5).numpy().astype("uint64"), torch.arange(5).numpy() + 10)
        )
        places = torch.arange(rows) * width + 3
        columns = torch.stack((temperature.view(torch.int32).to(torch.int64), keys, places))
        held = torch.full((rows * width,), -9, dtype=torch.int32, device=self.device)
        out = torch.full((2, 8), -9, dtype=torch.int32, device=self.device)
        draw.draw(logits.to(self.device), columns.to(self.device), rows=held, out=out)
        noise = noise_of_all(keys, vocab_size)
        scores = logits.double() / temperature[:, None] - noise.double().log()
        expected = torch.where(temperature[:, None] > 0, scores, logits.double()).argmax(1)
        expected[1], expected[3:] = 40, 0
        good = out[0, :rows].cpu().tolist() == expected.tolist()
        good &= out[1, :rows].cpu().tolist() == [0, 0, 0, 1, 1]
        good &= held.view(rows, width)[:, 3].cpu().tolist() == expected.tolist()
        good &= int((held == -9).sum()) == rows * (width - 1)
        yield "draw", 0.0 if good else 1.0


def main() -> int:
    """Print every case; fail if one is out of bounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    failed = 0
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        if device == "cpu" and dtype == torch.bfloat16:
            continue  # the interpreter's arithmetic is numpy's, which has no such type
        cases = Cases(device, dtype)
        for part in (
            cases.linear, cases.norm, cases.qkv, cases.attention, cases.draw
        ):  # fmt: skip
            for name, found in part():
                good = found <= BOUNDS[dtype]
                failed += not good
                print(f"{'ok  ' if good else 'FAIL'} {dtype} {name}: {found:.2e}")
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
