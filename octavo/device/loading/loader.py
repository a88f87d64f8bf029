"""Build the model on the device, fill it from its checkpoint, and check that nothing is missing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from octavo.config.model import ModelConfig
from octavo.config.octavo import OctavoConfig
from octavo.device.attention.select import BackendChooser
from octavo.device.layers.build import Build
from octavo.device.layers.linear import Linear
from octavo.device.loading.interface import FORMATS, Weight, WeightFormat
from octavo.device.loading.weights import WeightTargets
from octavo.device.models.base import MODEL_FILES, ModelClass
from octavo.device.quantization.base import quant_method
from octavo.kit.errors import Unsupported

Progress = Callable[[int, int], None]
"""Called with bytes filled so far, and bytes in all."""

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def load_model(
    config: OctavoConfig, device: torch.device, progress: Progress | None = None
) -> nn.Module:
    """Return the model on ``device``, complete and ready to run without gradients.

    Raises:
        Unsupported: no model file or attention backend fits the configuration.
        CheckpointError: weights are missing, left over, misshapen or unreadable.
    """
    chooser = BackendChooser(config.attention_backend, exact=config.numerics == "exact")
    build = Build(
        dtype=DTYPES[config.model.dtype],
        method=quant_method(config.model.quantization),
        backend_for=chooser.backend_for,
    )
    model_class = _model_class(config.model)
    with torch.no_grad(), torch.device(device):
        model = model_class(config.model, build)
    targets = WeightTargets.of(model, model_class.weights, tied=_tied(config.model))
    with torch.no_grad():
        _fill(targets, config.model, progress or _silent)
        for layer in model.modules():
            if isinstance(layer, Linear):
                layer.process_after_load()
    return model.eval().requires_grad_(requires_grad=False)


def _model_class(config: ModelConfig) -> ModelClass:
    if config.model_type not in MODEL_FILES.names():
        raise Unsupported(
            f"model_type {config.model_type!r}: octavo has {', '.join(MODEL_FILES.names())}"
        )
    classes: dict[str, ModelClass] = MODEL_FILES.load(config.model_type)
    if config.architecture not in classes:
        raise Unsupported(
            f"architecture {config.architecture!r} of model_type {config.model_type!r}: "
            f"octavo has {', '.join(sorted(classes))}"
        )
    return classes[config.architecture]


def _tied(config: ModelConfig) -> frozenset[str]:
    return frozenset({"lm_head.weight"} if config.tie_word_embeddings else ())


def _fill(targets: WeightTargets, config: ModelConfig, progress: Progress) -> None:
    weight_format: WeightFormat = FORMATS.load(config.weight_format)
    done, total = 0, targets.total_bytes
    progress(done, total)
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        weights = weight_format.weights(config, targets.shapes())
        jobs = [pool.submit(_store, targets, weight) for weight in weights]
        try:
            for job in jobs:
                done += job.result()
                progress(done, total)
        finally:
            pool.shutdown(cancel_futures=True)
    targets.check_complete(config.path)


def _store(targets: WeightTargets, weight: Weight) -> int:
    with torch.no_grad():  # a thread starts with gradients
        return targets.store(weight)


def _silent(done: int, total: int) -> None:
    """Show nothing."""
