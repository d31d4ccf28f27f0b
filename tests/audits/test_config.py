from pathlib import Path

import pytest

from divulge._util.folders import choose_run_folder
from divulge.attacks import catalog
from divulge.audits import config, data_sections, model_sections
from divulge.audits.requested_attacks import requested_attacks
from divulge.cli import init
from divulge.errors import SpecError
from divulge.finished_runs.gate import GateSpec

MINIMAL = """
[target]
model = "subject.py:model"
[data]
members = "a.npz"
nonmembers = "b.npz"
"""
IN_TURN = "[leave_one_out]\ntrain = 't'\n"
PREDICTIONS = "[predictions]\nfile = 'p.csv'\n"
ITEMS = "[interactions]\ntranscript = 't'\n"
OWNERS = "[assignment]\ncolluder = 'a'\npredictions = {a = 'a.csv'}\n"

CLAIM = MINIMAL.replace('model"\n', 'model"\n{}\n')


def parse(tmp_path: Path, text: str) -> config.AuditSpec:
    (tmp_path / "audit.toml").write_text(text)
    return config.read_config(tmp_path / "audit.toml")


def test_a_mark_of_windows_at_the_start_is_no_setting(tmp_path: Path) -> None:
    assert parse(tmp_path, "\ufeff" + MINIMAL) == parse(tmp_path, MINIMAL)


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    settings = parse(tmp_path, MINIMAL)
    assert settings.seed == 0
    assert isinstance(settings, config.ModelAuditSpec)
    assert settings.target.batch_size == 1024
    assert requested_attacks(settings, tmp_path) == catalog.default_attacks()


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("my model", "my-model-001"),
        ("health insurance, LightGBM", "health-insurance-LightGBM-001"),
        ("../../evil", "evil-001"),
        ("***", "run-001"),
        ("é" * 100, "é" * 60 + "-001"),
    ],
)
def test_a_run_has_any_name_and_a_folder_what_is_safe_of_it(
    tmp_path: Path, name: str, folder: str
) -> None:
    settings = parse(tmp_path, f'name = "{name}"\n' + MINIMAL)
    assert settings.name == name
    place = choose_run_folder(None, tmp_path / "audit.toml", settings.name, resume=False)
    assert place == tmp_path / "runs" / folder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sed = 1\n" + MINIMAL, r"got 'sed': did you mean 'seed'\?"),
        (MINIMAL + 'referense = "c"', r"'data.referense': did you mean 'reference'"),
        ("[gate]\nfail_abov = {}\n" + MINIMAL, r"did you mean 'fail_above'"),
        ("seed = -1\n" + MINIMAL, "'seed', got -1"),
        ("seed = 1.5\n" + MINIMAL, "'seed', got 1.5"),
        ('name = "a\\nb"\n' + MINIMAL, r"'name'.*: write up to 100 printable characters on one"),
        ("[metrics]\ndelta = 2.0\n" + MINIMAL, "metrics.delta"),
        ("[target]\nmodel = 3\n[data]\nmembers='a'\nnonmembers='b'", "target.model"),
        ("[target]\nmodel = 'm'\n[data]\nmembers='a'", "'data.nonmembers', it is missing"),
        ("[target]\nmodel = 'm'", r"\[target\] and \[data\], or \[predictions\] alone"),
        (MINIMAL + "[predictions]\nfile = 'p.csv'", r"\[predictions\] alone"),
        (PREDICTIONS + "[data]\nmembers = 'm'", r"alone, got \[data\], \[predictions\]"),
        (PREDICTIONS + "[target]\nmodel = 'm'", r"alone, got \[predictions\], \[target\]"),
        (PREDICTIONS + "[shadows]\ntrain = 't'", r"beside \[shadows\], got \[predictions\]"),
        (PREDICTIONS + "[known]\nshare = 0.5", r"beside \[known\], got no \[target\]"),
        (PREDICTIONS.replace("ons]", "on]"), r"got 'prediction': did you mean 'predictions'"),
        (ITEMS + MINIMAL, r"\[interactions\] alone, got \[target\] beside it"),
        (ITEMS + OWNERS, r"alone, got \[assignment\] beside it"),
        (ITEMS + "[gate]\nclaim = true", r"no gate.claim beside \[interactions\]"),
        (IN_TURN + "[data]\nrecords = 'r'\n[gate]\nclaim = true", "here are many"),
        ("seed = 1", "got neither"),
        ("seed = ", "expected TOML"),
        ("attacks = 3\n" + MINIMAL, "attacks"),
        (MINIMAL + "records = 'r'", "expected no key 'data.records'"),
        (IN_TURN, r"\[leave_one_out\] and \[data\] alone, got no \[data\]"),
        (IN_TURN + MINIMAL, r"alone, got \[target\]"),
        (IN_TURN + "[data]\nmembers = 'm'", "'data.nonmembers', it is missing"),
        (IN_TURN + "[data]\nmembers = 'm'\nrecords = 'r'", "expected no key 'data.members'"),
        (IN_TURN + "targts = 3\n[data]\nrecords = 'r'", "did you mean 'targets'"),
        (IN_TURN + "models = 2\n[data]\nrecords = 'r'", "leave_one_out.models"),
        (CLAIM.format("epsilon = 8.0"), "epsilon and delta of the claim together"),
        (CLAIM.format("delta = 1e-5"), "epsilon and delta of the claim together"),
        (CLAIM.format("epsilon = 0.0\ndelta = 1e-5"), "target.epsilon"),
        (CLAIM.format("epsilon = 8.0\ndelta = 1.0"), "target.delta"),
        ("[predictions]\nfile = 'p.csv'\nepsilon = 8.0", "of the claim together"),
    ],
)
def test_a_mistake_is_explained(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse(tmp_path, text)


def test_every_mistake_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        parse(tmp_path, "sed = 1\nnam = 'x'\n" + MINIMAL)
    assert len(str(error.value).splitlines()) == 2


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "line",
    ["[target]\nbudget = {}", "[metrics]\ndelta = {}", "[gate]\nfail_above = {{ auc = {} }}"],
)
def test_a_number_that_is_none_is_refused(tmp_path: Path, line: str, number: str) -> None:
    with pytest.raises(SpecError, match=f"expected a finite number for '.*', got {number}"):
        parse(tmp_path, line.format(number))


@pytest.mark.parametrize(
    ("text", "kind", "about", "attacks"),
    [
        (MINIMAL, config.ModelAuditSpec, "membership", 12),
        (MINIMAL + "[shadows]\ntrain = 't'", config.ModelAuditSpec, "membership", 18),
        (PREDICTIONS, config.PredictionsAuditSpec, "membership", 12),
        (
            IN_TURN + "[data]\nrecords = 'r'",
            config.LeaveOneOutAuditSpec,
            "membership",
            18,
        ),
        (
            "[updates]\ntranscript = 't'\nnetwork = 'n'\nreference = 'r'",
            config.FederationAuditSpec,
            "composition",
            2,
        ),
        (ITEMS, config.FederationAuditSpec, "interactions", 2),
        (OWNERS, config.FederationAuditSpec, "assignment", 4),
    ],
)
def test_sections_say_what_is_audited(
    tmp_path: Path, text: str, kind: type, about: str, attacks: int
) -> None:
    settings = parse(tmp_path, text)
    assert type(settings) is kind
    assert settings.about == about
    assert len(requested_attacks(settings, tmp_path)) == attacks


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ('url = "https://a.example/x"', "expected the key 'target.fingerprint' beside target.url"),
        ('url = "https://a.example/x"\nfingerprint = "1"\nmodel = "m"', "no key 'target.model'"),
        ('url = "https://a.example/x"\nfingerprint = "1"\ndevice = "m"', "no key 'target.device'"),
        ('model = "m"\nhttp = { retries = 1 }', "no key 'target.http' without target.url"),
        ("budget = 3", "expected the key 'target.model'"),
    ],
)
def test_a_model_is_an_object_or_behind_a_url(tmp_path: Path, target: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse(tmp_path, f"[target]\n{target}\n[data]\nmembers='a'\nnonmembers='b'")


def test_a_missing_file_points_to_init(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="divulge init"):
        config.read_config(tmp_path / "none.toml")


def test_attacks_are_built_with_their_settings(tmp_path: Path) -> None:
    text = '[[attacks]]\nname = "threshold"\nsignal = "margin"\nper_class = true\n' + MINIMAL
    assert requested_attacks(parse(tmp_path, text), tmp_path) == (
        catalog.attack("threshold", signal="margin", per_class=True),
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [('name = "xyz"', "known:"), ('signal = "loss"', "name ="), ("name = 3", "name =")],
)
def test_an_attack_that_is_not_there(tmp_path: Path, entry: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        requested_attacks(parse(tmp_path, f"[[attacks]]\n{entry}\n" + MINIMAL), tmp_path)


def test_every_commented_key_of_the_template_is_valid(tmp_path: Path) -> None:
    """The template without its comment marks must still be accepted, section by section."""
    (source, _) = init.write(tmp_path)
    lines = []
    for line in source.read_text().splitlines():
        bare = line.removeprefix("# ")
        is_setting = bare.startswith("[") or " = " in bare.split("#")[0]
        lines.append(bare if line.startswith("# ") and is_setting else line)
    start, end = lines.index("[predictions]"), lines.index("[[attacks]]")
    whole = lines[:start] + lines[end:]
    keys: set[str] = set()
    local = ("model =", "factory ", "device ", "output_name ")
    for other in (("url ", "http "), local):  # never both
        read = parse(tmp_path, "\n".join(line for line in whole if not line.startswith(other)))
        assert isinstance(read, config.ModelAuditSpec)
        keys |= read.target.model_fields_set
    assert isinstance(read, config.ModelAuditSpec)
    assert keys == set(model_sections.TargetSpec.model_fields)
    assert read.data.model_fields_set == set(data_sections.DataSpec.model_fields) - {"records"}
    assert read.shadows is not None
    assert read.shadows.model_fields_set == set(model_sections.ShadowsSpec.model_fields)
    assert read.gate.model_fields_set == set(GateSpec.model_fields)
    keys = set()
    answers = ("probabilities ", "label ", "output ")
    texts = ("logprobs ", "known_members ", "prefix ", "suffix ")
    ways: tuple[tuple[str, ...], ...] = (
        ("loss ", "score ", *texts),
        ("loss ", *texts, *answers),
        ("score ", *texts, *answers),
        ("loss ", "score ", *answers),
    )
    for others in ways:  # one of four
        part = [line for line in lines[start:end] if not line.startswith(others)]
        alone = parse(tmp_path, "\n".join(part))
        assert isinstance(alone, config.PredictionsAuditSpec)
        keys |= alone.predictions.model_fields_set
    missing = set(data_sections.PredictionsSpec.model_fields) - keys
    assert missing == {"class_names"}  # explained under [data] already
