"""The pages of the Python reference: names and modules, whose docstrings the site fills in.

``generate.py`` calls `pages`.
"""

import inspect
from collections.abc import Container, Iterable
from pathlib import Path

import divulge
import divulge_papers
from divulge.defences import catalog

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
    index = [
        "What users may rely on is what `import divulge` offers, below; the tests freeze it. The "
        "other pages are for those who build on the parts: "
        + ", ".join(f"[{room}]({room}.md)" for room in ("defences", *ROOMS))
        + ". Attacks and defences themselves are on the pages of their families: "
        "[attacks](../attacks/README.md), [defences](../defences/README.md)."
    ]
    return {
        HERE / "README.md": _page("Python reference", index, map(_path, public)),
        HERE / "defences.md": _page(
            "divulge.defences",
            [
                "What they are built on. The defences themselves, with their settings, are on the "
                "[pages of their families](../defences/README.md)."
            ],
            _modules("defences", without=_named()),
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


def _named() -> set[str]:
    """The modules of defences that have a name, and so a section on a page."""
    registries = (
        *(catalog.TRAINED_DEFENCES, catalog.TUNED_DEFENCES),
        *(catalog.ANSWER_DEFENCES, catalog.UPDATE_DEFENCES),
    )
    return {path.partition(":")[0] for registry in registries for path in registry.values()}


def _modules(room: str, without: Container[str] = ()) -> list[str]:
    """The modules of a package and of the packages in it."""
    papers = room == "reproduce"  # its modules are in another distribution
    source = Path((divulge_papers if papers else divulge).__file__).parent
    folder = source if papers else source / room
    paths = [path.relative_to(source.parent) for path in folder.rglob("*.py")]
    modules = [".".join(path.with_suffix("").parts) for path in paths if path.stem != "__init__"]
    return [module + _elsewhere() for module in sorted(modules) if module not in without]
