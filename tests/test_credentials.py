"""Which names and values are taken for keys, and what is left of keys in texts of others."""

import base64
import string

import numpy as np
import pytest

from divulge._util import credentials
from divulge._util.credentials import hide_in_urls, is_key_like, looks_random
from divulge._util.redaction import Redactor
from divulge.errors import SpecError

NAMES_FOR_KEYS = """
key apikey api_key API-KEY apiKey X-Api-Key x-functions-key Ocp-Apim-Subscription-Key code sig
token access_token id_token Private-Token X-Amz-Security-Token X-Amz-Credential X-Amz-Signature
X-Hub-Signature-256 Authorization Proxy-Authorization auth X-Auth Cookie Set-Cookie client_secret
secretKey AWSAccessKeyId password passwd db_password pwd passphrase credentials jwt sas
appid session_id se.sig
""".split()  # noqa: SIM905 (a table of words)
OTHER_NAMES = """
model version max_tokens max_completion_tokens eos_token stop_token_ids pad_token_id signature_name
token_type tokenizer author keywords monkey language_code sort_key output_key temperature logprobs
Content-Type Accept User-Agent X-Request-Source X-Environment lang tenant n top_k
""".split()  # noqa: SIM905 (a table of words)

HONEST = """
meta-llama/Llama-3.1-8B-Instruct gpt-4o-mini-2024-07-18 ViT-B-32__laion2b_s34b_b79k
claude-3-5-sonnet-20241022 TheBloke/Mixtral-8x7B-Instruct-v0.1-GGUF-Q4_K_M
distilbert-base-uncased-finetuned-sst-2-english application/json;charset=utf-8
application/vnd.openxmlformats-officedocument.spreadsheetml.sheet 2026-11-28T17:16:27.123456Z
20261128T171627Z 550e8400-e29b-41d4-a716-446655440000 1764350187123456789
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
projects/123456789012/locations/us-central1/endpoints/4423423423423423 /v2/models/income/infer
MyVeryLongModelNameForServing XLMRobertaForSequenceClassification serving_default
Donaudampfschifffahrtsgesellschaft 2.31.4-rc.1+build.20261128 Mozilla/5.0
arn:aws:sagemaker:eu-central-1:123456789012:endpoint/income bge-m3-q8_0-gguf-v1.5-f16
mixtral-8x22b-instruct-v0.1.Q5_K_M.gguf eva02_large_patch14_448.mim_m38m_ft_in22k_in1k
convnextv2_huge.fcmae_ft_in22k_in1k_512 resnet50x64_clip_gap.openai en-GB,en;q=0.9,de;q=0.8
models:/income/7 ckpt-0000012000-of-0000050000 income-prod-blue-eu-west-1b-canary
""".split()  # noqa: SIM905 (a table of words)
ALPHABETS = {
    "hexadecimal": "0123456789abcdef",
    "small letters and digits": string.ascii_lowercase + string.digits,
    "capital letters and digits": string.ascii_uppercase + "234567",
    "letters": string.ascii_letters,
    "letters and digits": string.ascii_letters + string.digits,
    "base64": string.ascii_letters + string.digits + "+/",
    "base64 for URLs": string.ascii_letters + string.digits + "-_",
}


@pytest.mark.parametrize("name", NAMES_FOR_KEYS)
def test_a_name_for_a_key(name: str) -> None:
    assert is_key_like(name)


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_name_for_something_else(name: str) -> None:
    assert not is_key_like(name)


@pytest.mark.parametrize("value", HONEST)
def test_a_value_that_is_no_key(value: str) -> None:
    assert not looks_random(value)


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_drawn_keys_look_random(alphabet: str) -> None:
    """Of 1,000 keys of 32 characters, 980 at least: figures of the docstring's rule, by trial."""
    draw = np.random.default_rng(0)
    keys = ["".join(draw.choice(list(ALPHABETS[alphabet]), 32)) for _ in range(1000)]
    assert sum(map(looks_random, keys)) >= 980


def test_keys_of_well_known_forms_look_random() -> None:
    draw = np.random.default_rng(1)

    def some(alphabet: str, count: int) -> str:
        return "".join(draw.choice(list(ALPHABETS[alphabet]), count))

    for _ in range(50):
        assert looks_random("sk-proj-" + some("base64 for URLs", 48))
        assert looks_random("ghp_" + some("letters and digits", 36))
        assert looks_random("AIza" + some("base64 for URLs", 35))
        assert looks_random("dapi" + some("hexadecimal", 32))
        assert looks_random("Bearer eyJhbGciOiJIUzI1NiJ9." + some("base64 for URLs", 80))


def test_urls_are_shown_without_user_info_query_and_fragment() -> None:
    text = "at https://me:p@host.example:8/a/b?key=x#y, or //me@host.example/c?d: no"
    assert hide_in_urls(text) == "at https://host.example:8/a/b or //host.example/c no"


@pytest.mark.parametrize("length", [4, 7, 8, 15, 16, 40, 900])
def test_of_a_repeated_key_less_than_a_piece_is_left(length: int) -> None:
    draw = np.random.default_rng(length)
    key = "".join(draw.choice(list(string.ascii_letters + string.digits), length))
    piece = min(8, max(4, length // 2))
    redactor = Redactor([key])
    for start in range(0, length, max(1, length // 20)):
        for end in range(start + piece, length + 1, max(1, length // 20)):
            assert redactor.redact(f"({key[start:end]})") == "(***)"
    for before in range(4):
        coded = base64.b64encode(b"x" * before + b":" + key.encode() + b":y").decode()
        shown = redactor.redact(coded)
        if length >= 8:
            left = base64.b64decode(shown.partition("***")[0][: len(coded) // 4 * 4] + "====")
            assert key[:2].encode() not in left


def test_texts_without_keys_stay_as_they_are() -> None:
    text = "no such model: small%20one, \\u0041 &amp; 100 % of it"
    assert Redactor(["q7Jx2VbK9wZt4RmD8sPa"]).redact(text) == text
    assert Redactor([]).redact(text) == text


def test_where_a_key_is_too_short_to_be_seen_nothing_is_shown() -> None:
    assert Redactor(["a1"]).redact("your key a1 is wrong") == "***"


def test_a_variable_that_is_missing_or_empty_is_named_and_no_value_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KEY", "s3cret")
    assert credentials.fill("Bearer env:KEY", "headers") == ("Bearer s3cret", ("s3cret",))
    for value, got in (("", "got none"), ("s3cret\n", "got one with characters")):
        monkeypatch.setenv("KEY", value)
        with pytest.raises(SpecError, match=f"environment variable KEY for headers, {got}") as odd:
            credentials.fill("Bearer env:KEY", "headers")
        assert "s3cret" not in str(odd.value)
    monkeypatch.delenv("KEY")
    with pytest.raises(SpecError, match="got none"):
        credentials.fill("Bearer env:KEY", "headers")
