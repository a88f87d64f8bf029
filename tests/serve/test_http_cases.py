"""What real servers got wrong, asked of ours: a tiny model behind real processes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.serve.server import Server, metric

PROMPT = "The quick brown fox"
GREEDY = {"prompt": PROMPT, "temperature": 0, "ignore_eos": True}
CHAT = {"messages": [{"role": "user", "content": "Tell me"}], "temperature": 0}
NAME = "tiny"


@pytest.fixture(scope="module")
def server(tiny_model: str) -> Iterator[Server]:
    flags = ("--served-model-name", NAME, "--max-num-seqs", "8", "--max-waiting-requests", "8")
    server = Server(tiny_model, "--port", "0", "--threads", "1", *flags)
    yield server
    server.kill()


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.await_ready(), timeout=60) as client:
        yield client


def complete(client: httpx.Client, **fields: object) -> Any:
    """One whole completion."""
    answer = client.post("/v1/completions", json=GREEDY | fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def text_of(client: httpx.Client, **fields: object) -> str:
    text: str = complete(client, **fields)["choices"][0]["text"]
    return text


def streamed(client: httpx.Client, path: str, body: dict[str, object]) -> list[Any]:
    """Every event of a stream but the mark."""
    answer = client.post(path, json=body | {"stream": True})
    assert answer.status_code == 200, answer.text
    data = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    assert data[-1] == "[DONE]"
    return [json.loads(item) for item in data[:-1]]


def streamed_text(client: httpx.Client, **fields: object) -> str:
    events = streamed(client, "/v1/completions", GREEDY | fields)
    return "".join(event["choices"][0]["text"] for event in events if event["choices"])


def eventually(claim: Callable[[], bool], within_s: float = 10.0) -> bool:
    deadline = time.monotonic() + within_s
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_no_stop_string_ends_an_answer_before_min_tokens(client: httpx.Client) -> None:
    answer = text_of(client, max_tokens=40)
    stop = answer[5:8]
    assert len(stop) == 3

    early = complete(client, max_tokens=40, stop=stop)
    late = complete(client, max_tokens=40, stop=stop, min_tokens=20)

    assert early["usage"]["completion_tokens"] < 20
    assert early["choices"][0]["stop_reason"] == stop
    assert late["usage"]["completion_tokens"] >= 20


@pytest.mark.parametrize(
    "fields", [{"max_tokens": -1}, {"temperature": -1}, {"prompt": "x" * 2000}, {"top_p": 0}]
)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_a_stream_that_cannot_be_is_a_plain_400(
    client: httpx.Client, path: str, fields: dict[str, object]
) -> None:
    content = fields.get("prompt", "x")
    messages = [{"role": "user", "content": content}]

    answer = client.post(
        path, json={"prompt": PROMPT, "messages": messages, "stream": True} | fields
    )

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_usage_comes_once_and_last_or_never(client: httpx.Client, path: str) -> None:
    body = GREEDY | CHAT | {"max_tokens": 5}

    asked = streamed(client, path, body | {"stream_options": {"include_usage": True}})
    unasked = streamed(client, path, body)

    assert [bool(event.get("usage")) for event in asked] == [False] * (len(asked) - 1) + [True]
    assert asked[-1]["choices"] == []
    assert asked[-1]["usage"]["completion_tokens"] == 5
    assert not any(event.get("usage") for event in unasked)


def test_empty_and_null_fields_change_nothing(client: httpx.Client) -> None:
    names = ("logit_bias", "stop", "tools", "user", "seed", "n", "top_k", "min_p", "logprobs")
    plain = client.post("/v1/chat/completions", json=CHAT | {"max_tokens": 8})
    empty = client.post(
        "/v1/chat/completions",
        json=CHAT | {"max_tokens": 8, "logit_bias": {}, "stop": [], "tools": [], "user": ""},
    )
    nulls = client.post(
        "/v1/chat/completions", json=CHAT | {"max_tokens": 8} | dict.fromkeys(names)
    )

    assert plain.status_code == empty.status_code == nulls.status_code == 200
    texts = {answer.json()["choices"][0]["message"]["content"] for answer in (plain, empty, nulls)}
    assert len(texts) == 1


@pytest.mark.parametrize("token_id", [2**63, -1, 10**9, 100_000, "a", True])
def test_detokenize_refuses_by_name(client: httpx.Client, token_id: object) -> None:
    answer = client.post("/detokenize", json={"tokens": [token_id]})

    assert answer.status_code == 400
    assert "tokens" in answer.json()["error"]["message"]


def test_tokenize_and_detokenize_are_inverse(client: httpx.Client) -> None:
    text = "héllo 🌍\n"
    body = {"prompt": text, "add_special_tokens": False}

    tokens = client.post("/tokenize", json=body).json()
    back = client.post("/detokenize", json={"tokens": tokens["tokens"]}).json()

    assert tokens["count"] == len(tokens["tokens"])
    assert back == {"prompt": text}


def test_logprobs_are_the_models_whatever_the_sampling(client: httpx.Client) -> None:
    def tops(**fields: object) -> dict[str, float]:
        asked = {"logprobs": True, "top_logprobs": 3, "max_tokens": 1, **fields}
        answer = client.post("/v1/chat/completions", json=CHAT | asked)
        [position] = answer.json()["choices"][0]["logprobs"]["content"]
        return {item["token"]: item["logprob"] for item in position["top_logprobs"]}

    greedy = tops(temperature=0)

    assert len(greedy) == 3
    for fields in ({"temperature": 0.3}, {"temperature": 1}, {"temperature": 1.7}, {"top_p": 0.1}):
        assert tops(**fields) == pytest.approx(greedy, abs=1e-5)


@pytest.mark.parametrize("kind", ["whole", "stream"])
def test_a_client_that_hangs_up_frees_its_request(server: Server, kind: str) -> None:
    url = server.await_ready()
    body = GREEDY | {"max_tokens": 400, "stream": kind == "stream"}

    def leave_early() -> None:
        with (
            httpx.Client(base_url=url, timeout=0.3) as leaving,
            leaving.stream("POST", "/v1/completions", json=body) as answer,
        ):
            next(answer.iter_raw())

    if kind == "whole":
        with pytest.raises(httpx.ReadTimeout):
            leave_early()
    else:
        leave_early()

    assert eventually(lambda: metric(url, "num_requests_running") == 0)
    assert metric(url, "kv_cache_usage_perc") == 0


def test_text_held_back_for_half_a_stop_string_is_delivered(client: httpx.Client) -> None:
    answer = text_of(client, max_tokens=20)
    never = answer[-3:] + "\u2603"

    whole = text_of(client, max_tokens=20, stop=never)
    parts = streamed(client, "/v1/completions", GREEDY | {"max_tokens": 20, "stop": never})

    assert whole == answer
    assert "".join(event["choices"][0]["text"] for event in parts) == answer
    assert parts[-1]["choices"][0]["finish_reason"] == "length"
    assert parts[-1]["choices"][0]["text"] == ""


def test_a_model_that_is_not_served_is_a_404(client: httpx.Client) -> None:
    answer = client.post("/v1/completions", json=GREEDY | {"model": "gpt-x"})

    assert answer.status_code == 404
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_all_answers_of_one_prompt_are_counted(client: httpx.Client) -> None:
    answer = complete(client, n=3, max_tokens=7, temperature=1, seed=4)

    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert answer["usage"]["completion_tokens"] == 21
    assert len({choice["text"] for choice in answer["choices"]}) == 3


def test_the_official_client_gets_the_same_text_whole_and_streamed(client: httpx.Client) -> None:
    official = openai.OpenAI(
        api_key="none", base_url=f"{client.base_url}/v1", http_client=client, max_retries=0
    )
    asked = {"model": NAME, "max_tokens": 24, **CHAT}

    whole = official.chat.completions.create(**asked)
    parts = official.chat.completions.create(**asked, stream=True)
    text = "".join(part.choices[0].delta.content or "" for part in parts)

    assert text == whole.choices[0].message.content
    assert whole.usage is not None
    assert whole.usage.completion_tokens <= 24
    assert [model.id for model in official.models.list()] == [NAME]


def test_a_second_equal_prompt_is_read_from_the_cache(client: httpx.Client) -> None:
    prompt = "once upon a time " * 6
    client.post("/reset_prefix_cache")

    cold = complete(client, prompt=prompt, max_tokens=4)
    warm = complete(client, prompt=prompt, max_tokens=4)

    assert cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert warm["usage"]["prompt_tokens_details"]["cached_tokens"] >= 80
    assert warm["choices"] == cold["choices"]


def test_a_salt_keeps_a_prompt_out_of_others_cache(client: httpx.Client) -> None:
    prompt = "a secret of mine " * 6

    complete(client, prompt=prompt, max_tokens=1, cache_salt="mine")
    other = complete(client, prompt=prompt, max_tokens=1, cache_salt="yours")

    assert other["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def test_a_flood_is_refused_with_429_and_what_was_accepted_completes(client: httpx.Client) -> None:
    answers: list[httpx.Response] = []

    def ask() -> None:
        body = GREEDY | {"max_tokens": 60}
        answers.append(httpx.post(f"{client.base_url}/v1/completions", json=body, timeout=60))

    threads = [threading.Thread(target=ask) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    refused = [answer for answer in answers if answer.status_code == 429]
    served = [answer for answer in answers if answer.status_code == 200]
    assert len(refused) + len(served) == 40
    assert len(served) >= 16
    assert refused
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert len({answer.json()["choices"][0]["text"] for answer in served}) == 1


def test_ten_megabytes_of_prompt_are_a_4xx_and_hurt_nobody(client: httpx.Client) -> None:
    answer = client.post("/v1/completions", json={"prompt": "x " * (5 << 20)})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "prompt"
    assert text_of(client, max_tokens=2)


def test_an_empty_prompt_is_a_4xx_or_begins_a_text(client: httpx.Client) -> None:
    for prompt in ("", [], [[]], [""]):
        answer = client.post("/v1/completions", json=GREEDY | {"prompt": prompt, "max_tokens": 2})
        assert answer.status_code in (200, 400)
        if answer.status_code == 400:
            assert answer.json()["error"]["param"].startswith("prompt")
