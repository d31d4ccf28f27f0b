"""The GitHub action, the GitLab pipeline and the example: their steps run as a shell runs them."""

import os
import re
import runpy
import shlex
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import divulge

from .installs.names import installs

BASH = shutil.which("bash") or "bash"
ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "gate"
FORMS = ROOT / ".github" / "ISSUE_TEMPLATE"
ISSUES = ("defect", "figure", "wish")
WORKFLOWS = {
    name: ROOT / ".github" / "workflows" / f"{name}.yml" for name in ("release", "test", "nightly")
}
COPIED = EXAMPLE / ".github" / "workflows" / "privacy.yml"
"""The workflow that users copy."""
REQUIREMENTS = ROOT / ".github" / "requirements"
JOBS: dict[str, Any] = {
    f"{name}/{key}": job
    for name, path in {**WORKFLOWS, "copied": COPIED}.items()
    for key, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items()
}
"""All jobs of all workflows."""
ACTION: Any = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
PIPELINE: Any = yaml.safe_load((EXAMPLE / ".gitlab-ci.yml").read_text(encoding="utf-8"))

FAKE = """#!/bin/sh
printf '%s\\n' "$0" "$@" '' >> "$LOG"
case "$1" in
  audit) [ "$AUDIT" = 2 ] || { mkdir -p "$RUN" && touch "$RUN/run.json"; }; exit "$AUDIT" ;;
  export) exit "$EXPORT" ;;
esac
"""


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(stat.S_IRWXU)


def run_step(
    name: str, inputs: Mapping[str, str], folder: Path, **env: str
) -> subprocess.CompletedProcess[str]:
    """One step of the action, with these inputs, in the way of GitHub's runner."""
    step = STEPS[name]
    assert step["shell"] == "bash"
    given = {key: one.get("default", "") for key, one in ACTION["inputs"].items()}
    given |= inputs
    named: dict[str, str] = {
        key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: given[found[1]], value)
        for key, value in step.get("env", {}).items()
    }
    assert "${{" not in "".join(named.values())
    script = folder / "step.sh"
    script.write_text(step["run"])
    return subprocess.run(
        [BASH, "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        cwd=folder,
        env=os.environ | named | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"} | env,
        capture_output=True,
        text=True,
        check=False,
    )


def logged(folder: Path) -> list[list[str]]:
    """The commands that the fake program was called with."""
    calls = (folder / "log").read_text().strip("\n").split("\n\n")
    return [call.split("\n")[1:] for call in calls]


def use_real_divulge(folder: Path) -> None:
    program(folder / "bin", "divulge", f'#!/bin/sh\nexec "{sys.executable}" -m divulge "$@"\n')


@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        ("vendor.github-actions", [ROOT / "action.yml"]),
        (
            "vendor.github-workflows",
            [COPIED, *WORKFLOWS.values()],
        ),
        ("vendor.gitlab-ci", [EXAMPLE / ".gitlab-ci.yml"]),
        ("vendor.github-issue-config", [FORMS / "config.yml"]),
        ("vendor.github-issue-forms", [FORMS / f"{name}.yml" for name in ISSUES]),
        ("vendor.citation-file-format", [ROOT / "CITATION.cff"]),
    ],
)
def test_files_for_servers_are_as_their_published_schemas_say(
    schema: str, paths: list[Path]
) -> None:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        schema,
        *map(str, paths),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


OWN = ["$/.github/workflows/test.yml", "$/.github/workflows/nightly.yml"]
"""Workflows of this repository, at the commit that runs."""
NAMES = runpy.run_path(str(ROOT / "packaging" / "names.py"))
OURS = f"{NAMES['owner']()}/divulge@v0 # zizmor: ignore[unpinned-uses]"
"""Our action, as users take its newest version."""
PINNED = re.compile(r"uses: ([\w./-]+@[0-9a-f]{40}) # v\d+\.\d+\.\d+")


def steps(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(job.get("steps", []))


def may_write(job: Mapping[str, Any]) -> bool:
    return "write" in job["permissions"].values()


@pytest.mark.parametrize("path", [ROOT / "action.yml", COPIED, *WORKFLOWS.values()])
def test_every_action_is_named_by_its_commit_with_its_version(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    used = [line.strip(" -") for line in lines if line.strip(" -").startswith("uses:")]
    assert used
    assert [one for one in used if not PINNED.fullmatch(one)] in (
        [],
        [f"uses: {one}" for one in OWN],
        [f"uses: {OURS}"],
    )


def test_an_action_has_one_version_in_all_files() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "action.yml", COPIED, *WORKFLOWS.values())]
    pairs = {one[1].split("@")[0]: one[0] for text in texts for one in PINNED.finditer(text)}
    every = {one[0] for text in texts for one in PINNED.finditer(text)}
    assert every == set(pairs.values())


@pytest.mark.parametrize("name", JOBS)
def test_a_job_with_rights_installs_nothing_and_another_has_none(name: str) -> None:
    job = JOBS[name]
    assert set(job["permissions"].values()) <= {"read", "write"}
    installs = [step["run"] for step in steps(job) if "run" in step]
    checks_out = [step for step in steps(job) if "checkout" in step.get("uses", "")]
    if may_write(job):
        assert not checks_out
        assert not re.search(r"\b(pip|pipx|uv|npm|apt-get|make|python)\b", "\n".join(installs))
    else:
        assert job["permissions"] == {"contents": "read"}
    for step in checks_out:
        assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", [COPIED, *WORKFLOWS.values()])
def test_a_workflow_gives_rights_to_jobs_alone_and_reads_no_secret(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert yaml.safe_load(text)["permissions"] == {}
    assert "secrets." not in text


def test_nothing_is_signed_or_published_before_the_tests_have_passed() -> None:
    jobs = {name.partition("/")[2]: job for name, job in JOBS.items() if name[:7] == "release"}
    assert [jobs["test"]["uses"], jobs["nightly"]["uses"]] == OWN

    def needed(name: str) -> set[str]:
        asked = jobs[name].get("needs", [])
        direct = {asked} if isinstance(asked, str) else set(asked)
        return direct.union(*map(needed, direct))

    for name, job in jobs.items():
        if may_write(job):
            assert {"test", "nightly", "build", "site"} <= needed(name), name
    assert jobs["publish"]["permissions"] == {"id-token": "write"}


def test_the_tests_run_on_every_pull_request() -> None:
    tests: Any = yaml.safe_load(WORKFLOWS["test"].read_text(encoding="utf-8"))
    assert {"pull_request", "push", "workflow_call"} == set(tests[True])  # YAML takes "on" for true
    assert [step["run"] for step in tests["jobs"]["test"]["steps"] if "run" in step] == [
        "make test"
    ]


def test_every_night_each_part_of_make_nightly_runs() -> None:
    nightly: Any = yaml.safe_load(WORKFLOWS["nightly"].read_text(encoding="utf-8"))
    parts = nightly["jobs"]["part"]["strategy"]["matrix"]["part"]
    (named,) = re.findall(r"^nightly: (.*?)  ##", (ROOT / "Makefile").read_text("utf-8"), re.M)
    assert [*parts, "fresh", "installs"] == named.split()
    assert steps(nightly["jobs"]["fresh"])[-1]["run"] == "make fresh"
    (step,) = [step for step in steps(nightly["jobs"]["part"]) if "run" in step]
    assert (step["run"], step["env"]) == ('make "$PART"', {"PART": "${{ matrix.part }}"})


def test_every_night_the_tests_run_on_each_python_and_system() -> None:
    nightly: Any = yaml.safe_load(WORKFLOWS["nightly"].read_text(encoding="utf-8"))
    python, system = nightly["jobs"]["python"], nightly["jobs"]["system"]
    (pythons,) = re.findall(r"^PYTHONS \?= (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.M)
    tested = ["python3.11", *(f"python{one}" for one in python["strategy"]["matrix"]["version"])]
    assert pythons.split() == tested
    kinds = {name.partition("-")[0] for name in system["strategy"]["matrix"]["system"]}
    assert kinds == {"macos", "windows"}
    assert [step["run"] for step in steps(system) if step.get("name") == "Audit"] == [
        "divulge demo"
    ]


def test_every_night_the_tests_run_on_each_install_that_users_may_have() -> None:
    nightly: Any = yaml.safe_load(WORKFLOWS["nightly"].read_text(encoding="utf-8"))
    assert nightly[True]["schedule"]  # YAML takes "on" for true
    job = nightly["jobs"]["install"]
    assert job["strategy"]["matrix"]["install"] == installs()
    assert job["strategy"]["fail-fast"] is False
    (step,) = [step for step in job["steps"] if "run" in step]
    assert step["run"] == "make installs"
    assert step["env"] == {"INSTALLS": "${{ matrix.install }}"}


def test_a_release_installs_each_file_by_its_hash() -> None:
    installs = [
        shlex.split(line)
        for name, job in JOBS.items()
        for step in steps(job)
        for line in step.get("run", "").splitlines()
        if name[:7] == "release" and "pip install" in line
    ]
    hashed = [words for words in installs if "--require-hashes" in words]
    for words in installs:
        if words in hashed:
            assert words[-2] == "--requirement"
            assert (ROOT / words[-1]).is_file()
        else:  # divulge itself, out of the checkout
            assert {"--no-index", "--no-deps", "--no-build-isolation", "."} <= set(words)
    assert len(hashed) == len(list(REQUIREMENTS.glob("*.txt"))) == 2


BUILDS = """#!/bin/sh
case "$*" in
  *build*) for name in divulge divulge_papers divulge_fast; do
    mkdir -p dist && touch "dist/$name-$BUILT.tar.gz"; done ;;
esac
"""
"""A Python that builds archives of one version, and checks all."""


def dry_run(folder: Path, tag: str, built: str) -> int:
    """The exit code of the release's job that builds, without an index, on files of one folder."""
    (job,) = (one for name, one in JOBS.items() if name == "release/build")
    program(folder / "bin", "python", BUILDS)
    scripts = [step["run"] for step in steps(job) if "run" in step]
    env = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "GITHUB_REF_NAME": tag, "BUILT": built}
    for script in scripts:
        line = [BASH, "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        done = subprocess.run(line, cwd=folder, env=os.environ | env, check=False)
        if done.returncode:
            return done.returncode
    return 0


@pytest.mark.parametrize(
    ("tag", "built", "owner", "passes"),
    [
        ("v9.8.7", "9.8.7", "my-lab", True),
        ("v9.8.7", "9.8.6", "my-lab", False),
        ("v9.8.6", "9.8.6", "my-lab", False),
        ("v9.8.7", "9.8.7", NAMES["owner"](), NAMES["owner"]() != "OWNER"),
    ],
)
def test_a_release_is_built_where_all_files_agree(
    tmp_path: Path, tag: str, built: str, owner: str, passes: bool
) -> None:
    for path in {*NAMES["OWNER_FILES"], *NAMES["VERSION_FILES"], "CHANGELOG.md"}:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    old = NAMES["project"]()["version"]
    changes = (tmp_path / "CHANGELOG.md").read_text("utf-8")
    heading = f"## [{old}] - "
    assert heading in changes
    changes = changes.replace(heading, "## [9.8.7] - unreleased\n\n" + heading, 1)
    (tmp_path / "CHANGELOG.md").write_text(changes, encoding="utf-8")
    NAMES["set_version"]("9.8.7", tmp_path)
    NAMES["set_owner"](owner, tmp_path)
    assert (dry_run(tmp_path, tag, built) == 0) is passes


def pins(path: Path) -> dict[str, str]:
    """Version by name of each requirement in a file of pins."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)", path.read_text("utf-8"), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


@pytest.mark.parametrize("name", ["build", "site"])
def test_requirements_with_hashes_are_those_that_the_tests_ran_with(name: str) -> None:
    text = (REQUIREMENTS / f"{name}.txt").read_text(encoding="utf-8")
    entries = re.split(r"^(?=[A-Za-z0-9])", re.sub(r"^\s*#.*\n", "", text, flags=re.M), flags=re.M)
    assert all("--hash=sha256:" in entry for entry in entries if entry)
    locked, tested = pins(REQUIREMENTS / f"{name}.txt"), pins(ROOT / "constraints.txt")
    assert pins(REQUIREMENTS / f"{name}.in").items() <= locked.items()
    assert {one: locked[one] for one in locked.keys() & tested} == {
        one: tested[one] for one in locked.keys() & tested
    }


def test_the_site_of_a_release_has_what_its_extras_ask_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    locked = pins(REQUIREMENTS / "site.txt")
    for text in (*project["dependencies"], *extras["docs"], *extras["torch"]):
        asked = Requirement(text)
        assert asked.specifier.contains(locked[canonicalize_name(asked.name)])
    (backend,) = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"][
        "requires"
    ]
    for name in ("build", "site"):
        held = pins(REQUIREMENTS / f"{name}.txt")[Requirement(backend).name]
        assert Requirement(backend).specifier.contains(held)


@pytest.mark.slow
def test_the_hook_of_pre_commit_is_a_command_that_judges(tmp_path: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    table = "p_0,p_1,label,member\n" + "0.9,0.1,0,1\n0.2,0.8,0,0\n" * 40
    (tmp_path / "answers.csv").write_text(table)
    run = divulge.audit_predictions(tmp_path / "answers.csv").save(tmp_path / "run")
    program, command = hook["entry"].split()
    assert program == "divulge"
    for condition, code in (("leak", 4), ("leak-or-shift", 3), ("control-failed", 0)):
        line = [sys.executable, "-m", program, command, str(run), "--fail-on", condition]
        assert subprocess.run(line, cwd=tmp_path, check=False).returncode == code
    line = [sys.executable, "-m", program, command, str(tmp_path / "gone"), "--fail-on", "leak"]
    assert subprocess.run(line, cwd=tmp_path, check=False).returncode == 2


def test_no_input_becomes_part_of_a_script() -> None:
    scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    assert len(scripts) == 2
    assert not any("${{" in script for script in scripts)


@pytest.mark.parametrize(("extras", "wanted"), [("", ""), ("torch,onnx", "[torch,onnx]")])
def test_the_action_installs_its_own_version(tmp_path: Path, extras: str, wanted: str) -> None:
    program(tmp_path / "bin", "python", FAKE)
    env = {"LOG": str(tmp_path / "log"), "GITHUB_ACTION_PATH": "/action path"}
    done = run_step("Install divulge", {"extras": extras}, tmp_path, **env)
    assert done.returncode == 0, done.stderr
    assert logged(tmp_path) == [["-m", "pip", "install", f"/action path{wanted}"]]


@pytest.mark.parametrize(
    ("audit", "export", "code"),
    [(0, 0, 0), (1, 0, 1), (3, 3, 3), (4, 4, 4), (2, 0, 2), (0, 2, 1)],
)
def test_a_job_ends_as_its_audit_does(tmp_path: Path, audit: int, export: int, code: int) -> None:
    program(tmp_path / "bin", "divulge", FAKE)
    run = tmp_path / "runner" / "divulge" / "two words"
    env = {
        "LOG": str(tmp_path / "log"),
        "AUDIT": str(audit),
        "EXPORT": str(export),
        "RUN": str(run),
        "RUNNER_TEMP": str(tmp_path / "runner"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    inputs = {
        "settings": "-x $(touch pwned) *.toml",
        "fail-on": "leak confounded",
        "ceiling": "auc=0.7 *",
        "fail-above": "auc=0.6 *",
        "name": "two words",
    }
    done = run_step("Audit", inputs, tmp_path, **env)
    assert done.returncode == code, done.stderr
    gate = ["--fail-on", "leak", "--fail-on", "confounded", "--ceiling", "auc=0.7"]
    gate += ["--ceiling", "*", "--fail-above", "auc=0.6", "--fail-above", "*"]
    audited, *exported = logged(tmp_path)
    assert audited == ["audit", *gate, "--run", str(run), "--", inputs["settings"]]
    assert not (tmp_path / "pwned").exists()
    assert (tmp_path / "output").exists() == bool(exported) == (audit != 2)
    for words in exported:
        assert words[: len(gate) + 3] == ["export", *gate, "--settings", inputs["settings"]]
        assert words[-2:] == ["--", str(run)]


@pytest.mark.parametrize(
    ("audit", "export", "code"),
    [(0, 0, 0), (1, 0, 1), (3, 3, 3), (4, 4, 4), (2, 0, 2), (0, 2, 1)],
)
def test_a_pipeline_ends_as_its_audit_does(
    tmp_path: Path, audit: int, export: int, code: int
) -> None:
    for name in ("divulge", "python"):
        program(tmp_path / "bin", name, FAKE)
    lines = PIPELINE["privacy"]["script"]
    env = {
        **{key: str(value) for key, value in PIPELINE["variables"].items()},
        "DIVULGE": "./divulge.whl",
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "LOG": str(tmp_path / "log"),
        "AUDIT": str(audit),
        "EXPORT": str(export),
        "RUN": "divulge-run",
    }
    done = subprocess.run([BASH, "-eo", "pipefail", "-c", "\n".join(lines)],
                          cwd=tmp_path, env=os.environ | env, check=False)  # fmt: skip
    assert done.returncode == code
    installed, audited, *exported = logged(tmp_path)
    assert installed == ["-m", "pip", "install", "./divulge.whl"]
    assert audited == ["audit", "--fail-on", "leak", "--run", "divulge-run", "audit.toml"]
    assert bool(exported) == (audit != 2)


@pytest.mark.parametrize(
    "name",
    ["../x", "a/b", "a\\b", "..", ".", "a..b", "a\nrun=/etc", "a\rb", "", " a", "a.", "ä",
     "a" * 101, "$(touch pwned)", "a:b"],
)  # fmt: skip
def test_a_name_that_leads_elsewhere_is_refused_before_the_audit(tmp_path: Path, name: str) -> None:
    program(tmp_path / "bin", "divulge", FAKE)
    env = {
        "LOG": str(tmp_path / "log"),
        "RUNNER_TEMP": str(tmp_path / "runner"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    done = run_step("Audit", {"name": name}, tmp_path, **env)
    assert done.returncode == 2
    (line,) = done.stdout.splitlines()
    assert line.startswith("::error::expected up to 100 letters")
    assert not {"log", "output", "runner", "pwned"} & {one.name for one in tmp_path.iterdir()}


@pytest.mark.parametrize("extras", ["torch]", "torch onnx", "torch,", "../x", "torch\nonnx"])
def test_extras_that_are_no_names_are_refused(tmp_path: Path, extras: str) -> None:
    program(tmp_path / "bin", "python", FAKE)
    done = run_step("Install divulge", {"extras": extras}, tmp_path, LOG=str(tmp_path / "log"))
    assert done.returncode == 2
    assert not (tmp_path / "log").exists()


def test_a_pipeline_that_is_not_told_what_to_install_stops(tmp_path: Path) -> None:
    for name in ("divulge", "python"):
        program(tmp_path / "bin", name, FAKE)
    env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "LOG": str(tmp_path / "log")}
    script = "\n".join(PIPELINE["privacy"]["script"])
    assert PIPELINE["variables"]["DIVULGE"] == ""
    done = subprocess.run(
        [BASH, "-eo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=os.environ | env | {"DIVULGE": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "say in this variable what pip installs" in done.stderr
    assert not (tmp_path / "log").exists()


@pytest.mark.slow
def test_the_action_audits_the_example_and_says_what_it_found(tmp_path: Path) -> None:
    place = tmp_path / "gate"
    shutil.copytree(EXAMPLE, place)
    use_real_divulge(place)
    env = {
        "RUNNER_TEMP": str(tmp_path / "runner"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    done = run_step("Audit", {"fail-above": "auc=0.99"}, place, **env)
    assert done.returncode == 3, done.stderr
    run = tmp_path / "runner" / "divulge" / "divulge"
    assert (tmp_path / "output").read_text() == f"run={run}\n"
    assert "**Gate failed: " in (tmp_path / "summary").read_text(encoding="utf-8")
    kept = STEPS["Keep the report"]["with"]["path"].split("\n")
    for path in filter(None, kept):
        name = path.strip().removeprefix("${{ steps.audit.outputs.run }}/")
        assert (run / name).is_file()


def test_the_example_has_settings_of_pytest_that_are_not_ours() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider"],
        cwd=EXAMPLE,
        env=os.environ | {"PYTEST_ADDOPTS": "", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "configfile: pytest.ini" in done.stdout
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_example_fails_and_passes_as_its_page_says(tmp_path: Path) -> None:
    place = tmp_path / "gate"
    shutil.copytree(EXAMPLE, place)
    use_real_divulge(place)
    program(place / "bin", "pytest", f'#!/bin/sh\nexec "{sys.executable}" -m pytest "$@"\n')
    env = os.environ | {
        "PATH": f"{place / 'bin'}:{os.environ['PATH']}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p pytest_divulge -p no:cacheprovider",
    }
    blocks = re.findall(r"^```sh\n(.*?)^```", (place / "README.md").read_text("utf-8"), re.M | re.S)
    commands = [line for block in blocks for line in block.splitlines()]
    install, *others = commands
    assert shlex.split(install)[:2] == ["pip", "install"]
    ends = {}
    for command in others:
        done = subprocess.run([BASH, "-c", command], cwd=place, env=env,
                              capture_output=True, text=True, check=False)  # fmt: skip
        ends[command] = done.returncode, done.stdout + done.stderr
    codes = [code for code, _ in ends.values()]
    assert codes == [3, 3, 0, 0, 0], ends
    assert "1 passed" in ends["pytest"][1]
