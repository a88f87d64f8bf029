"""The files of a hub repository that serving needs, and no others.

huggingface_hub does the fetching: progress bars, resumption after a broken connection, its cache.
Where the hub cannot be reached, what an earlier run fetched is used.
"""

from __future__ import annotations

import logging
from fnmatch import fnmatch
from pathlib import Path
from typing import cast

from huggingface_hub import HfApi, hf_hub_download, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from octavo.checkpoint.safetensors import INDEX, indexed_files
from octavo.kit.errors import CheckpointError

_log = logging.getLogger(__name__)

_ALWAYS = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "additional_chat_templates/*.jinja",
)
_TOKENIZER = "tokenizer.json"
_SLOW_TOKENIZER = ("tokenizer.model", "vocab.json", "merges.txt")
_SINGLE = "model.safetensors"

_TRANSPORT_ERROR = cast("type[Exception]", HfHubHTTPError.__mro__[1])  # the type checker sees type
"""Base of the errors of whichever HTTP library this huggingface_hub uses."""
_FAILURES = (OSError, _TRANSPORT_ERROR)


def fetch_folder(repo: str, revision: str | None, cache_dir: Path | None) -> Path:
    """Return the folder of a repository with its needed files, or its only .gguf file.

    Raises:
        CheckpointError: the repository is not there, has no such weights, or is out of reach.
    """
    try:
        files = _listing(repo, revision)
        if gguf := _only_gguf(repo, files):
            return fetch_gguf(repo, gguf, revision, cache_dir)
        names = [*_texts(repo, files), *_weights(repo, files, revision, cache_dir)]
        return Path(
            snapshot_download(
                repo,
                revision=revision,
                cache_dir=cache_dir,
                allow_patterns=[_literal(name) for name in names],
            )
        )
    except _FAILURES as error:
        folder = _cached_folder(repo, revision, cache_dir) if _is_out_of_reach(error) else None
        if folder is None:
            raise _explained(repo, revision, error) from error
        _warn(error, folder)
        return folder


def fetch_gguf(repo: str, file: str, revision: str | None, cache_dir: Path | None) -> Path:
    """Return one .gguf file of a repository.

    Raises:
        CheckpointError: it is not there, or out of reach.
    """
    try:
        ggufs = _ggufs(_listing(repo, revision))
        if file not in ggufs:
            raise CheckpointError(
                f"{repo}: has no file {file!r}; its .gguf files are: "
                f"{', '.join(ggufs) or 'none'}. Name one of them as {repo}:FILE."
            )
        return Path(hf_hub_download(repo, file, revision=revision, cache_dir=cache_dir))
    except _FAILURES as error:
        found = _cached(repo, file, revision, cache_dir) if _is_out_of_reach(error) else None
        if found is None:
            raise _explained(repo, revision, error) from error
        _warn(error, found)
        return found


def _listing(repo: str, revision: str | None) -> list[str]:
    info = HfApi().model_info(repo, revision=revision)
    return sorted(sibling.rfilename for sibling in info.siblings or ())


def _only_gguf(repo: str, files: list[str]) -> str | None:
    """Return the one .gguf file of a repository without other weights; None for other kinds."""
    ggufs = _ggufs(files)
    if not ggufs or any(file.endswith(".safetensors") for file in files):
        return None
    if len(ggufs) > 1:
        raise CheckpointError(
            f"{repo}: holds GGUF files only: {', '.join(ggufs)}. Choose one, such as "
            f"{repo}:{ggufs[0]}"
        )
    return ggufs[0]


def _texts(repo: str, files: list[str]) -> list[str]:
    """Configuration, tokenizer and chat templates."""
    if "config.json" not in files:
        raise CheckpointError(
            f"{repo}: has no config.json (it has {', '.join(files[:8]) or 'no files'}). "
            "Name a repository that holds a model in Hugging Face or GGUF format."
        )
    tokenizer = (_TOKENIZER,) if _TOKENIZER in files else _SLOW_TOKENIZER
    return [file for file in files if any(fnmatch(file, name) for name in (*_ALWAYS, *tokenizer))]


def _weights(
    repo: str, files: list[str], revision: str | None, cache_dir: Path | None
) -> list[str]:
    if INDEX in files:
        index = hf_hub_download(repo, INDEX, revision=revision, cache_dir=cache_dir)
        return [INDEX, *indexed_files(Path(index).parent)]
    found = [file for file in files if file.endswith(".safetensors") and "/" not in file]
    if _SINGLE in found:
        return [_SINGLE]
    if found:
        return found
    raise CheckpointError(
        f"{repo}: has no .safetensors weights; octavo reads safetensors and GGUF. "
        "Name a repository that has them, or convert the weights."
    )


def _ggufs(files: list[str]) -> list[str]:
    return [file for file in files if file.endswith(".gguf")]


def _literal(name: str) -> str:
    """Escape a file name for a pattern that would read brackets and stars in it."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def _cached_folder(repo: str, revision: str | None, cache_dir: Path | None) -> Path | None:
    """Return the folder that an earlier run completed, or None."""
    config = _cached(repo, "config.json", revision, cache_dir)
    if config is None:
        return None
    folder = config.parent
    if (folder / INDEX).is_file():
        is_complete = all((folder / file).is_file() for file in indexed_files(folder))
    else:
        is_complete = any(folder.glob("*.safetensors"))
    return folder if is_complete else None


def _cached(repo: str, file: str, revision: str | None, cache_dir: Path | None) -> Path | None:
    """Return a file that an earlier run fetched, or None."""
    found = try_to_load_from_cache(repo, file, cache_dir=cache_dir, revision=revision)
    return Path(found) if isinstance(found, str) else None


def _warn(error: Exception, found: Path) -> None:
    _log.warning("hub not reached (%s); taking what was fetched before: %s", error, found)


def _is_out_of_reach(error: Exception) -> bool:
    """Whether the hub gave no answer, as opposed to one that settles the matter."""
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code >= 500
    return isinstance(error, (_TRANSPORT_ERROR, ConnectionError, LocalEntryNotFoundError))


def _explained(repo: str, revision: str | None, error: Exception) -> CheckpointError:
    reason = next(iter(str(error).splitlines()), "") or type(error).__name__
    match error:
        case GatedRepoError():
            what = "is gated. Accept its terms on the hub and set HF_TOKEN to your token."
        case RevisionNotFoundError():
            what = f"has no revision {revision!r}. Check --revision."
        case RepositoryNotFoundError():
            what = (
                "is no folder here, and the hub shows no such repository. Check the name, or set "
                "HF_TOKEN if it is private."
            )
        case _ if _is_out_of_reach(error):
            what = (
                "is no folder here and not in the local cache, and the hub is out of reach "
                f"({reason:.200}). Give a folder or a .gguf file, or connect and run again."
            )
        case HfHubHTTPError():
            what = f"the hub refuses ({reason:.200}). Check HF_TOKEN, or try again later."
        case _:
            what = f"was not fetched ({reason:.200}). Check --download-dir and the space there."
    return CheckpointError(f"{repo}: {what}")
