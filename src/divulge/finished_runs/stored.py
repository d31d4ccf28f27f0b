"""What every finished run has, whatever its kind: a head, findings, and files that show them."""

import html
import shutil
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from divulge._util import atomic
from divulge._util.arguments import FilePath, check_arguments
from divulge._util.extras import name_missing_extra
from divulge._util.folders import LOCK, create_folder
from divulge.core import Finding, Head
from divulge.errors import NotApplicable, SpecError, did_you_mean
from divulge.finished_runs.run_folder import hold_run, take_run_folder
from divulge.finished_runs.run_json import refuse_linked_folders

if TYPE_CHECKING:
    import pandas as pd

PAGE = "report.html"


def refuse_images() -> NoReturn:
    """Of runs that are not about images.

    Raises:
        SpecError: always.
    """
    raise SpecError(
        "expected [interactions] with images where records are to be shown, got another "
        "audit: do without --show-records"
    )


@dataclass(frozen=True, slots=True)
class ReportFigure:
    """A figure of a report. Shows itself in a notebook, which needs no network for it."""

    name: str
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<divulge.ReportFigure {self.name}, {len(self.svg):,} characters of SVG>"


class StoredRun:
    """What is loaded from a run folder, shown, and saved in one. Shows itself in a notebook."""

    __slots__ = ()
    noun: ClassVar[str]
    """What it is, for messages: ``a comparison``."""
    page: ClassVar[str] = PAGE
    """The report's file in the run folder."""

    if TYPE_CHECKING:  # fields of some kinds, and a field takes a property of its base as default

        @property
        def head(self) -> Head[Any]:
            """What was asked for, and what it is about."""

        @property
        def path(self) -> Path | None:
            """The run folder, if it has one."""

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        raise NotImplementedError

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What each attack found."""
        raise NotImplementedError

    def table(self) -> str:
        """What was found in Markdown, every text of others made inert."""
        raise NotImplementedError

    def files(self, *, show_records: bool = False) -> dict[str, bytes]:
        """Every file of the report, by path.

        Args:
            show_records: the page also shows images that clients were shown, if the audit was
                carried out with the same word.

        Raises:
            SpecError: there are no images to show.
        """
        if show_records:
            refuse_images()
        return self.render()

    def render(self) -> dict[str, bytes]:
        """Every file of the report, by path, without any record."""
        raise NotImplementedError

    @check_arguments
    def report(self, path: FilePath | None = None, *, show_records: bool = False) -> Path:
        """Write the page, one self-contained file, and return its path.

        Args:
            path: default: the whole report in the run folder, if there is one, again; else
                ``report.html``.
            show_records: the page also shows images that clients were shown, if the audit was
                carried out with the same word.

        Raises:
            SpecError: there are no images to show.
            StoreError: it cannot be written.
        """
        files = self.files(show_records=show_records)
        if path is None and self.path is not None:
            refuse_linked_folders(self.path)
            with hold_run(self.path):
                for name, content in files.items():
                    atomic.write_within(self.path, name, content)
            return self.path / self.page
        place = Path(path or self.page)
        return atomic.write_within(place.parent, place.name, files[self.page])

    @check_arguments
    def plot(self, name: str | None = None) -> ReportFigure:
        """One figure of the report, for a notebook; ``.svg`` is its text.

        Args:
            name: such as ``attacks`` or ``roc``: that of its file in the folder ``figures`` of a
                run folder. By default the first.

        Raises:
            NotApplicable: the report has no figures.
            SpecError: it has none of this name.
        """
        paths = {PurePosixPath(path): content for path, content in self.files().items()}
        drawn = {path.stem: svg for path, svg in paths.items() if path.match("figures/*.svg")}
        if not drawn:
            raise NotApplicable(
                f"expected a report with figures, got {self.noun} without: use .report()"
            )
        chosen = next(iter(drawn)) if name is None else name
        if chosen not in drawn:
            raise SpecError(f"expected a figure, got {chosen!r}: {did_you_mean(chosen, drawn)}")
        return ReportFigure(chosen, drawn[chosen].decode())

    @check_arguments
    def save(self, path: FilePath) -> Path:
        """Write a run folder with everything that was found and the report, and return its path.

        Raises:
            StoreError: the folder exists, or cannot be written.
        """
        place = Path(path)
        with take_run_folder(place):
            create_folder(place)
            self.store(place)
            replace(self, path=place).report()  # type: ignore[type-var]
        return place

    def store(self, folder: Path) -> None:
        """Write into an empty folder what `load` reads.

        Raises:
            StoreError: it cannot be written.
        """
        assert self.path is not None
        with atomic.translate_os_errors(folder):
            shutil.copytree(
                self.path,
                folder,
                symlinks=True,
                ignore=shutil.ignore_patterns(LOCK, f"{atomic.UNFINISHED}*"),
                dirs_exist_ok=True,
            )

    def to_frame(self) -> "pd.DataFrame":
        """One row per attack and metric: attack, status, metric, value, low, high.

        Raises:
            MissingExtra: pandas is not installed.
        """
        rows: list[tuple[str, str, str | None, float | None, float | None, float | None]] = []
        for finding in self.findings:
            start = (finding.label, finding.status.value)
            rows += [
                (*start, name, estimate.value, estimate.low, estimate.high)
                for name, estimate in finding.metrics.items()
            ] or [(*start, None, None, None, None)]
        return as_frame(rows, ["attack", "status", "metric", "value", "low", "high"])

    def _repr_html_(self) -> str:
        page = html.escape(self.files()[self.page].decode(), quote=True)
        if not self.page.endswith(".html"):
            return f"<pre>{page}</pre>"
        # a frame of its own: the page's styles cannot reach the notebook, nor the notebook's it
        return (
            f'<iframe srcdoc="{page}" sandbox="" title="divulge report" '
            'style="width:100%;height:48em;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<divulge.{type(self).__name__}: {self.headline}>\n{self.table()}"


def as_frame(data: Any, columns: list[str] | None = None) -> "pd.DataFrame":
    """A table of pandas.

    Raises:
        MissingExtra: pandas is not installed.
    """
    with name_missing_extra():
        import pandas as pd
    return pd.DataFrame(data, columns=columns)
