"""Every sampling field through HTTP: does it do to a real answer what it says?"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.serve.server import Server

BASE = {"prompt": "The quick brown fox", "max_tokens": 16, "ignore_eos": True}


@pytest.fixture(scope="module")
def client(tiny_model: str) -> Iterator[httpx.Client]:
    server = Server(tiny_model, "--port", "0", "--threads", "1", "--max-num-seqs", "8")
    try:
        with httpx.Client(base_url=server.await_ready(), timeout=60) as client:
            yield client
    finally:
        server.kill()


def choice(client: httpx.Client, **fields: object) -> Any:
    """The first answer."""
    answer = client.post("/v1/completions", json=BASE | {"temperature": 0} | fields)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


def ids(client: httpx.Client, text: str) -> list[int]:
    body = {"prompt": text, "add_special_tokens": False}
    found: list[int] = client.post("/tokenize", json=body).json()["tokens"]
    return found


def test_temperature_zero_is_greedy_and_repeatable(client: httpx.Client) -> None:
    texts = {choice(client)["text"] for _ in range(3)}

    assert len(texts) == 1


def test_a_low_top_k_or_top_p_is_greedy_too(client: httpx.Client) -> None:
    greedy = choice(client)["text"]

    assert choice(client, temperature=1, top_k=1)["text"] == greedy
    assert choice(client, temperature=1, top_p=1e-6)["text"] == greedy
    assert choice(client, temperature=1, min_p=1)["text"] == greedy


def test_a_seed_gives_the_same_text_alone_and_in_a_crowd(client: httpx.Client) -> None:
    def seeded(seed: int) -> str:
        text: str = choice(client, temperature=1, seed=seed)["text"]
        return text

    alone = [seeded(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        crowd = list(pool.map(seeded, range(6)))

    assert crowd == alone
    assert len(set(alone)) > 1


def test_without_a_seed_answers_differ(client: httpx.Client) -> None:
    texts = {choice(client, temperature=1.5)["text"] for _ in range(5)}

    assert len(texts) > 1


def test_only_allowed_tokens_come(client: httpx.Client) -> None:
    allowed = ids(client, "abc")

    assert set(choice(client, allowed_token_ids=allowed, temperature=1)["text"]) <= set("abc")


def test_a_strong_bias_forces_and_forbids_a_token(client: httpx.Client) -> None:
    [token_id] = ids(client, "z")
    forced = choice(client, logit_bias={str(token_id): 100})["text"]
    [first] = ids(client, choice(client, max_tokens=1)["text"])[:1]

    assert forced == "z" * 16
    forbidden = choice(client, logit_bias={str(first): -100}, max_tokens=1)["text"]
    assert ids(client, forbidden)[:1] != [first]


def test_bad_words_do_not_come(client: httpx.Client) -> None:
    allowed = ids(client, "ab")
    fields = {"allowed_token_ids": allowed, "temperature": 1, "max_tokens": 64, "seed": 1}

    assert "ab" in choice(client, **fields)["text"]
    assert "ab" not in choice(client, **fields, bad_words=["ab"])["text"]


def test_penalties_change_what_repeats(client: httpx.Client) -> None:
    allowed = ids(client, "abcdefghijkl")
    fields = {"allowed_token_ids": allowed, "max_tokens": 12}

    def distinct(**penalty: float) -> int:
        return len(set(choice(client, **fields, **penalty)["text"]))

    plain = distinct()
    assert plain < 12
    assert distinct(presence_penalty=2.0, frequency_penalty=2.0) > plain
    assert distinct(repetition_penalty=50.0) > plain


def test_stop_strings_are_cut_off_or_kept(client: httpx.Client) -> None:
    text = choice(client)["text"]
    stop = text[6:9]
    before = text[: text.index(stop)]

    cut = choice(client, stop=[stop, "\u2603"])
    kept = choice(client, stop=stop, include_stop_str_in_output=True)

    assert (cut["text"], cut["finish_reason"], cut["stop_reason"]) == (before, "stop", stop)
    assert kept["text"] == before + stop


def test_a_stop_token_ends_the_answer(client: httpx.Client) -> None:
    [token_id] = ids(client, "z")
    stopped = choice(client, logit_bias={str(token_id): 100}, stop_token_ids=[token_id])

    assert stopped["finish_reason"] == "stop"
    assert stopped["stop_reason"] == token_id


def test_min_tokens_holds_off_a_stop_token(client: httpx.Client) -> None:
    [token_id] = ids(client, "z")
    fields = {"logit_bias": {str(token_id): 50}, "stop_token_ids": [token_id], "min_tokens": 5}
    answer = client.post("/v1/completions", json=BASE | {"temperature": 0} | fields).json()

    assert answer["usage"]["completion_tokens"] >= 5


def test_the_end_of_text_ends_an_answer_unless_ignored(client: httpx.Client) -> None:
    eos = {"logit_bias": {"1": 100}}

    ended = choice(client, **eos, ignore_eos=False)
    ignored = choice(client, **eos, ignore_eos=True, skip_special_tokens=False)

    assert (ended["text"], ended["finish_reason"], ended["stop_reason"]) == ("", "stop", None)
    assert ignored["text"] == "</s>" * 16
    assert choice(client, **eos, ignore_eos=True)["text"] == ""


def test_only_the_last_tokens_of_a_truncated_prompt_are_read(client: httpx.Client) -> None:
    prompt = ids(client, "some words that come before the quick brown fox")
    short = choice(client, prompt=prompt[-9:])["text"]

    answer = client.post(
        "/v1/completions",
        json=BASE | {"temperature": 0, "prompt": prompt, "truncate_prompt_tokens": 9},
    ).json()

    assert answer["choices"][0]["text"] == short
    assert answer["usage"]["prompt_tokens"] == 9


def test_text_and_token_prompts_are_the_same_prompt(client: httpx.Client) -> None:
    texts = ["one two", "three"]
    tokens = [ids(client, text) for text in texts]

    by_text = client.post("/v1/completions", json=BASE | {"temperature": 0, "prompt": texts})
    by_tokens = client.post("/v1/completions", json=BASE | {"temperature": 0, "prompt": tokens})

    assert by_text.json()["choices"] == by_tokens.json()["choices"]


def test_echoed_logprobs_cover_the_prompt(client: httpx.Client) -> None:
    echoed = choice(client, echo=True, logprobs=2, max_tokens=4)

    columns = echoed["logprobs"]
    assert "".join(columns["tokens"]) == echoed["text"]
    assert columns["token_logprobs"][0] is None
    assert all(value <= 0 for value in columns["token_logprobs"][1:])
    assert all(2 <= len(top) <= 3 for top in columns["top_logprobs"][1:])


def test_a_greedy_token_is_the_most_likely_of_its_logprobs(client: httpx.Client) -> None:
    columns = choice(client, logprobs=3)["logprobs"]

    for token, value, top in zip(
        columns["tokens"], columns["token_logprobs"], columns["top_logprobs"], strict=True
    ):
        assert value == max(top.values())
        assert top[token] == value


def test_prompt_logprobs_have_a_row_per_token(client: httpx.Client) -> None:
    answer = client.post(
        "/v1/completions", json=BASE | {"temperature": 0, "prompt_logprobs": 1}
    ).json()

    rows = answer["choices"][0]["prompt_logprobs"]
    assert len(rows) == answer["usage"]["prompt_tokens"]
    assert rows[0] is None
    assert all(1 <= len(row) <= 2 for row in rows[1:])


def test_bounds_of_the_model_are_named(client: httpx.Client) -> None:
    for field, value in (
        ("logprobs", 21),
        ("prompt_logprobs", 21),
        ("stop_token_ids", [10**6]),
        ("allowed_token_ids", [10**6]),
        ("allowed_token_ids", []),
        ("logit_bias", {"1000000": 1}),
        ("max_tokens", 10**6),
        ("min_tokens", 17),
        ("stop", [""]),
        ("truncate_prompt_tokens", 0),
        ("prompt", [10**6]),
    ):
        answer = client.post("/v1/completions", json=BASE | {field: value})
        assert answer.status_code == 400, (field, value, answer.text)
        assert field in answer.json()["error"]["message"]


def test_priority_is_taken(client: httpx.Client) -> None:
    assert choice(client, priority=-3)["text"] == choice(client, priority=3)["text"]
