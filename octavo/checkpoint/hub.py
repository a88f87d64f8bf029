"""The files of a hub repository that serving needs, and no others.

huggingface_hub does the fetching: progress bars, resumption, its cache. Where the hub cannot be
reached, what an earlier run fetched is used.
"""

from __future__ import annotations

import logging
from fnmatch import fnmatch
from pathlib import Path

import httpx
from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
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
_UNREACHABLE = (httpx.HTTPError, OfflineModeIsEnabled, ConnectionError, TimeoutError)


def fetch_folder(repo: str, revision: str | None, cache_dir: Path | None) -> Path:
    """Return the folder of a repository with its needed files, or its only .gguf file.

    Raises:
        CheckpointError: the repository is not there, has no such weights, or is out of reach.
    """
    try:
        files, commit = _listing(repo, revision)
        wanted = _wanted(repo, files, commit, cache_dir)
        if wanted == _only_gguf(files):
            return fetch_gguf(repo, wanted[0], revision, cache_dir)
        folder = snapshot_download(
            repo, revision=commit, cache_dir=cache_dir, allow_patterns=[_literal(f) for f in wanted]
        )
    except HfHubHTTPError as error:
        raise _refused(repo, revision, error) from error
    except _UNREACHABLE as error:
        return _cached_folder(repo, revision, cache_dir, error)
    return Path(folder)


def fetch_gguf(repo: str, file: str, revision: str | None, cache_dir: Path | None) -> Path:
    """Return one .gguf file of a repository.

    Raises:
        CheckpointError: it is not there, or out of reach.
    """
    try:
        return Path(hf_hub_download(repo, file, revision=revision, cache_dir=cache_dir))
    except LocalEntryNotFoundError as error:
        raise _out_of_reach(repo, error) from error
    except EntryNotFoundError as error:
        files, _ = _listing(repo, revision)
        raise CheckpointError(
            f"{repo}: has no file {file!r}; its .gguf files are "
            f"{', '.join(_ggufs(files)) or 'none'}. Name one of them as {repo}:FILE."
        ) from error
    except HfHubHTTPError as error:
        raise _refused(repo, revision, error) from error
    except _UNREACHABLE as error:
        raise _out_of_reach(repo, error) from error


def _listing(repo: str, revision: str | None) -> tuple[list[str], str]:
    """Return the repository's files and the commit they belong to."""
    info = HfApi().model_info(repo, revision=revision)
    files = sorted(sibling.rfilename for sibling in info.siblings or ())
    return files, info.sha or revision or "main"


def _wanted(repo: str, files: list[str], commit: str, cache_dir: Path | None) -> list[str]:
    ggufs = _ggufs(files)
    if not any(file.endswith(".safetensors") for file in files) and ggufs:
        if len(ggufs) == 1:
            return ggufs
        raise CheckpointError(
            f"{repo}: holds GGUF files only: {', '.join(ggufs)}. Choose one, such as "
            f"{repo}:{ggufs[0]}"
        )
    if "config.json" not in files:
        raise CheckpointError(
            f"{repo}: has no config.json (it has {', '.join(files[:8]) or 'no files'}). "
            "Name a repository that holds a model in Hugging Face or GGUF format."
        )
    tokenizer = (_TOKENIZER,) if _TOKENIZER in files else _SLOW_TOKENIZER
    wanted = [file for file in files if any(fnmatch(file, name) for name in (*_ALWAYS, *tokenizer))]
    return wanted + _weights(repo, files, commit, cache_dir)


def _weights(repo: str, files: list[str], commit: str, cache_dir: Path | None) -> list[str]:
    if INDEX in files:
        index = hf_hub_download(repo, INDEX, revision=commit, cache_dir=cache_dir)
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


def _only_gguf(files: list[str]) -> list[str]:
    ggufs = _ggufs(files)
    return ggufs if len(ggufs) == 1 else []


def _literal(name: str) -> str:
    """Escape a file name for a pattern that would read brackets and stars in it."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def _cached_folder(
    repo: str, revision: str | None, cache_dir: Path | None, error: Exception
) -> Path:
    try:
        folder = snapshot_download(
            repo, revision=revision, cache_dir=cache_dir, local_files_only=True
        )
    except LocalEntryNotFoundError:
        raise _out_of_reach(repo, error) from error
    if not (Path(folder) / "config.json").is_file():
        raise _out_of_reach(repo, error) from error
    _log.warning("hub not reached (%s); using the files of %s fetched earlier", error, repo)
    return Path(folder)


def _refused(repo: str, revision: str | None, error: HfHubHTTPError) -> CheckpointError:
    if isinstance(error, GatedRepoError):
        return CheckpointError(
            f"{repo}: is gated. Accept its terms on the hub and set HF_TOKEN to your token."
        )
    if isinstance(error, RevisionNotFoundError):
        return CheckpointError(f"{repo}: has no revision {revision!r}. Check --revision.")
    if isinstance(error, RepositoryNotFoundError):
        return CheckpointError(
            f"{repo}: is no folder here, and the hub has no such public repository. Check the "
            "name, or set HF_TOKEN if it is private."
        )
    reason = str(error).splitlines()[0]
    return CheckpointError(f"{repo}: the hub answers: {reason}. Try again later.")


def _out_of_reach(repo: str, error: Exception) -> CheckpointError:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return CheckpointError(
        f"{repo}: is no folder here, is not in the local cache, and the hub is out of reach "
        f"({reason:.200}). Give a folder or a .gguf file, or connect and run again."
    )
