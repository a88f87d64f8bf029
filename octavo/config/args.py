"""What the user may say: all optional, no logic.

Flags, help and reference pages are made from these fields and their docstrings
(``config/cli.py``). A field called ``max_model_len`` is the flag ``--max-model-len``.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineArgs:
    """The model and how it runs."""

    model: str | None = None
    """Folder, .gguf file, or hub id (org/name, org/name:file.gguf); else the demo model."""

    tokenizer: str | None = None
    """Folder or .gguf file with the tokenizer, where it is not beside the model."""

    revision: str | None = None
    """Branch, tag or commit of a hub id; else its main branch."""

    download_dir: str | None = None
    """Folder for files fetched from the hub; else OCTAVO_CACHE, else the hub's own cache."""

    served_model_name: tuple[str, ...] = field(default=(), metadata={"nargs": "+"})
    """Names that requests may use for the model; the first is the one that answers carry."""

    max_model_len: int | None = None
    """Longest prompt plus answer; else the model's, or what memory holds. [tokens]"""

    dtype: str | None = None
    """auto (float32 on CPU, the checkpoint's elsewhere), float32, bfloat16 or float16."""

    seed: int | None = None
    """Base of the seeds drawn for requests that give none; else 0."""

    load_format: str | None = None
    """auto, safetensors, gguf or dummy (random weights)."""

    device: str | None = None
    """auto, or the name of a platform: cpu, cuda."""

    executor: str | None = None
    """uniproc (worker inside the engine process) or multiproc (a process per worker)."""

    threads: int | None = None
    """Threads a CPU worker computes with; else every core it may use."""

    block_size: int | None = None
    """Tokens in one block of the KV cache, a power of two up to 128; else 16. [tokens]"""

    enable_prefix_caching: bool | None = None
    """Reuse KV blocks of equal prefixes; on unless turned off."""

    kv_cache_memory_bytes: int | None = None
    """Memory for the KV cache; else what is free and useful, on CPU 4 GiB at most. [bytes]"""

    gpu_memory_utilization: float | None = None
    """Part of the device's memory that octavo may use, on CPU of the free memory; else 0.9."""

    max_num_seqs: int | None = None
    """Most requests one step runs; else 64 on CPU, 256 on an accelerator. [requests]"""

    max_num_batched_tokens: int | None = None
    """Most tokens one step computes; else 512 on CPU, 8192 on an accelerator. [tokens]"""

    scheduling_policy: str | None = None
    """fcfs, or priority: a waiting request may displace a running one of lower priority."""

    async_scheduling: bool | None = None
    """Schedule the next step while the device computes this one; on unless turned off."""

    attention_backend: str | None = None
    """Name of an attention backend; the platform's preference where nothing is given."""

    numerics: str | None = None
    """exact refuses operations whose bits depend on the batch; fast admits them."""

    generation_config: str | None = None
    """auto (sampling defaults of the model), or vllm (neutral defaults)."""

    chat_template: str | None = None
    """File with a Jinja chat template, or the template itself."""

    max_logprobs: int | None = None
    """Most alternatives per token a request may ask for; else 20."""

    max_waiting_requests: int | None = None
    """Requests accepted beyond the running ones before 429; else 1024. [requests]"""

    log_level: str | None = None
    """debug, info, warning or error; else info."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerArgs:
    """The HTTP server."""

    host: str | None = None
    """Address to listen on; else 127.0.0.1, this machine only. 0.0.0.0 opens it to others."""

    port: int | None = None
    """Port to listen on; 0 takes a free one; else 8000."""

    uds: str | None = None
    """Path of a unix socket to listen on instead of host and port."""

    api_key: tuple[str, ...] = ()
    """Bearer key that requests must carry; may be given several times. Also OCTAVO_API_KEY."""

    max_body_bytes: int | None = None
    """Largest request body; else 32 MiB. [bytes]"""
