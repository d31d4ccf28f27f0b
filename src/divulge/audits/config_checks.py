"""What may not stand together in ``audit.toml``, or is missing there."""

from divulge._util import credentials
from divulge._util.json import JSON
from divulge.audits.data_sections import DataSpec, PredictionsSpec
from divulge.audits.model_sections import HTTPSpec, TargetSpec
from divulge.errors import SpecError
from divulge.targets import http_keys


def check_given(spec: PredictionsSpec, where: str) -> None:
    """Refuse a loss or a score beside the other, or beside what only answers have.

    Args:
        spec: the table, in whose `model_fields_set` is what was set.
        where: the file's name, for messages.

    Raises:
        SpecError: names what is set besides.
    """
    if spec.known_members is not None and spec.logprobs is None:
        raise SpecError(
            f"{where}: expected no known_members without logprobs, got {spec.known_members:g}: an "
            "attack that learns from them needs a model, or the tokens of texts"
        )
    if spec.single is None:
        return
    kind, column = spec.single
    others = ("loss", "score", "logprobs", "probabilities", "label", "output", "class_names")
    if beside := [name for name in others if name != kind and name in spec.model_fields_set]:
        raise SpecError(
            f"{where}: expected no {beside[0]} beside {kind} = {column!r}, got "
            f"{getattr(spec, beside[0])!r}: a table is audited by one loss, one score, the "
            "tokens of texts, or the model's answers; leave out what is not to be audited"
        )


def check_urls(value: JSON, where: str, place: tuple[str, ...]) -> None:
    """Refuse a URL with a key where no URL belongs: what stands there is stored, and shown.

    Raises:
        SpecError: names the place, never the URL.
    """
    if place in (("target", "url"), ("target", "http")):
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            check_urls(inner, where, (*place, key))
    elif isinstance(value, list):
        for inner in value:
            check_urls(inner, where, place)
    elif isinstance(value, str) and "://" in value and credentials.hides_key(value):
        raise SpecError(
            f"{where}: expected no URL with a key in {'.'.join(place)!r}, got one: only target.url "
            "takes an endpoint; fetch a file first, and name it here"
        )


def check_model(target: TargetSpec, where: str) -> None:
    """Refuse a model that is given twice or not at all, and keys of the other kind.

    Raises:
        SpecError: names the keys.
    """
    if target.model is None and target.url is None:
        raise SpecError(f"{where}: expected the key 'target.model', it is missing: add it, or url")
    fixed = {"model", "factory", "device", "output_name"} if target.url is not None else {"http"}
    if given := sorted(fixed & target.model_fields_set):
        beside = "without target.url" if target.url is None else "beside target.url"
        raise SpecError(
            f"{where}: expected no key 'target.{given[0]}' {beside}, got one: a model is either "
            "an object or file of yours, or behind a URL"
        )
    if target.url is not None and not target.fingerprint:
        raise SpecError(
            f"{where}: expected the key 'target.fingerprint' beside target.url, it is missing: "
            "name the version of the model, since nobody can see from outside whether it has "
            "changed; its answers are kept under this name, and not paid for again"
        )
    if target.url is not None:
        _check_keys_of_endpoint(target.url, target.http, where)


def _check_keys_of_endpoint(url: str, http: HTTPSpec, where: str) -> None:
    headers, parameters = http.headers or {}, http.parameters or {}
    try:
        http_keys.check_keys(url, headers, parameters, plain_http=http.plain_http)
    except SpecError as error:
        problem = str(error)
    else:
        return
    raise SpecError(f"{where}: {problem}")


def check_claim(audited: TargetSpec | PredictionsSpec, where: str) -> None:
    """Refuse half a claim, and an assumption about noise without one.

    Raises:
        SpecError: names the keys.
    """
    if (audited.epsilon is None) != (audited.delta is None):
        raise SpecError(
            f"{where}: expected epsilon and delta of the claim together, got one of them: say "
            "delta = 0.0 if the claim has none"
        )
    if audited.noise != "any" and not audited.delta:
        raise SpecError(
            f"{where}: expected epsilon and delta above 0 beside noise = {audited.noise!r}, got "
            f"delta = {audited.delta}: noise says what the claim rests on"
        )


def check_pool_section(data: DataSpec, where: str) -> None:
    """Refuse other data than all records at once, or members and non-members to be joined.

    Raises:
        SpecError: a key is missing, or too much.
    """
    if data.membership is not None:
        raise SpecError(
            f"{where}: expected no key 'data.membership', got {data.membership!r}: here divulge "
            "decides who is a member, by a coin for each record and model"
        )
    if data.known_members is not None:
        raise SpecError(
            f"{where}: expected no key 'data.known_members', got {data.known_members:g}: each of "
            "several models has members of its own; audit one of them with [target]"
        )
    if data.strata is not None:
        raise SpecError(
            f"{where}: expected no key 'data.strata', got {data.strata!r}: exposure is compared by "
            "subpopulation on one model alone; audit one of them with [target]"
        )
    if data.records is None:
        check_keys(data, where, wanted=("members", "nonmembers"), unwanted=())
    else:
        check_keys(data, where, wanted=(), unwanted=("members", "nonmembers"))


def check_keys(
    data: DataSpec, where: str, wanted: tuple[str, ...], unwanted: tuple[str, ...]
) -> None:
    """Refuse data without the keys that are wanted, or with others.

    Raises:
        SpecError: names the keys.
    """
    for key in wanted:
        if getattr(data, key) is None:
            raise SpecError(f"{where}: expected the key 'data.{key}', it is missing: add it")
    for key in unwanted:
        if getattr(data, key) is not None:
            raise SpecError(
                f"{where}: expected no key 'data.{key}', got {getattr(data, key)!r}: either "
                "members and nonmembers, or with [leave_one_out] records alone"
            )
