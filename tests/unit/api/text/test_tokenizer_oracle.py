"""Tokenizers read from real GGUF files, against transformers reading the same files."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from octavo.api.frontend.detokenizer import Detokenizer
from octavo.api.text.loading import load_tokenizer
from octavo.api.text.tokenizer import Tokenizer
from tests.real_models import demo_model, qwen_model
from tests.unit.api.text.random_text import random_text

pytestmark = pytest.mark.slow

MODELS = {"smollm2": demo_model, "qwen2.5": qwen_model}


@cache
def mine(path: Path) -> Tokenizer:
    return load_tokenizer(str(path))


@cache
def theirs(path: Path) -> PreTrainedTokenizerFast:
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    if "smollm" in path.name.lower():
        # the file names the rule "smollm", which transformers does not read from it; this is
        # the rule as the model's own tokenizer.json has it
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
    return tokenizer


@pytest.fixture(params=MODELS)
def path(request: pytest.FixtureRequest) -> Path:
    return MODELS[request.param]()


@pytest.mark.parametrize("seed", range(3))
def test_text_becomes_the_same_token_ids_and_comes_back(path: Path, seed: int) -> None:
    rng, tokenizer, oracle = random.Random(seed), mine(path), theirs(path)
    for _ in range(1000):
        text = random_text(rng)
        token_ids = tokenizer.encode(text, add_special_tokens=True)

        assert token_ids == oracle.encode(text, add_special_tokens=True)
        assert token_ids == tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(token_ids) == text


@pytest.mark.parametrize("skip", [False, True])
def test_random_token_ids_decode_the_same_whole_and_in_pieces(path: Path, *, skip: bool) -> None:
    rng, tokenizer, oracle = random.Random(7), mine(path), theirs(path)
    special = sorted(tokenizer.special_ids)
    table = tokenizer.shown_bytes if skip else tokenizer.token_bytes
    for _ in range(1500):
        token_ids = [
            rng.choice(special) if rng.random() < 0.1 else rng.randrange(len(oracle))
            for _ in range(rng.randrange(40))
        ]
        whole = oracle.decode(
            token_ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False
        )

        detokenizer, pieces = Detokenizer(table), list[str]()
        for token_id in token_ids:
            detokenizer.push([token_id])
            pieces.append(detokenizer.take())
        detokenizer.finish()

        assert tokenizer.decode(token_ids, skip_special_tokens=skip) == whole
        assert "".join(pieces) + detokenizer.take() == whole


def test_a_saved_folder_reads_as_the_file_it_came_from(path: Path, tmp_path: Path) -> None:
    rng, oracle = random.Random(11), theirs(path)
    oracle.save_pretrained(tmp_path)

    tokenizer = load_tokenizer(str(tmp_path))

    assert tokenizer.special_ids == mine(path).special_ids
    assert tokenizer.special_tokens["eos_token"] == oracle.eos_token
    assert tokenizer.chat_templates == mine(path).chat_templates
    for _ in range(300):
        text = random_text(rng)
        assert tokenizer.encode(text, add_special_tokens=True) == oracle.encode(text)


def test_reading_a_long_text_lets_other_threads_run(path: Path) -> None:
    text, tokenizer = "".join(random_text(random.Random(i)) for i in range(2000)), mine(path)
    num_turns = 0

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(tokenizer.encode, text, add_special_tokens=False)
        while not reading.done():
            time.sleep(0)
            num_turns += 1

    assert num_turns > 50


def test_roles_and_templates_come_from_the_file(path: Path) -> None:
    tokenizer, oracle = mine(path), theirs(path)

    assert tokenizer.special_tokens["eos_token"] == oracle.eos_token
    assert tokenizer.special_tokens["bos_token"] == oracle.bos_token
    assert tokenizer.chat_templates["default"] == oracle.chat_template
