"""A sampler over rows that a test fills by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from octavo.config.scheduler import SchedulerConfig
from octavo.contracts.sampling import TokenSampling
from octavo.contracts.schedule import NewRequest, SchedulerOutput
from octavo.device.batch import DeviceBatch, rows_shape
from octavo.device.sample.penalties import Penalizer
from octavo.device.sample.sampler import Drawn, Sampler
from octavo.device.sample.state import SamplingState


@dataclass
class Text:
    sampling: TokenSampling
    prompt: list[int] = field(default_factory=lambda: [1])
    output: list[int] = field(default_factory=list)


def draw(logits: np.ndarray, texts: list[Text], rows: list[int] | None = None) -> Drawn:
    """Put each text into a row and draw once; ``rows`` gives the row numbers."""
    vocab_size = logits.shape[1]
    limits = SchedulerConfig(
        max_num_batched_tokens=4096,
        max_num_seqs=max(len(texts), *(rows or [0])) + 1,
        max_model_len=64,
        policy="fcfs",
        overlap=True,
    )
    batch = DeviceBatch(limits, [], torch.zeros(rows_shape(limits), dtype=torch.int32))
    state = SamplingState(limits.max_rows, vocab_size, torch.device("cpu"))
    sampler = Sampler(batch, state, Penalizer(torch.zeros(vocab_size)))
    places = np.array(rows or range(len(texts)), np.int64)
    new = [
        NewRequest(
            row=row,
            request_id=str(row),
            token_ids=np.array(text.prompt + text.output, np.int32),
            num_prompt_tokens=len(text.prompt),
            block_ids=[],
            num_computed_tokens=0,
            sampling=text.sampling,
        )
        for row, text in zip(places.tolist(), texts, strict=True)
    ]
    lengths = np.array([len(request.token_ids) for request in new], np.int32)
    batch.apply(SchedulerOutput(0, new, places.astype(np.int32), lengths))
    for request in new:
        state.start(request.row, request.sampling)
    with torch.inference_mode():
        return sampler.draw(torch.from_numpy(logits.copy()), places)
