"""What a user installs: source archives, the wheels made from them, and the program in these."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from divulge._util.extras import EXTRAS

from .distributions import FOLDERS, ROOT, SOURCES
from .fuzz.formats import FORMATS
from .test_base_install import COMMANDS, run_all

PACKAGE = SOURCES["divulge"]
BESIDE = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO", ".gitignore"}
"""Files of the source archive beside the package; hatchling adds the last two."""


def run(*command: str | Path, folder: Path) -> str:
    """The output of a command that has to succeed, without this checkout on its path."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env=clean, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def new_environment(folder: Path) -> Path:
    """The Python of a new virtual environment."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def build(project: Path, folder: Path) -> Path:
    """Make a distribution's source archive, and its wheel from that alone; their folder."""
    pytest.importorskip("hatchling")
    command = (sys.executable, "-m", "hatchling", "build", "-d", folder, "-t")
    run(*command, "sdist", folder=project)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        # Python before 3.11.4, such as Debian's, knows no filters
        known = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        packed.extractall(folder / "unpacked", **known)  # type: ignore[arg-type] # noqa: S202
    (source,) = (folder / "unpacked").iterdir()
    run(*command, "wheel", folder=source)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the archive and the wheel of divulge."""
    return build(ROOT, tmp_path_factory.mktemp("built"))


def package_files(package: Path = PACKAGE) -> set[str]:
    """What belongs into the package, from its folder on."""
    return {
        path.relative_to(package).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.parametrize("name", [name for name in FOLDERS if name != "divulge"])
def test_another_distribution_holds_its_package_and_no_more(name: str, tmp_path: Path) -> None:
    build(FOLDERS[name], tmp_path)
    package = f"divulge_{name}"
    (archive,), (wheel,) = tmp_path.glob("*.tar.gz"), tmp_path.glob("*.whl")
    with tarfile.open(archive) as packed:
        names = {one.partition("/")[2] for one in packed.getnames()}
    start = f"src/{package}/"
    inside = {one.removeprefix(start) for one in names if one.startswith(start)}
    assert inside == package_files(SOURCES[package])
    assert {one for one in names if not one.startswith("src/")} == BESIDE - {"CHANGELOG.md"}
    with zipfile.ZipFile(wheel) as zipped:
        held = set(zipped.namelist())
    assert {one for one in held if one.startswith(f"{package}/")} == {
        f"{package}/{one}" for one in inside
    }
    about = {one.partition(".dist-info/")[2] for one in held if ".dist-info/" in one}
    assert about == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert len(held) == len(inside) + len(about)


def test_the_source_archive_holds_the_package_and_no_more(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    inside = {n.removeprefix("src/divulge/") for n in names if n.startswith("src/divulge/")}
    assert inside == package_files()
    assert {name for name in names if not name.startswith("src/")} == BESIDE


def test_the_wheel_holds_the_package_with_types_templates_and_licence(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        first = packed.read(metadata).splitlines()[0]
    inside = {n.removeprefix("divulge/") for n in names if n.startswith("divulge/")}
    assert inside == package_files()
    assert {"py.typed", "__init__.pyi", "report/templates/page.html.j2"} <= inside
    # hatchling writes newer ones, which the twine of a release and older installers refuse
    assert first == b"Metadata-Version: 2.4"
    others = {n for n in names if not n.startswith("divulge/")}
    about = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert {n.partition(".dist-info/")[2] or n for n in others} == {*about, "pytest_divulge.py"}


@pytest.mark.slow
def test_the_installed_wheel_audits(built: Path, tmp_path: Path) -> None:
    """With the dependencies of this environment, but nothing of this checkout."""
    python = new_environment(tmp_path / "user")
    (wheel,) = built.glob("*.whl")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel, folder=tmp_path)
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(python, "-c", asked, folder=tmp_path).strip())
    # a folder named here is on the path, but not what its own .pth files name: this checkout
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    where = run(python, "-c", "import divulge; print(divulge.__file__)", folder=tmp_path)
    assert Path(where.strip()).is_relative_to(site)
    divulge = python.with_name("divulge")
    version = run(divulge, "--version", folder=tmp_path)
    assert version.strip().startswith("divulge, version ")
    assert "threshold" in run(divulge, "list", "attacks", folder=tmp_path)
    FORMATS["settings-predictions"].make(tmp_path)
    run(divulge, "audit", "settings.toml", "--run", "run", folder=tmp_path)
    assert "<html" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    run(divulge, "init", "mine", folder=tmp_path)
    assert (tmp_path / "mine" / "audit.toml").is_file()


@pytest.mark.slow
def test_the_wheel_of_papers_adds_its_commands(built: Path, tmp_path: Path) -> None:
    """With the dependencies of this environment, but nothing of this checkout."""
    (tmp_path / "papers").mkdir()
    build(FOLDERS["papers"], tmp_path / "papers")
    python = new_environment(tmp_path / "user")
    wheels = [*built.glob("*.whl"), *(tmp_path / "papers").glob("*.whl")]
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", *wheels, folder=tmp_path)
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(python, "-c", asked, folder=tmp_path).strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    where = run(python, "-c", "import divulge_papers as p; print(p.__file__)", folder=tmp_path)
    assert Path(where.strip()).is_relative_to(site)
    listed = run(python.with_name("divulge"), "reproduce", folder=tmp_path)
    assert "decaf-table3" in listed
    found = run(
        python, "-c", "import divulge.reproduce.page as p; print(p.__name__)", folder=tmp_path
    )
    assert found.strip() == "divulge_papers.page"


@pytest.mark.slow
def test_the_wheel_alone_runs_every_command(built: Path, tmp_path: Path) -> None:
    """With its own dependencies and no extra."""
    python = new_environment(tmp_path / "user")
    (wheel,) = built.glob("*.whl")
    pip = ["-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    done = subprocess.run([python, *pip], text=True, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"NOT TESTED, no package index: {done.stderr[-300:]}")
    look = f"from importlib.util import find_spec; print([p for p in {EXTRAS} if find_spec(p)])"
    # nothing came with the wheel without its extra
    assert run(python, "-c", look, folder=tmp_path).strip() == "[]"
    work = tmp_path / "work"
    work.mkdir()
    run_all([str(python.with_name("divulge"))], work, [], COMMANDS)
