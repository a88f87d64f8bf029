"""Every attention backend against the plain one: any mix of requests, dirty blocks, and bits."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from octavo.device.attention.interface import AttentionBackend, AttentionMetadata, AttentionSpec
from octavo.device.attention.select import BACKENDS, refusal

NAMES = BACKENDS.names()
EXACT = [name for name in NAMES if BACKENDS.load(name).exact]


@dataclass(frozen=True)
class Request:
    """``computed`` positions are in the cache already, ``new`` ones are this step's."""

    computed: int
    new: int

    @property
    def length(self) -> int:
        return self.computed + self.new


def spec_of(
    heads: tuple[int, int, int], window: int | None = None, **other: object
) -> AttentionSpec:
    facts = {"dtype": torch.float32, "scale": heads[2] ** -0.5, "sliding_window": window, **other}
    return AttentionSpec(num_heads=heads[0], num_kv_heads=heads[1], head_size=heads[2], **facts)


def numbers(spec: AttentionSpec, key: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of one text: the same for a key, however long it has become."""
    generator = torch.Generator().manual_seed(key)
    shape = (1200, spec.num_heads + 2 * spec.num_kv_heads, spec.head_size)
    heads = torch.randn(shape, generator=generator)[:length].to(spec.dtype)
    return heads.split([spec.num_heads, spec.num_kv_heads, spec.num_kv_heads], dim=1)


class Cache:
    """Blocks full of NaN; each request gets random ones."""

    def __init__(self, backend: AttentionBackend, spec: AttentionSpec, block_size: int) -> None:
        self._backend, self._spec, self._size = backend, spec, block_size
        num_bytes = backend.bytes_per_block(spec, block_size)
        self._raw = torch.full((3000, num_bytes), 255, dtype=torch.uint8)
        self._blocks = backend.view(self._raw, block_size)
        self._free = list(range(1, 3000))
        random.Random(0).shuffle(self._free)

    def run(self, requests: list[Request], *, keys: list[int] | None = None) -> list[Tensor]:
        """Write what is computed, then this step in one call; return each request's output."""
        keys = keys or list(range(len(requests)))
        texts = [numbers(self._spec, key, r.length) for key, r in zip(keys, requests, strict=True)]
        tables = [[self._free.pop() for _ in range(-(-r.length // self._size))] for r in requests]
        before = [Request(0, r.computed) for r in requests]
        if any(r.new for r in before):
            self._write(before, texts, tables, [0] * len(requests))
        starts = [r.computed for r in requests]
        meta = self._write(requests, texts, tables, starts)
        query = torch.cat([t[0][r.computed :] for t, r in zip(texts, requests, strict=True)])
        attended = self._backend.attend(query, self._blocks, meta)
        return list(attended.split([r.new for r in requests]))

    def _write(
        self,
        requests: list[Request],
        texts: list[tuple[Tensor, Tensor, Tensor]],
        tables: list[list[int]],
        starts: list[int],
    ) -> AttentionMetadata:
        places = [range(s, s + r.new) for s, r in zip(starts, requests, strict=True)]
        slots = [
            table[place // self._size] * self._size + place % self._size
            for table, span in zip(tables, places, strict=True)
            for place in span
        ]
        widest = max(map(len, tables)) + 1
        counts = [r.new for r in requests]
        meta = AttentionMetadata(
            query_start=torch.tensor([0, *counts]).cumsum(0).int(),
            seq_lens=torch.tensor([r.length for r in requests], dtype=torch.int32),
            block_table=torch.tensor(
                [t + [0] * (widest - len(t)) for t in tables], dtype=torch.int32
            ),
            slot_mapping=torch.tensor(slots, dtype=torch.int64),
            block_size=self._size,
            max_query_len=max(counts),
            max_seq_len=max(r.length for r in requests),
        )
        new = [
            (k[s : s + r.new], v[s : s + r.new])
            for (_, k, v), s, r in zip(texts, starts, requests, strict=True)
        ]
        key, value = (torch.cat(part) for part in zip(*new, strict=True))
        self._backend.write(self._blocks, key, value, meta)
        return meta


def made(name: str, spec: AttentionSpec) -> AttentionBackend:
    backend = BACKENDS.load(name)
    if (reason := refusal(backend, spec, exact=False)) is not None:
        pytest.skip(f"{name} refuses: {reason}")
    return backend(spec)


def outputs(name: str, spec: AttentionSpec, block_size: int, requests: list[Request]) -> Tensor:
    return torch.cat(Cache(made(name, spec), spec, block_size).run(requests))


MIXES = {
    "decode": [Request(40, 1), Request(3, 1), Request(0, 1), Request(300, 1)],
    "prefill": [Request(0, 50), Request(0, 17)],
    "chunks": [Request(64, 7), Request(13, 30), Request(255, 3)],
    "mixed": [Request(70, 1), Request(0, 33), Request(5, 2), Request(600, 1), Request(16, 16)],
    "long": [Request(200, 130), Request(519, 1)],
}
HEADS = [(9, 3, 64), (4, 4, 16), (14, 2, 64), (8, 1, 32), (2, 2, 128), (6, 3, 20)]


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_backend_agrees_with_the_reference(
    name: str, heads: tuple[int, int, int], mix: str
) -> None:
    spec = spec_of(heads)

    found = outputs(name, spec, 16, MIXES[mix])

    torch.testing.assert_close(found, outputs("torch_reference", spec, 16, MIXES[mix]))


@pytest.mark.parametrize("window", [1, 8, 33, 300])
@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("name", NAMES)
def test_a_window_hides_what_lies_before_it(name: str, mix: str, window: int) -> None:
    spec = spec_of((4, 2, 32), window=window)

    found = outputs(name, spec, 8, MIXES[mix])

    torch.testing.assert_close(found, outputs("torch_reference", spec, 8, MIXES[mix]))


@pytest.mark.parametrize("block_size", [1, 2, 4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("name", NAMES)
def test_the_size_of_blocks_does_not_matter(name: str, block_size: int) -> None:
    spec = spec_of((6, 2, 16))

    found = outputs(name, spec, block_size, MIXES["mixed"])

    torch.testing.assert_close(found, outputs("torch_reference", spec, 16, MIXES["mixed"]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NAMES)
def test_half_types_are_as_good_as_their_precision(name: str, dtype: torch.dtype) -> None:
    spec = spec_of((9, 3, 64), dtype=dtype)

    found = outputs(name, spec, 16, MIXES["mixed"])

    expected = outputs("torch_reference", spec, 16, MIXES["mixed"])
    # The scores themselves are rounded to dtype: some units of its last place, of values near 1.
    torch.testing.assert_close(found, expected, atol=16 * torch.finfo(dtype).eps, rtol=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_a_windows_freed_blocks_may_hold_anything(name: str) -> None:
    spec = spec_of((4, 2, 32), window=20)
    cache = Cache(made(name, spec), spec, 8)
    clean = cache.run([Request(320, 1), Request(320, 9)])

    class Forgetful(Cache):
        def _write(self, requests, texts, tables, starts):  # type: ignore[no-untyped-def]
            meta = super()._write(requests, texts, tables, starts)
            if starts[0]:
                meta.block_table[:, :36] = 0  # as the engine does where a window has passed
            return meta

    found = Forgetful(made(name, spec), spec, 8).run([Request(320, 1), Request(320, 9)])

    assert torch.equal(torch.cat(found), torch.cat(clean))


@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_a_tokens_bits_do_not_depend_on_its_company(name: str, heads: tuple[int, int, int]) -> None:
    spec = spec_of(heads)
    backend = made(name, spec)
    rng = random.Random(1)
    [alone] = Cache(backend, spec, 16).run([Request(0, 700)])

    for _ in range(6):
        crowd = [Request(rng.randrange(600), rng.choice([1, 1, 2, 40])) for _ in range(9)]
        place = rng.randrange(9)
        ours = Request(rng.randrange(650), rng.choice([1, 2, 17, 50]))
        crowd[place] = ours
        keys = [100 + index for index in range(9)]
        keys[place] = 0

        found = Cache(backend, spec, 16).run(crowd, keys=keys)[place]

        assert torch.equal(found, alone[ours.computed : ours.length])


@pytest.mark.parametrize("window", [None, 40, 300])
@pytest.mark.parametrize("chunk", [1, 7, 64, 300])
@pytest.mark.parametrize("name", EXACT)
def test_a_tokens_bits_do_not_depend_on_how_a_prompt_is_cut(
    name: str, chunk: int, window: int | None
) -> None:
    spec = spec_of((9, 3, 64), window=window)
    backend = made(name, spec)
    [whole] = Cache(backend, spec, 16).run([Request(0, 600)])

    for start in range(0, 600, chunk if chunk > 1 else 23):
        request = Request(start, min(chunk, 600 - start))
        [found] = Cache(backend, spec, 8).run([request])

        assert torch.equal(found, whole[start : request.length])
