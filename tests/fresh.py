"""The README's two commands in a fresh clone, timed: ``make fresh``; ``FRESH=demo`` takes one.

Nothing of this environment is handed on but the path of the system's programs, and pip's own
settings. In a bare container it shows what a new machine needs; the clone has what is committed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = re.compile(r"PATH|PIP_\w+|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|\w*_proxy", re.IGNORECASE)
"""Variables that a new machine has too: where programs are, and how an index is reached."""


def commands() -> list[str]:
    """The targets of make that the README tells a newcomer to run."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^make (\w+) ", text, re.MULTILINE)


def time_commands(targets: list[str]) -> int:
    """Run these targets in a fresh clone; 0 if all succeed."""
    bare = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
    own = str(Path(sys.prefix) / "bin")
    bare["PATH"] = os.pathsep.join(one for one in bare["PATH"].split(os.pathsep) if one != own)
    failed, make, git = [], shutil.which("make") or "make", shutil.which("git") or "git"
    with tempfile.TemporaryDirectory(prefix="divulge-fresh-") as folder:
        clone = Path(folder) / "divulge"
        env = bare | {"HOME": folder}
        # a folder of another user, as in a container, is not safe to git unless that is said
        safe = ["-c", f"safe.directory={ROOT}/.git"]
        subprocess.run([git, *safe, "clone", "--quiet", "--depth", "1", ROOT.as_uri(), clone],
                       env=env, check=True)  # fmt: skip
        for target in targets:
            begun = time.monotonic()
            done = subprocess.run([make, target], cwd=clone, env=env, check=False)
            seconds = time.monotonic() - begun
            verdict = "ok" if done.returncode == 0 else f"FAILED with {done.returncode}"
            sys.stdout.write(f"make {target} in a fresh clone: {seconds:.0f} s, {verdict}\n")
            sys.stdout.flush()
            failed += [target] * (done.returncode != 0)
    return 1 if failed else 0


if __name__ == "__main__":
    known = commands()
    asked = sys.argv[1:] or known
    if unknown := set(asked) - set(known):
        sys.exit(f"expected some of {', '.join(known)}, got {', '.join(sorted(unknown))}")
    sys.exit(time_commands(asked))
