"""What the site needs besides ``docs``: pages of the repository's root, and a gallery of reports.

A hook of MkDocs, named in ``mkdocs.yml``.
"""

import re
import runpy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}
"""Files of the root, and what they are called on the site."""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the root, and the reports of the gallery."""
    from mkdocs.structure.files import File

    reports = runpy.run_path(str(ROOT / "docs" / "generate_gallery.py"))["reports"]
    for name, page in reports():
        files.append(File.generated(config, f"gallery/{name}.html", content=page))
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_from_root(text)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links out of ``docs`` lead to the pages that were added."""
    del config, files
    up = "../" * page.file.src_uri.count("/")
    for name, target in PAGES.items():
        markdown = markdown.replace(f"]({up}../{name}", f"]({up}{target}")
    return markdown


def _from_root(text: str) -> str:
    """A page of the root with its links as they are from within ``docs``."""
    text = re.sub(r"(\]\(|src=\")docs/", r"\1", text)
    for name, target in PAGES.items():
        text = text.replace(f"]({name}", f"]({target}")
    return re.sub(r"\[([^\]]*)\]\(LICENSE\)", r"\1", text)
