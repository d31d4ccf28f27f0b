"""Packs of evidence: what is in them, that they are checked, and the format of signatures."""

import base64
import functools
import hashlib
import importlib
import io
import json
import random
import shutil
import signal
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import divulge
from divulge.errors import SpecError, StoreError
from divulge.exports.evidence import minisign, pack, reproduce
from divulge.exports.trackers.tracked import gather_figures, name_figures
from divulge.finished_runs.finished_run import load
from tests.exports import finished

PASSWORD = "not a secret"  # noqa: S105 (of keys that are made here)
DAMAGED = 200


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A small run of a kind, made once by the real writers, with a stand-in for its report."""
    return finished.make_runs(tmp_path_factory, report=True)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with keys that another library made: one with a password, one of somebody else."""
    theirs = pytest.importorskip("minisign")
    folder = tmp_path_factory.mktemp("keys")
    for name in ("mine", "other"):
        pair = theirs.KeyPair.generate()
        pair.secret_key.encrypt(PASSWORD)
        (folder / f"{name}.key").write_bytes(bytes(pair.secret_key))
        (folder / f"{name}.pub").write_bytes(bytes(pair.public_key))
    return folder


@pytest.fixture(scope="module")
def signed(make: Callable[[str], Path], keys: Path) -> Path:
    """A signed pack."""
    place = keys / "signed.zip"
    return divulge.evidence(make("run-membership"), place, key=keys / "mine.key", password=PASSWORD)


call = functools.partial(finished.call, "evidence")


def read(place: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(place) as held:
        return {name: held.read(name) for name in held.namelist()}


def test_a_pack_holds_the_report_and_no_record(make: Callable[[str], Path], tmp_path: Path) -> None:
    run, place = make("run-membership"), tmp_path / "pack.zip"
    call(run, "--pack", place)
    found = load(run)
    told = divulge.check_evidence(place).manifest
    assert told.figures == name_figures(gather_figures(found))
    assert {"annex.html", "settings.json", "reproduce.py", found.page} <= told.files.keys()
    assert {"run.json"} <= told.run.keys()
    assert not {name for name in told.files if "exposed" in name or name.endswith(".npz")}
    files = read(place)
    annex = files["evidence/annex.html"].decode()
    for headline in told.verdicts.values():
        assert headline.split("'")[0] in annex
    assert "What this does not say" in annex
    assert "Not signed" in call(place, "--verify").stdout
    before = place.read_bytes()
    call(run, "--pack", place)
    assert place.read_bytes() == before


def test_another_library_takes_our_signature_and_we_take_theirs(signed: Path, keys: Path) -> None:
    theirs = pytest.importorskip("minisign")
    files = read(signed)
    message = files["evidence/manifest.json"]
    signature = theirs.Signature.from_bytes(files["evidence/manifest.json.minisig"])
    public = theirs.PublicKey.from_file(keys / "mine.pub")
    public.verify(message, signature)
    with pytest.raises(theirs.VerifyError):
        public.verify(message + b" ", signature)
    assert theirs.PublicKey.from_bytes(files["evidence/minisign.pub"]).to_base64() == (
        public.to_base64()
    )
    secret = theirs.SecretKey.from_file(keys / "mine.key")
    secret.decrypt(PASSWORD)
    ours = minisign.read_public_key((keys / "mine.pub").read_bytes(), "mine.pub")
    for prehash in (True, False):
        made = secret.sign(b"text", prehash=prehash, trusted_comment="told")
        assert minisign.verify(b"text", bytes(made), ours) == "told"
        with pytest.raises(StoreError, match="changed after it was signed"):
            minisign.verify(b"texts", bytes(made), ours)
        odd = bytes(made).replace(b"trusted comment: told", b"trusted comment: sold")
        with pytest.raises(StoreError, match="changed after it was signed"):
            minisign.verify(b"text", odd, ours)


def test_a_pack_says_who_signed_it_and_refuses_another(
    signed: Path, make: Callable[[str], Path], keys: Path, tmp_path: Path
) -> None:
    known = divulge.check_evidence(signed, public_key=keys / "mine.pub")
    assert known.is_known
    assert known.comment.startswith("divulge evidence of ")
    assert (
        "Signed by your key" in call(signed, "--verify", "--public-key", keys / "mine.pub").stdout
    )
    assert "came with the pack" in call(signed, "--verify").stdout
    other = call(signed, "--verify", "--public-key", keys / "other.pub", code=2)
    assert "got one by" in other.stderr
    plain = divulge.evidence(make("run-membership"), tmp_path / "plain.zip")
    bare = call(plain, "--verify", "--public-key", keys / "mine.pub", code=2)
    assert "not signed" in bare.stderr


def test_keys_that_cannot_be_used_leave_no_pack(
    make: Callable[[str], Path], keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, place = make("run-membership"), tmp_path / "pack.zip"
    monkeypatch.setenv("DIVULGE_MINISIGN_PASSWORD", "wrong")
    refused = call(run, "--pack", place, "--key", keys / "mine.key", code=2)
    assert "got another: try again" in refused.stderr
    with pytest.raises(SpecError, match="got none"):
        divulge.evidence(run, place, key=keys / "mine.key")
    for content in (b"", b"untrusted comment: x\nRWQ=\n", b"\xff\n\xff\n"):
        (tmp_path / "bad.key").write_bytes(content)
        assert (
            "a secret key"
            in call(run, "--pack", place, "--key", tmp_path / "bad.key", code=2).stderr
        )
    assert "outside" in call(run, "--pack", run / "pack.zip", code=2).stderr
    assert not place.exists()
    assert [one.name for one in tmp_path.iterdir()] == ["bad.key"]
    monkeypatch.setenv("DIVULGE_MINISIGN_PASSWORD", PASSWORD)
    call(run, "--pack", place, "--key", keys / "mine.key")
    assert divulge.check_evidence(place, public_key=keys / "mine.pub").is_known


def test_a_key_without_a_password_signs_too(make: Callable[[str], Path], tmp_path: Path) -> None:
    pair = pytest.importorskip("minisign").KeyPair.generate()
    lines = bytes(pair.secret_key).splitlines()
    raw = bytearray(base64.b64decode(lines[1]))
    raw[2:4] = b"\0\0"
    content = b"\n".join([lines[0], base64.b64encode(bytes(raw))])
    (tmp_path / "bare.key").write_bytes(content)
    (tmp_path / "bare.pub").write_bytes(bytes(pair.public_key))
    place = tmp_path / "pack.zip"
    call(make("run-membership"), "--pack", place, "--key", tmp_path / "bare.key")
    assert divulge.check_evidence(place, public_key=tmp_path / "bare.pub").is_known


@pytest.mark.parametrize(
    "kind", ["run-membership", "run-in-turn", "run-comparison", "run-assignment"]
)
def test_a_pack_of_every_kind_of_run_has_the_listed_files(
    kind: str, make: Callable[[str], Path], tmp_path: Path
) -> None:
    place = divulge.evidence(make(kind), tmp_path / "pack.zip")
    names = {name.removeprefix(pack.FOLDER) for name in read(place)}
    assert pack.ALWAYS <= names <= pack.NAMES
    assert divulge.check_evidence(place).manifest.files.keys() == names - {pack.MANIFEST}


def test_a_check_says_what_it_computed_and_what_it_believed(
    signed: Path, make: Callable[[str], Path], tmp_path: Path
) -> None:
    parts = divulge.check_evidence(signed).parts
    assert parts["signature"] == "recomputed"
    assert parts["reproduce.py"] == "compared"
    assert parts["report.html"] == parts["annex.html"] == "digest only"
    assert parts["figures and verdicts"] == "not checked"
    said = call(signed, "--verify").stdout
    assert "Recomputed: digests of files, signature\nCompared: reproduce.py\n" in said
    assert "Not checked: figures and verdicts, run folder" in said
    plain = divulge.evidence(make("run-membership"), tmp_path / "plain.zip")
    assert "signature" not in divulge.check_evidence(plain).parts


def test_the_script_of_this_version_is_among_those_that_a_check_takes() -> None:
    script = Path(reproduce.__file__).read_bytes()
    assert hashlib.sha256(script).hexdigest() in pack.SCRIPTS


def test_the_script_of_earlier_packs_finds_what_it_asks_for(
    make: Callable[[str], Path],
) -> None:
    script = Path(reproduce.__file__).read_bytes()
    earlier = script.replace(b"divulge.exports.evidence", b"divulge.audits.evidence")
    assert hashlib.sha256(earlier).hexdigest() in pack.SCRIPTS
    found = importlib.import_module("divulge.audits.evidence.pack").describe_run(
        make("run-membership")
    )
    assert found == pack.describe_run(make("run-membership"))


def repack(files: dict[str, bytes], **changes: bytes) -> bytes:
    """A pack that somebody has made anew without a key: its manifest agrees with its files."""
    kept = {**files, **changes}
    told = json.loads(kept.pop(pack.MANIFEST))
    for name in (pack.SIGNATURE, pack.PUBLIC):
        kept.pop(name, None)
    told["files"] = {
        name: {"bytes": len(one), "sha256": hashlib.sha256(one).hexdigest()}
        for name, one in kept.items()
    }
    return pack.pack_files({**kept, pack.MANIFEST: json.dumps(told).encode()})


@pytest.mark.parametrize(
    "changes",
    [
        {"../../../x": b"x"},
        {"/etc/x": b"x"},
        {"folder/annex.html": b"x"},
        {"exposed.csv": b"id"},
        {"reproduce.py": b"print('all is well')"},
        {"settings.json": b'{"seed": NaN}'},
        {"settings.json": b'{"seed": [-Infinity]}'},
        {"settings.json": b'{"seed": 1e999}'},
        {"settings.json": b'{"seed": 1, "seed": 2}'},
        {"summary.json": b'{"a": {"b": 1, "b": 1}}'},
        {"summary.json": b"[" * 100_000 + b"]" * 100_000},
        {"summary.json": b"\xff\xfe{\x00}\x00"},
    ],
)
def test_a_pack_made_anew_holds_only_what_divulge_would_write(
    changes: dict[str, bytes], signed: Path, tmp_path: Path
) -> None:
    files = {name.removeprefix(pack.FOLDER): one for name, one in read(signed).items()}
    place = tmp_path / "pack.zip"
    place.write_bytes(repack(files))
    assert divulge.check_evidence(place).signed_by is None
    place.write_bytes(repack(files, **changes))
    assert "expected" in call(place, "--verify", code=2).stderr


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"figures": {', '"figures": {"gap/auc": NaN, '),
        ('"figures": {', '"figures": {"gap/auc": 1e999, '),
        ('"figures": {', '"figures": {"gap/auc": "NaN", '),
        ('"figures": {', '"figures": {"gap/auc": true, '),
        ('"schema": 1', '"schema": 2, "schema": 1'),
        ('"run": {', '"run": {"../x": {"bytes": 1, "sha256": "' + "0" * 64 + '"}, '),
        ('"run": {', '"run": {"x": {"bytes": -1, "sha256": "' + "0" * 64 + '"}, '),
        ('"run": {', '"run": {"x": {"bytes": 1, "sha256": "0"}, '),
    ],
)
def test_a_manifest_with_a_doubtful_value_is_refused(
    old: str, new: str, signed: Path, tmp_path: Path
) -> None:
    files = {name.removeprefix(pack.FOLDER): one for name, one in read(signed).items()}
    text = files.pop(pack.MANIFEST).decode()
    del files[pack.SIGNATURE], files[pack.PUBLIC]
    assert text.count(old) == 1
    content = pack.pack_files({**files, pack.MANIFEST: text.replace(old, new).encode()})
    (tmp_path / "pack.zip").write_bytes(content)
    call(tmp_path / "pack.zip", "--verify", code=2)


def test_a_pack_with_half_a_signature_or_without_its_report_is_refused(
    signed: Path, tmp_path: Path
) -> None:
    files = {name.removeprefix(pack.FOLDER): one for name, one in read(signed).items()}
    for name in (pack.SIGNATURE, pack.PUBLIC, pack.SCRIPT, "report.html"):
        left = {other: one for other, one in files.items() if other != name}
        (tmp_path / "pack.zip").write_bytes(pack.pack_files(left))
        call(tmp_path / "pack.zip", "--verify", code=2)


def test_no_text_of_a_pack_can_print_a_line_of_ours(signed: Path, tmp_path: Path) -> None:
    files = {name.removeprefix(pack.FOLDER): one for name, one in read(signed).items()}
    told = json.loads(files[pack.MANIFEST])
    told["name"] = told["verdicts"][""] = "x\nSigned by your key 1"
    place = tmp_path / "pack.zip"
    place.write_bytes(repack(files, **{pack.MANIFEST: json.dumps(told).encode()}))
    said = call(place, "--verify").stdout
    assert said.count("Signed by your key 1") == 2
    assert "\nSigned" not in said


def test_a_run_with_a_figure_that_is_not_finite_gives_no_pack(
    make: Callable[[str], Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(make("run-membership"), run)
    (run / "summary.json").write_text('{"auc": NaN}')
    assert "NaN" in call(run, "--pack", tmp_path / "pack.zip", code=2).stderr
    assert not (tmp_path / "pack.zip").exists()


def write_many(packed: zipfile.ZipFile) -> None:
    for k in range(3000):
        packed.writestr(f"{k}", b"")


def hostile(files: dict[str, bytes]) -> dict[str, bytes]:
    """Packs that somebody wrote by hand, by what is wrong with them."""

    def write(change: Callable[[zipfile.ZipFile], object]) -> bytes:
        made = io.BytesIO()
        with warnings.catch_warnings(), zipfile.ZipFile(made, "w") as packed:
            warnings.simplefilter("ignore")  # a name that stands twice
            for name, content in sorted(files.items()):
                packed.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
            change(packed)
        return made.getvalue()

    link = zipfile.ZipInfo("evidence/annex2.html", (1980, 1, 1, 0, 0, 0))
    link.external_attr = 0o120777 << 16
    return {
        "twice": write(lambda packed: packed.writestr("evidence/annex.html", b"other")),
        "outside": write(lambda packed: packed.writestr("evidence/../../x", b"x")),
        "absolute": write(lambda packed: packed.writestr("/etc/x", b"x")),
        "link": write(lambda packed: packed.writestr(link, b"/etc/passwd")),
        "more": write(lambda packed: packed.writestr("evidence/more.html", b"x")),
        "many": write(write_many),
        "bomb": write(
            lambda packed: packed.writestr("evidence/big", bytes(2**24), zipfile.ZIP_DEFLATED)
        ),
        "empty": b"",
        "text": b"no zip file",
    }


def test_hostile_packs_are_refused_and_nothing_is_written(signed: Path, tmp_path: Path) -> None:
    for wrong, content in hostile(read(signed)).items():
        (tmp_path / "pack.zip").write_bytes(content)
        with pytest.raises(StoreError):
            divulge.check_evidence(tmp_path / "pack.zip")
        assert [one.name for one in tmp_path.iterdir()] == ["pack.zip"], wrong
    (tmp_path / "pack.zip").unlink()
    (tmp_path / "pack.zip").mkdir()
    with pytest.raises(StoreError, match="got a folder"):
        divulge.check_evidence(tmp_path / "pack.zip")


def test_a_pack_of_ours_with_other_content_is_refused(signed: Path, tmp_path: Path) -> None:
    files = {name.removeprefix(pack.FOLDER): one for name, one in read(signed).items()}
    place = tmp_path / "pack.zip"
    for change in (
        {"annex.html": b"all is well"},
        {"more.html": b"more"},
        {"manifest.json": files["manifest.json"].replace(b'"name"', b'"nam"')},
        {"manifest.json": files["manifest.json"] + b" "},  # whole, but not what was signed
        {"minisign.pub": b"no key"},
    ):
        place.write_bytes(pack.pack_files({**files, **change}))
        with pytest.raises(StoreError):
            divulge.check_evidence(place)
    place.write_bytes(pack.pack_files(files))
    assert divulge.check_evidence(place).signed_by


def test_no_damaged_pack_passes(signed: Path, tmp_path: Path) -> None:
    whole, place = signed.read_bytes(), tmp_path / "pack.zip"
    rng = random.Random(1)  # noqa: S311
    for _ in range(DAMAGED):
        content = bytearray(whole)
        kind = rng.randrange(4)
        start = rng.randrange(len(content))
        if kind == 0:
            content[start] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del content[start:]
        elif kind == 2:
            content[start:start] = rng.randbytes(rng.randrange(1, 40))
        else:  # near the end, where the directory of a zip file is
            place_of = len(content) - 1 - rng.randrange(900)
            content[place_of] ^= rng.randrange(1, 256)
        place.write_bytes(bytes(content))
        with pytest.raises(StoreError):
            divulge.check_evidence(place)


def test_a_kill_leaves_nothing_under_the_final_name(
    make: Callable[[str], Path], tmp_path: Path
) -> None:
    place = tmp_path / "pack.zip"
    code = (
        "import divulge; from tests.killing import kill_before_writing as kill\n"
        f"kill('pack.zip'); divulge.evidence({str(make('run-membership'))!r}, {str(place)!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not place.exists()


def test_the_script_repeats_the_audit_and_sees_another_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{k % 2},{(k % 10) / 10},{1 - (k % 10) / 10},{int(k < 60)}" for k in range(120)]
    (tmp_path / "answers.csv").write_text("\n".join(["label,p_0,p_1,member", *rows]) + "\n")
    settings = tmp_path / "audit.toml"
    settings.write_text('attacks = [{ name = "gap" }]\n[predictions]\nfile = "answers.csv"\n')
    divulge.audit_file(settings, tmp_path / "run")
    divulge.evidence(tmp_path / "run", tmp_path / "pack.zip")
    with zipfile.ZipFile(tmp_path / "pack.zip") as held:
        held.extractall(tmp_path)
    script = tmp_path / "evidence" / "reproduce.py"
    assert script.read_bytes() == Path(reproduce.__file__).read_bytes()
    monkeypatch.setattr(reproduce, "__file__", str(script))
    assert reproduce.main(str(settings), str(tmp_path / "again")) == 0
    assert "same  gap/auc 0." in capsys.readouterr().out
    (tmp_path / "answers.csv").write_text("\n".join(["label,p_0,p_1,member", *rows[::2]]) + "\n")
    assert reproduce.main(str(settings), str(tmp_path / "other")) == 1
    assert "is another" in capsys.readouterr().out


def test_a_damaged_key_without_a_password_is_refused(tmp_path: Path) -> None:
    pair = pytest.importorskip("minisign").KeyPair.generate()
    comment, line = bytes(pair.secret_key).splitlines()
    raw = bytearray(base64.b64decode(line))
    raw[-50] ^= 1  # of the public key
    (tmp_path / "damaged.key").write_bytes(comment + b"\n" + base64.b64encode(bytes(raw)))
    with pytest.raises(SpecError, match="expected a secret key"):
        minisign.read_secret_key(tmp_path / "damaged.key", None)


def test_a_comment_holds_what_minisign_takes(keys: Path) -> None:
    secret = minisign.read_secret_key(keys / "mine.key", PASSWORD)
    signature = minisign.sign(b"text", secret, "evidence of Größe")
    public = minisign.read_public_key((keys / "mine.pub").read_bytes(), "mine.pub")
    assert minisign.verify(b"text", signature, public) == r"evidence of Gr\xf6\xdfe"
