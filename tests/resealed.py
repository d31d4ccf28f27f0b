"""Files of a run folder that are changed by somebody who makes their checksums anew."""

import json
from pathlib import Path
from typing import Any

from divulge._util.seals import SEAL, digest_file, seal_json


def write(place: Path, content: dict[str, Any]) -> None:
    """Write a JSON file of a run folder with other content, and the checksum of that."""
    members = {key: value for key, value in content.items() if key != SEAL}
    place.write_bytes(seal_json(json.dumps(members), place.name))


def renew(run: Path, name: str) -> None:
    """Let the head of a run have the checksum that a file has now; none, where it is gone."""
    head = json.loads((run / "run.json").read_text())
    head["digests"].pop(name)
    if (run / name).exists():
        head["digests"][name] = digest_file(run / name)
    write(run / "run.json", head)
