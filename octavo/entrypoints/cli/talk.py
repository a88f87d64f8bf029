"""A model to talk to: one in this process, or one behind a URL. Both take OpenAI's bodies."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
import msgspec

from octavo.api.frontend.prompts import TextPrompt
from octavo.api.frontend.stream import RequestStream
from octavo.api.http.schema.checking import checked
from octavo.api.http.schema.messages import conversation
from octavo.api.http.schema.openai import ChatCompletionRequest, CompletionRequest
from octavo.config.args import EngineArgs
from octavo.kit.env import read_environment
from octavo.kit.errors import OctavoError, OperatorError, RequestRefused
from octavo.kit.log import set_up_logging
from octavo.launch.inprocess import InProcess, open_llm
from octavo.resolve.load import load_config

Body = dict[str, object]
"""An OpenAI request as JSON, without ``model`` and ``stream``."""

_CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Piece:
    """What one step of an answer brought."""

    text: str
    num_prompt_tokens: int = 0
    """Known with the last piece at the latest, else 0. [tokens]"""
    num_tokens: int = 0
    """Tokens of the answer so far, 0 where not known yet. [tokens]"""
    finish_reason: str | None = None


class Talk(Protocol):
    """Answers, piece by piece. Closing a generator early ends the answer at the model."""

    name: str

    def chat(self, body: Body) -> Generator[Piece]: ...

    def complete(self, body: Body) -> Generator[Piece]: ...

    def close(self) -> None: ...


def open_talk(args: EngineArgs, *, url: str | None, api_key: str | None) -> Talk:
    """Load the model here, or connect to ``url``; ``args.model`` is then the name to ask for.

    Raises:
        OperatorError: the model cannot be loaded, or nothing answers at ``url``.
    """
    if url is not None:
        return RemoteTalk(url, model=args.model, api_key=api_key or read_environment().api_key)
    config = load_config(args, read_environment())
    set_up_logging("octavo", args.log_level or "warning")
    return LocalTalk(open_llm(config))


class LocalTalk:
    """The model in this process."""

    def __init__(self, process: InProcess) -> None:
        self._process = process
        self.name = process.llm.config.frontend.served_model_names[0]

    def chat(self, body: Body) -> Generator[Piece]:
        chat = checked(ChatCompletionRequest.model_validate, {**body, "stream": True})
        return self._pieces(self._process.run(self._start_chat(chat)))

    def complete(self, body: Body) -> Generator[Piece]:
        asked = checked(CompletionRequest.model_validate, {**body, "stream": True})
        return self._pieces(self._process.run(self._start_completion(asked)))

    def close(self) -> None:
        self._process.close()

    async def _start_chat(self, chat: ChatCompletionRequest) -> RequestStream:
        text = await self._process.llm.render_chat(conversation(chat.messages))
        prompt = TextPrompt(text=text, add_special_tokens=False, param="messages")
        return await self._process.llm.add(prompt, chat.to_sampling(), request_id="chat")

    async def _start_completion(self, asked: CompletionRequest) -> RequestStream:
        [text] = asked.prompt
        assert isinstance(text, str)
        return await self._process.llm.add(text, asked.to_sampling(), request_id="complete")

    def _pieces(self, stream: RequestStream) -> Generator[Piece]:
        num_tokens = 0
        try:
            while (output := self._process.run(_next(stream))) is not None:
                for part in output.outputs:
                    num_tokens += len(part.token_ids)
                    num_prompt = len(output.prompt_token_ids)
                    yield Piece(part.text, num_prompt, num_tokens, part.finish_reason)
        finally:
            self._process.run(stream.aclose())


async def _next(stream: RequestStream) -> Any:  # Any: mypy does not know anext's default
    return await anext(stream, None)


class RemoteTalk:
    """A server with the OpenAI API."""

    def __init__(self, url: str, *, model: str | None, api_key: str | None) -> None:
        """Connect, and ask for the model's name where none is given.

        Raises:
            OperatorError: nothing answers, or it is no such server.
        """
        base = base_url(url)
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        try:
            self._client = httpx.Client(
                base_url=base,
                headers=headers,
                timeout=httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S),
            )
        except (httpx.InvalidURL, UnicodeError) as error:
            raise OperatorError(
                f"--url {url!r}: {error}. Give one such as http://host:8000."
            ) from None
        self._url = base
        try:
            self.name = model or self._first_model()
        except BaseException:
            self.close()
            raise

    def chat(self, body: Body) -> Generator[Piece]:
        return self._pieces("/v1/chat/completions", body)

    def complete(self, body: Body) -> Generator[Piece]:
        return self._pieces("/v1/completions", body)

    def close(self) -> None:
        self._client.close()

    def _first_model(self) -> str:
        with _Reaching(self._url):
            answer = self._client.get("/v1/models")
            if answer.is_error:
                raise _refusal(answer)
            return str(answer.json()["data"][0]["id"])

    def _pieces(self, path: str, body: Body) -> Generator[Piece]:
        asked = {
            **body,
            "model": self.name,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        with _Reaching(self._url), self._client.stream("POST", path, json=asked) as answer:
            if answer.is_error:
                answer.read()
                raise _refusal(answer)
            for line in answer.iter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    yield _piece(msgspec.json.decode(line[6:], type=_Chunk))


def base_url(url: str) -> str:
    """The server of ``url``, which may end in a version and leave out http."""
    whole = url if "://" in url else f"http://{url}"
    return whole.rstrip("/").removesuffix("/v1")


class _Reaching:
    """Turns what can go wrong with a connection into one line for the operator."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        match error:
            case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.UnsupportedProtocol():
                raise OperatorError(
                    f"nothing answers at {self._url} ({error}). Start it with 'octavo serve', "
                    "or give another --url."
                ) from None
            case httpx.TransportError():
                raise OctavoError(
                    f"{self._url} broke off: {error or type(error).__name__}"
                ) from None
            case msgspec.MsgspecError() | json.JSONDecodeError() | KeyError() | IndexError():
                raise OperatorError(f"{self._url} does not speak the OpenAI API: {error}") from None
            case _:
                return


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Failure(msgspec.Struct):
    message: str = "the server ended the answer"


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: _Failure | None = None


def _piece(chunk: _Chunk) -> Piece:
    if chunk.error is not None:
        raise OctavoError(chunk.error.message)
    usage = chunk.usage or _Usage()
    text, reason = "", None
    for choice in chunk.choices:
        text += (choice.delta.content if choice.delta else choice.text) or ""
        reason = choice.finish_reason
    return Piece(text, usage.prompt_tokens, usage.completion_tokens, reason)


def _refusal(answer: httpx.Response) -> OctavoError:
    try:
        error = answer.json()["error"]
        return RequestRefused(
            str(error["message"]), param=error.get("param"), code=error.get("code")
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return OctavoError(f"the server answered {answer.status_code}: {answer.text[:200]!r}")
