"""The site: few pages in its navigation, and no barrier, light or dark."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from .distributions import ROOT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
READ = ("index.html", "tutorial/index.html", "results/other-tools/index.html", "cli/index.html")
"""Pages with prose, code, wide tables and what is generated."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads the settings without the objects of Python in them."""


def _nothing(*parts: Any) -> None:
    """Stand for an object of Python."""
    del parts


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", _nothing)


def pages(entry: Any) -> Iterator[str]:
    """The pages of a part of the navigation."""
    if isinstance(entry, str):
        yield entry
    for inner in entry.values() if isinstance(entry, dict) else ():
        yield from pages(inner)
    for inner in entry if isinstance(entry, list) else ():
        yield from pages(inner)


def test_at_most_twenty_pages_are_not_under_reference() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = yaml.load(text, Loader=_Loader)["nav"]  # noqa: S506 - a safe loader
    parts = {name: list(pages(inner)) for part in navigation for name, inner in part.items()}
    assert list(parts) == ["Start", "Guides", "Understand", "Reference"]
    *read, looked_up = parts.values()
    assert sum(map(len, read)) <= 20
    every = [page for part in parts.values() for page in part]
    assert len(every) == len(set(every))
    assert len(looked_up) > 40


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the built site, which this process serves."""
    pytest.importorskip("material")
    folder = tmp_path_factory.mktemp("site")
    line = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out_from_their_ground(site: str, scheme: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    options = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(color_scheme=scheme, viewport={"width": 1200, "height": 900})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        faults = {}
        for name in READ:
            page.goto(f"{site}/{name}", wait_until="networkidle")
            assert (
                page.evaluate("document.body.dataset.mdColorScheme")
                == {
                    "light": "default",
                    "dark": "slate",
                }[scheme]
            )
            found = Axe().run(page, options=options)
            assert found.response["passes"]
            faults[name] = [
                (node["html"], re.sub(r"\s+", " ", node["failureSummary"]))
                for violation in found.response["violations"]
                for node in violation["nodes"]
            ]
        browser.close()
    assert {name: nodes for name, nodes in faults.items() if nodes} == {}
    assert all(url.startswith(site) for url in asked)  # nothing is loaded from elsewhere
