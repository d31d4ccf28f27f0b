"""The search for a ranker whose server learns no more than allowed of its users' clicks."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import divulge
from divulge.cli.main import main
from divulge.data.ranking import synthetic_queries
from divulge.errors import SpecError, StoreError
from divulge.federation import Searching, published_click_model
from divulge.studies.harden import federated_ranker

pytest.importorskip("optuna")

QUERIES = synthetic_queries(48, 6, np.random.default_rng(0))
WORLD = Searching(QUERIES.take(np.arange(32)), published_click_model("informational", 3), lr=0.5)
TEST = QUERIES.take(np.arange(32, 48))


def hardened(folder: Path, **more: Any) -> divulge.HardenedFederation:
    asked: dict[str, Any] = {
        "limits": divulge.FederationLimits(interactions=0.8),
        "asked": 2,
        "users": 4,
        "budget": 5,
        "defences": ("top-k", "local-noise"),
        "run": folder,
    }
    return divulge.harden_ranker(WORLD, TEST, **asked | more)


@pytest.fixture(scope="module", autouse=True)
def few() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(federated_ranker, "_VICTIMS", 4)
        yield


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> divulge.HardenedFederation:
    return hardened(tmp_path_factory.mktemp("ranker") / "run")


def test_each_defence_is_tried_first_and_none_has_epochs(
    found: divulge.HardenedFederation,
) -> None:
    settings = [trial.setting for trial in found.trials]
    assert [one.defence for one in settings[:3]] == ["none", "top-k", "local-noise"]
    assert len(settings) == 4
    assert {one.epochs for one in settings} == {None}
    assert settings[0].label == "undefended"
    assert settings[0].as_toml() == "# nothing is to be added"
    assert settings[1].as_toml() == '[[defences]]\nname = "top-k"\nshare = 0.1'
    plain, compressed = (trial.leaks["interactions"].value for trial in found.trials[:2])
    assert 0.5 < compressed < plain


def test_the_chosen_setting_runs_with_queries_that_the_search_never_saw(
    found: divulge.HardenedFederation,
) -> None:
    assert found.fresh.setting == found.chosen.setting
    assert found.fresh.leaks != found.chosen.leaks
    assert (found.facts.searched, found.facts.fresh) == (16, 16)
    assert "16 queries; 16 others were kept" in found.table()
    assert "NDCG@" in found.table()


def test_it_is_read_again_and_continued_only_with_the_same_question(
    found: divulge.HardenedFederation,
) -> None:
    loaded = divulge.load(found.path)
    assert isinstance(loaded, divulge.HardenedFederation)
    assert (loaded.trials, loaded.fresh, loaded.limits) == (found.trials, found.fresh, found.limits)
    again = hardened(found.path, resume=True)
    assert (again.trials, again.fresh) == (found.trials, found.fresh)
    with pytest.raises(StoreError, match="start a new run"):
        hardened(found.path, resume=True, asked=3)


def test_the_question_names_a_function_by_its_source() -> None:
    """Its address is another in each process, in which the search could not be continued."""

    def make() -> Any:
        def keep(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            del rng
            return x

        return keep

    asked = [
        federated_ranker.RankerDesign(
            replace(WORLD, manipulate=manipulate),
            divulge.FederationLimits(interactions=0.8),
            TEST,
            hidden=0,
            asked=2,
            users=4,
        )
        for manipulate in (make(), make(), lambda x, rng: x + rng.normal(size=x.shape))
    ]
    first, same, other = (
        federated_ranker._design(one, "ranker", 0, 2, ())[1].challenge for one in asked
    )
    assert first == same != other


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"limits": divulge.FederationLimits(which_client=0.5)}, "a limit on interactions alone"),
        ({"defences": ("own-last-layer",)}, "an update defence that is searched"),
        ({"budget": 1}, "a budget of 2 rankers"),
    ],
)
def test_searches_that_cannot_be_made_are_refused(
    more: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=said):
        hardened(tmp_path / "run", **more)
    with pytest.raises(SpecError, match="test queries with 6 features"):
        divulge.harden_ranker(
            WORLD,
            synthetic_queries(4, 5, np.random.default_rng(1)),
            limits=divulge.FederationLimits(interactions=0.8),
            run=tmp_path / "run",
        )


def test_a_federation_of_records_has_no_interactions(tmp_path: Path) -> None:
    from tests.studies.harden.test_federated import hardened as of_records

    with pytest.raises(SpecError, match="harden_ranker searches for rankers"):
        of_records(tmp_path / "run", limits=divulge.FederationLimits(interactions=0.8))


SUBJECT = """
import numpy as np
from divulge.data.ranking import synthetic_queries

every = synthetic_queries(24, 5, np.random.default_rng(0))
queries, test = every.take(np.arange(16)), every.take(np.arange(16, 24))
"""

SETTINGS = """
name = "clicks"
rounds = 1
[ranker]
queries = "subject.py:queries"
truth = "truth.csv"
users = 4
asked = 2
[harden]
test = "subject.py:test"
interactions = 1.0
budget = 2
"""


def test_the_command_searches_for_a_ranker(tmp_path: Path) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    path = tmp_path / "federate.toml"
    path.write_text(SETTINGS)
    done = CliRunner().invoke(main, ["harden", str(path)])
    assert done.exit_code == 0, done.output
    assert "This federation stays within the limits: undefended" in done.stdout
    assert not (tmp_path / "truth.csv").exists()
    path.write_text(
        SETTINGS.replace("interactions = 1.0", "interactions = 1.0\nwhich_client = 0.5")
    )
    both = CliRunner().invoke(main, ["harden", str(path), "--run", str(tmp_path / "both")])
    assert both.exit_code == 2
    assert "a limit on interactions alone, got which_client, interactions" in both.stderr
    path.write_text(SETTINGS.replace('test = "subject.py:test"\n', ""))
    refused = CliRunner().invoke(main, ["harden", str(path)])
    assert refused.exit_code == 2
    assert "expected test in [harden] beside [ranker]" in refused.stderr
