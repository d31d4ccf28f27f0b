"""Records on a page: none unless asked for, then images beside their originals."""

import base64
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import divulge
from divulge.audits.challenges import images as challenges_images
from divulge.cli.main import main
from divulge.core import Round
from divulge.data import interactions
from divulge.defences.updates.compose import no_defence
from divulge.errors import SpecError, StoreError
from divulge.federation.search import images, models
from divulge.federation.transcript import writer

from .. import resealed
from ..kinds import audit_federation, load_federation

image = pytest.importorskip("PIL.Image", reason="needs pillow")
RNG = np.random.default_rng(0)
ORIGINAL = RNG.integers(0, 256, (12, 3, 8, 8)).astype(np.uint8)
VERSIONS = np.stack([255 - ORIGINAL, ORIGINAL // 2], axis=1)
IMAGES = images.ImageVersions(ORIGINAL, VERSIONS, RNG.normal(size=(12, 2, 16)).clip(min=0))
SETTINGS = """
[interactions]
transcript = "{}"
learner = "subject.py:learner"
truth = "upvotes.csv"
"""


def played() -> tuple[Round, dict[str, np.ndarray]]:
    weights = models.ranker(16, 0, torch.Generator().manual_seed(0))
    return images.simulate_upvote_round(
        weights, IMAGES, 6, 10, no_defence(), np.random.default_rng(0)
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    learner = "from divulge.federation.search import images\ndef learner(handed):\n"
    (folder / "subject.py").write_text(learner + "    return images.UPVOTE_LEARNER\n")
    seen, truth = played()
    writer.write(folder / "photos", "photos", [seen])
    for arrays in seen.handed.values():
        del arrays["original"]  # type: ignore[attr-defined]
    writer.write(folder / "lost", "photos without originals", [seen])
    interactions.write_interactions(folder / "upvotes.csv", truth)
    for name in ("photos", "lost"):
        (folder / f"{name}.toml").write_text(SETTINGS.format(name))
    return folder


@pytest.fixture(scope="module")
def hidden(place: Path) -> Path:
    """The folder of an audit that was not asked for records."""
    said = asked("audit", place / "photos.toml", "--run", place / "hidden", "--format", "json")
    found = json.loads(said.splitlines()[-1])
    assert found["findings"][0]["metrics"]["auc"]["value"] > 0.95
    return place / "hidden"


@pytest.fixture
def run(hidden: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(hidden, tmp_path / "run"))


def asked(*words: str | Path) -> str:
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_page_shows_no_image_unless_asked(hidden: Path) -> None:
    assert b"<img" not in (hidden / "report.html").read_bytes()
    assert not (hidden / "records").exists()
    refused = CliRunner().invoke(main, ["report", str(hidden), "--show-records"])
    assert refused.exit_code == 2
    assert "audit again with --show-records" in refused.output


def test_asked_it_shows_originals_above_what_clients_were_handed(place: Path, run: Path) -> None:
    asked("audit", place / "photos.toml", "--run", run, "--resume", "--show-records")
    page = (run / "report.html").read_text()
    drawn = re.findall(r'<img class="sheet" src="data:image/png;base64,([^"]*)"', page)
    assert len(drawn) == challenges_images.CLIENTS
    assert "8 of 10 images" in page
    sheet = np.asarray(image.open(io.BytesIO(base64.b64decode(drawn[0]))))
    above = np.moveaxis(sheet[:8, :8], -1, 0)
    (at,) = np.flatnonzero((above == ORIGINAL).all(axis=(1, 2, 3)))
    below = np.moveaxis(sheet[10:18, :8], -1, 0)
    assert (below == VERSIONS[at]).all(axis=(1, 2, 3)).any()
    asked("report", run)  # not asked any more
    assert b"<img" not in (run / "report.html").read_bytes()
    asked("report", run, "--show-records")
    assert (run / "report.html").read_text() == page


def test_python_knows_the_same_word_and_hostile_names_stay_names(place: Path, run: Path) -> None:
    found = audit_federation(place / "photos.toml", run, resume=True, show_records=True)
    assert b"<img" in (run / "report.html").read_bytes()
    hostile = '"><img src=x onerror=alert(1)>'
    manifest = json.loads((run / "run.json").read_text())
    manifest["facts"]["clients"][0] = hostile
    resealed.write(run / "run.json", manifest)
    page = load_federation(run).report(show_records=True).read_text()
    assert "onerror" in page
    assert "<img src=x" not in page
    (run / "records/0001.png").write_bytes(b"<script>alert(1)</script>")
    with pytest.raises(StoreError, match="PNG"):
        found.report(show_records=True)


def test_where_there_are_no_images_it_says_so_before_the_work(place: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="the transcript has no original"):
        audit_federation(place / "lost.toml", tmp_path / "run", show_records=True)
    assert not (tmp_path / "run").exists()
    (tmp_path / "audit.toml").write_text('[predictions]\nfile = "none.csv"\n')
    (tmp_path / "answers.csv").write_text(
        "p_0,p_1,label,member\n" + "0.9,0.1,0,1\n0.2,0.8,0,0\n" * 20
    )
    table = divulge.audit_predictions(tmp_path / "answers.csv").save(tmp_path / "table")
    for words in (["audit", str(tmp_path / "audit.toml")], ["report", str(table)]):
        refused = CliRunner().invoke(main, [*words, "--show-records"])
        assert refused.exit_code == 2
        assert "do without --show-records" in refused.output


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    seen, _ = played()
    for arrays in seen.handed.values():
        arrays["image"] = arrays["features"]  # type: ignore[index]
    writer.write(tmp_path / "photos", "photos", [seen])
    (tmp_path / "audit.toml").write_text(SETTINGS.format("photos").split("learner")[0])
    with pytest.raises(StoreError, match="images of 8 bits"):
        audit_federation(tmp_path / "audit.toml", show_records=True)


def test_a_round_of_users_is_read_back_as_they_are() -> None:
    seen, truth = played()
    assert set(seen.handed) == set(truth) == set(map(str, range(6)))
    for client, arrays in seen.handed.items():
        assert [len(a) for a in arrays.values()] == [10, 10, 10]
        at = [
            np.flatnonzero((one == ORIGINAL).all(axis=(1, 2, 3)))[0] for one in arrays["original"]
        ]
        own = (VERSIONS[at] == arrays["image"][:, None]).all(axis=(2, 3, 4))
        np.testing.assert_array_equal(IMAGES.features[at][own], arrays["features"])
        assert 0 < len(truth[client]) < 10
