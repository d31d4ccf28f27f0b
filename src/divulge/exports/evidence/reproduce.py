"""Repeat the audit of this pack, and compare what comes out with what the pack says.

    python reproduce.py SETTINGS RUN

SETTINGS is the audit.toml, beside the model and the data that it names: they are not in the pack.
RUN is a new folder. Ends with 0 if model, data, settings and figures are the same, else with 1.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import divulge
from divulge.exports.evidence.pack import describe_run


def main(settings: str, run: str) -> int:
    """Audit again and print each figure beside the earlier one; returns the exit code."""
    told = json.loads((Path(__file__).parent / "manifest.json").read_text(encoding="utf-8"))
    here = version("divulge")
    if here != told["divulge"]:
        print(f"divulge {here} repeats an audit by {told['divulge']}")  # noqa: T201
    divulge.audit_file(settings, run)
    again = describe_run(Path(run))
    same = again.challenge == told["challenge"]
    if not same:
        print("The model, the data, the seed or what is known of them is another")  # noqa: T201
    for name in sorted({*told["figures"], *again.figures}):
        before, after = told["figures"].get(name), again.figures.get(name)
        same = same and before == after
        print("same " if before == after else "OTHER", name, before, after)  # noqa: T201
    return 0 if same else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
