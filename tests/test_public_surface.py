"""What users may rely on: the names, and that importing them is cheap."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import divulge

NAMES = [
    "Access",
    "Audit",
    "BudgetSpent",
    "CanaryAudit",
    "CanaryRecorder",
    "Check",
    "Comparison",
    "Control",
    "DataError",
    "DivulgeError",
    "Estimate",
    "EvidenceCheck",
    "EvidenceManifest",
    "FederationAudit",
    "FederationLimits",
    "FederationTrial",
    "FederationVariant",
    "Finding",
    "FinishedRun",
    "Game",
    "Guarantee",
    "HardenedFederation",
    "HardenedModel",
    "History",
    "KnownFeatures",
    "LeaveOneOut",
    "Membership",
    "MissingExtra",
    "ModelView",
    "Need",
    "NotApplicable",
    "Options",
    "Records",
    "Rotation",
    "RunDifference",
    "Scores",
    "SearchSettings",
    "SecretAudit",
    "ShadowModels",
    "SpecError",
    "StatedSampling",
    "Status",
    "StoreError",
    "Target",
    "TargetError",
    "Texts",
    "Verdict",
    "attack",
    "audit",
    "audit_canaries",
    "audit_file",
    "audit_predictions",
    "check_attack",
    "check_evidence",
    "compare",
    "compare_file",
    "demo",
    "diff",
    "estimate",
    "estimate_file",
    "evidence",
    "export",
    "federate_file",
    "harden",
    "harden_federation",
    "harden_federation_file",
    "harden_file",
    "harden_ranker",
    "history",
    "leave_one_out",
    "load",
    "make_canaries",
    "make_canary_clients",
    "plan",
    "plan_canaries",
    "plan_file",
    "score_canaries",
    "score_checkpoints",
    "score_transcript",
    "scorer",
]

PACKAGES = [
    "attacks",
    "core",
    "data",
    "defences",
    "errors",
    "federation",
    "metrics",
    "reproduce",
    "targets",
    "training",
]
"""What those use who build on the parts: it is there after ``import divulge`` alone."""

ROOT = Path(__file__).parent.parent


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_public_names_are_these() -> None:
    assert dir(divulge) == sorted(NAMES + PACKAGES)
    assert sorted(NAMES) == NAMES
    for name in NAMES + PACKAGES:
        assert inspect.getdoc(getattr(divulge, name)), name


def documented_names() -> set[str]:
    """Dotted names in the examples of documents that import nothing but divulge for them."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    found = set()
    for page in pages:
        for block in re.findall(r"^```.*?^```", page.read_text(encoding="utf-8"), re.M | re.S):
            imported = set(re.findall(r"(?:import|from) (divulge\.[\w.]+)", block))
            dotted = set(re.findall(r"(?<![\w.\"'/-])divulge(?:\.\w+){2,}", block))
            found |= {
                name for name in dotted if not any(name.startswith(given) for given in imported)
            }
    return found


def test_dotted_names_in_the_documents_need_no_import_but_that_of_divulge() -> None:
    names = documented_names() | {f"divulge.{package}" for package in PACKAGES}
    assert "divulge.targets.HTTPTarget" in names
    code = (
        "import importlib, sys\n"
        "from operator import attrgetter\n"
        f"for name in {sorted(names)}:\n"
        "    for known in [one for one in sys.modules if one.partition('.')[0] == 'divulge']:\n"
        "        del sys.modules[known]\n"  # as in a fresh interpreter: nothing is loaded yet
        "    divulge = importlib.import_module('divulge')\n"
        "    assert not any(one.startswith('divulge.targets') for one in sys.modules)\n"
        "    attrgetter(name.partition('.')[2])(divulge)\n"
        "    print(name)"
    )
    assert run(code).split() == sorted(names)


def test_importing_loads_no_framework() -> None:
    heavy = [
        "torch",
        "sklearn",
        "onnxruntime",
        "flwr",
        "nvflare",
        "pandas",
        "pyarrow",
        "altair",
        "vl_convert",
        "scipy",
        "pydantic",
    ]
    code = f"import sys, divulge; print([m for m in {heavy} if m in sys.modules])"
    assert run(code).strip() == "[]"


def test_help_loads_only_the_command_line() -> None:
    code = (
        "import sys\nfrom divulge.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print([m for m in ('numpy.linalg', 'sklearn', 'pydantic', 'rich') if m in sys.modules])"
    )
    assert run(code).splitlines()[-1] in ("[]", "['numpy.linalg']")


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(divulge, "nonsense")


@pytest.mark.slow
def test_reading_a_run_loads_no_chart_library_and_no_framework(tmp_path: Path) -> None:
    table = "p_0,p_1,label,member\n" + "0.9,0.1,0,1\n0.2,0.8,0,0\n" * 20
    (tmp_path / "answers.csv").write_text(table)
    found = divulge.audit_predictions(tmp_path / "answers.csv").save(tmp_path / "run")
    loaded = run(
        f"import sys, divulge; divulge.load({str(found)!r}).verdict\n"
        "print({'altair', 'torch', 'flwr'} & sys.modules.keys())"
    )
    assert loaded.strip() == "set()"
