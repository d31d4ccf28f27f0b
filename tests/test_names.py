"""Names say what a thing is: no class has two homes, and none is a bare participle."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from .distributions import ROOT, SOURCES

IRREGULAR = {
    "begun", "built", "dealt", "drawn", "found", "given", "held", "hidden", "kept", "known",
    "made", "said", "seen", "sent", "shown", "taught", "told", "understood",
}  # fmt: skip

SILENT = {"asked", "found", "held", "kept", "one", "said", "seen", "told", "who"}
"""Names of variables and arguments that do not say what a thing is: scores, queries, settings."""

MOST_SILENT = {
    "_util": 0, "attacks": 5, "audits": 0, "canaries": 0, "checks": 0, "cli": 0, "core": 0,
    "data": 0, "defences": 0, "exports": 1, "federation": 2, "finished_runs": 1, "metrics": 1,
    "report": 0, "secrets": 3, "studies": 5, "targets": 1, "testing": 0, "training": 0,
    "papers": 0, "fast": 0, "benchmarks": 35,
}  # fmt: skip
"""By package and folder, how many such names are left: settings and fields that users name, and
what is still to be renamed. None is added, and a ceiling only falls."""

FOLDERS = {
    "papers": SOURCES["divulge_papers"],
    "fast": SOURCES["divulge_fast"],
    "benchmarks": ROOT / "benchmarks",
}
"""Where those lie that are no package of divulge."""


def classes() -> dict[str, list[str]]:
    """Where each class of the package is defined."""
    found = defaultdict(list)
    for path in sorted(path for source in SOURCES.values() for path in source.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path))
    return dict(found)


def is_participle(name: str) -> bool:
    """Whether a name is one word that says what was done to something."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name.strip("_"))
    word = words[0].lower() if len(words) == 1 else ""
    return word in IRREGULAR or (word.endswith("ed") and word != "need")


def silent_names(text: str) -> Iterator[tuple[int, str]]:
    """Line and name of each variable, field or argument that does not say what it is."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in SILENT:
            yield node.lineno, node.id
        elif isinstance(node, ast.arg) and node.arg in SILENT:
            yield node.lineno, node.arg


def test_no_class_has_two_homes() -> None:
    twice = {name: where for name, where in classes().items() if len(where) > 1}
    assert not twice


def test_no_class_is_named_by_a_participle_alone() -> None:
    assert not [name for name in classes() if is_participle(name)]


def test_the_test_knows_a_participle() -> None:
    assert all(map(is_participle, ("Told", "_Stored", "Asked", "Defended")))
    assert not any(map(is_participle, ("LiRA", "StoredFinding", "Audit", "DPSGD", "Need")))


@pytest.mark.parametrize("package", MOST_SILENT)
def test_a_package_gets_no_further_name_that_says_nothing(package: str) -> None:
    folder = FOLDERS.get(package, SOURCES["divulge"] / package)
    silent = [
        f"{path.name}:{line} {name}"
        for path in sorted(folder.rglob("*.py"))
        for line, name in silent_names(path.read_text(encoding="utf-8"))
    ]
    assert len(silent) <= MOST_SILENT[package], f"say what they are: {', '.join(silent)}"


def test_the_test_knows_a_name_that_says_nothing() -> None:
    text = "def f(who, *, rows):\n    found: int = rows\n    for one, _ in [x.kept for x in who]:\n"
    text += "        (seen := g(told=found))\n    return lambda said: finder(one_by_one)\n"
    names = [name for _, name in sorted(silent_names(text))]
    assert names == ["who", "found", "one", "seen", "said"]
