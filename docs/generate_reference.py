"""The pages of the Python reference: names and modules, whose docstrings the site fills in.

``generate.py`` calls `pages`.
"""

import inspect
from collections.abc import Iterable
from pathlib import Path

import divulge
import divulge_papers
from divulge.attacks import catalog

HERE = Path(__file__).parent / "reference"
NOTE = "<!-- Written by docs/generate.py from the code: run `make docs`. -->"

ROOMS = {
    "core": "The nouns: records, views, guesses, truths, findings.",
    "targets": "Ways to reach a model.",
    "data": "Reading, splitting, checking and filling in records.",
    "training": "How shadow models are trained.",
    "federation": "Transcripts, simulated federations, Flower and NVIDIA FLARE.",
    "metrics": "Pure functions on scores, shares and interactions.",
    "reproduce": "Published tables, measured again, by the distribution divulge-papers.",
}


def pages() -> dict[Path, str]:
    """The generated pages, by path."""
    offered = [getattr(divulge, name) for name in dir(divulge)]
    public = [thing for thing in offered if not inspect.ismodule(thing)]
    attacks = catalog.ATTACKS | catalog.UPDATE_ATTACKS | catalog.INTERACTION_ATTACKS
    attacks |= catalog.FEDERATION_ATTACKS
    index = [
        "What users may rely on is what `import divulge` offers, below; the tests freeze it. The "
        "other pages are for those who build on the parts: "
        + ", ".join(f"[{room}]({room}.md)" for room in ("attacks", "defences", *ROOMS))
        + "."
    ]
    return {
        HERE / "README.md": _page("Python reference", index, map(_path, public)),
        HERE / "attacks.md": _page(
            "divulge.attacks",
            ["What attacks are called is on their [pages](../attacks/README.md)."],
            _classes(attacks.values()),
        ),
        HERE / "defences.md": _page(
            "divulge.defences",
            ["What each promises is on their [pages](../defences/README.md)."],
            _modules("defences"),
        ),
        **{
            HERE / f"{room}.md": _page(f"divulge.{room}", [about], _modules(room))
            for room, about in ROOMS.items()
        },
    }


def _page(title: str, text: list[str], names: Iterable[str]) -> str:
    return "\n\n".join([f"# {title}", NOTE, *text, *(f"::: {name}" for name in names)]) + "\n"


def _elsewhere() -> str:
    """Leaves out classes that stand on the first page, so that each has one place."""
    classes = [name for name in dir(divulge) if name[0].isupper()]
    return f"\n    options:\n      filters: ['!^_', '!^({'|'.join(classes)})$']"


def _path(thing: object) -> str:
    """Where a thing is defined: the site reads the source, and does not follow names made late."""
    module = inspect.getmodule(thing)
    return f"{module.__name__ if module else 'divulge'}.{getattr(thing, '__qualname__', thing)}"


def _classes(paths: Iterable[str]) -> list[str]:
    return [path.replace(":", ".") for path in dict.fromkeys(paths)]


def _modules(room: str) -> list[str]:
    """The modules of a package and of the packages in it."""
    papers = room == "reproduce"  # its modules are in another distribution
    source = Path((divulge_papers if papers else divulge).__file__).parent
    folder = source if papers else source / room
    paths = [path.relative_to(source.parent) for path in folder.rglob("*.py")]
    modules = [".".join(path.with_suffix("").parts) for path in paths if path.stem != "__init__"]
    return [module + _elsewhere() for module in sorted(modules)]
