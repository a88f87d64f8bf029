"""Safetensors folders, single and sharded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from octavo.checkpoint.safetensors import SafetensorsTensor, read_safetensors
from octavo.config.model import ModelConfig
from octavo.device.loading.interface import Shapes, Weight
from octavo.device.loading.mapped import MappedFile
from octavo.kit.errors import CheckpointError

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}


class Safetensors:
    """Every tensor of a folder's safetensors files, mapped."""

    def weights(self, config: ModelConfig, _shapes: Shapes) -> Iterator[Weight]:
        files: dict[str, MappedFile] = {}
        for name, tensor in read_safetensors(config.path).items():
            path = str(tensor.file)
            if path not in files:
                files[path] = MappedFile(path)
            read = partial(_read, files[path], name, tensor)
            yield Weight(name, tuple(tensor.shape), path, read)


def _read(file: MappedFile, name: str, tensor: SafetensorsTensor, place: Tensor) -> None:
    if tensor.dtype not in _DTYPES:
        raise CheckpointError(
            f"{file.path}: weight {name!r} has type {tensor.dtype}; "
            f"plain weights have one of {', '.join(_DTYPES)}"
        )
    raw = file.bytes_at(tensor.offset, tensor.nbytes)
    place.copy_(raw.view(_DTYPES[tensor.dtype]).view(place.shape))


FORMAT = Safetensors()
