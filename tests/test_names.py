"""Names say what a thing is: no class has two homes, and none is a bare participle."""

import ast
import re
from collections import defaultdict

from .distributions import SOURCES

IRREGULAR = {
    "begun", "built", "dealt", "drawn", "found", "given", "held", "hidden", "kept", "known",
    "made", "said", "seen", "sent", "shown", "taught", "told", "understood",
}  # fmt: skip


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


def test_no_class_has_two_homes() -> None:
    twice = {name: where for name, where in classes().items() if len(where) > 1}
    assert not twice


def test_no_class_is_named_by_a_participle_alone() -> None:
    assert not [name for name in classes() if is_participle(name)]


def test_the_test_knows_a_participle() -> None:
    assert all(map(is_participle, ("Told", "_Stored", "Asked", "Defended")))
    assert not any(map(is_participle, ("LiRA", "StoredFinding", "Audit", "DPSGD", "Need")))
