"""The run folder: everything an audit found, readable years later without model, data or torch.

    RUN/
      run.json          kind, schema version, settings, seed, environment, what the audit is about
      candidates.npz    of membership: member, label, index; ids, ease0, ease1 if any
      findings/KEY.json a finding with its controls; KEY.npz its guess; KEY.seconds its time
      shadows/KEY.npy   what the shadow models say of the candidates and reference records, one row
                        a model; KEY.json which rows count
      answers.sqlite    the model's answers, so that none is asked for twice
      report.html, summary.json, summary.md, exposed.csv, figures/

Each file is written beside its place and moved there, so that it is whole or absent; a finding's
JSON comes last and makes it count. KEY is a digest of the challenge, the attack's settings and
the seed: what was computed for other data or another model is never taken for this one's. The
time an attack took stands in a file of its own, so findings are the same, bit for bit, however
often the work was interrupted. Folders and files are readable by their owner alone.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from divulge._util import atomic
from divulge._util.folders import create_folder, hold_folder, take_folder
from divulge.core import (
    Candidates,
    Contents,
    Entry,
    Facts,
    Head,
    Status,
)
from divulge.core.runs import AssignmentFacts, MembershipFacts
from divulge.errors import StoreError
from divulge.finished_runs import finding_files
from divulge.finished_runs.run_json import (
    HEAD,
    SEALED,
    WITHIN,
    continue_head,
    has_head,
    load_head,
    refuse_linked_folders,
    refuse_other_folder,
    store_head,
)
from divulge.report.verdict_facts import deciding_fpr

CANDIDATES = "candidates.npz"


@dataclass(frozen=True, slots=True)
class Run:
    """A run folder on disk."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> "Run":
        """A new folder for the owner alone.

        Raises:
            StoreError: it exists with something in it, or cannot be made.
        """
        create_folder(path, resumes=True)
        with atomic.translate_os_errors(path):
            (path / "findings").mkdir(mode=0o700)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "Run":
        """An existing folder.

        Raises:
            StoreError: it is not there, or holds no run.
        """
        if not (path / "findings").is_dir():
            refuse_other_folder(path)
        refuse_linked_folders(path)
        return cls(path)

    def continues(self, head: Head[Facts]) -> Head[Facts]:
        """The head as `begin` writes it, with the date of the run that is continued.

        Raises:
            StoreError: the folder belongs to another challenge.
        """
        return continue_head(self.path, head, "data, truth, model, seed and delta")

    def begin(self, head: Head[Facts], candidates: Candidates | None) -> Head[Facts]:
        """Write what does not depend on any attack; of a run that is continued it keeps the date.

        Raises:
            StoreError: the folder belongs to another challenge, or cannot be written.
        """
        head = self.continues(head)
        if candidates is not None:
            arrays = {
                "member": candidates.member,
                "label": candidates.label,
                "index": candidates.index,
            }
            if candidates.ids is not None:
                arrays["ids"] = candidates.ids
            if candidates.ease is not None:
                arrays |= {f"ease{k}": row for k, row in enumerate(candidates.ease)}
            for name in ("person", "subpopulation"):
                if (numbers := getattr(candidates, name)) is not None:
                    arrays[name] = numbers
            self.write(CANDIDATES, atomic.pack_arrays(arrays))
        return store_head(self.path, head, () if candidates is None else (CANDIDATES,))

    def head(self) -> Head[Facts]:
        """``run.json``.

        Raises:
            StoreError: it is missing, damaged, of a newer schema, or of another kind of run.
        """
        return load_head(self.path, "audit", Facts)

    def write(self, name: str, content: str | bytes) -> Path:
        """Write one file of the folder, atomically; returns its path.

        Raises:
            StoreError: it cannot be written.
        """
        data = content.encode() if isinstance(content, str) else content
        return atomic.write_within(self.path, name, data)

    def put(self, key: str, entry: Entry) -> None:
        """Store a finding; its JSON file comes last and makes it count.

        Raises:
            StoreError: it cannot be written.
        """
        finding_files.write(self.path, key, entry)

    def get(self, key: str, *, sealed: bool = True) -> Entry | None:
        """A stored finding, or None.

        Args:
            key: of the finding.
            sealed: whether it has to carry a checksum; see `run_json.SEALED`.

        Raises:
            StoreError: it is damaged.
        """
        return finding_files.read(self.path, key, sealed=sealed)

    def entries(self) -> dict[str, Entry]:
        """By key, the findings that are there of those asked for.

        Raises:
            StoreError: one is damaged.
        """
        return self._entries(self.head())

    def _entries(self, head: Head[Facts]) -> dict[str, Entry]:
        stored = {key: self.get(key, sealed=head.schema >= SEALED) for key in head.findings}
        return {key: entry for key, entry in stored.items() if entry is not None}

    def contents(self) -> Contents:
        """The whole run.

        Raises:
            StoreError: a part is missing, damaged, or does not fit the others.
        """
        head = self.head()
        facts = head.facts
        candidates = self._candidates(facts) if isinstance(facts, MembershipFacts) else None
        if len(head.attacks) != len(head.findings):
            raise atomic.damaged_file_error(
                self.path / HEAD, ValueError("more or fewer findings than attacks")
            )
        entries = {}
        for key, entry in self._entries(head).items():
            if candidates is not None:
                self._check_scores(key, entry, candidates)
            done = entry.finding.status is Status.DONE
            known = isinstance(facts, AssignmentFacts) and facts.owners is not None
            if done and known and "accuracy" not in entry.finding.metrics:
                place = self.path / "findings" / f"{key}.json"
                raise atomic.damaged_file_error(place, ValueError("no metric accuracy"))
            entries[entry.finding.label] = entry
        return Contents(
            head,
            candidates,
            tuple(entries[name] for name in head.attacks if name in entries),
            tuple(name for name in head.attacks if name not in entries),
        )

    def _candidates(self, facts: MembershipFacts) -> Candidates:
        path = self.path / CANDIDATES
        arrays = atomic.read_arrays(path, "member", "label", "index")
        member, label, index = (arrays[name] for name in ("member", "label", "index"))
        ids = arrays.get("ids")  # older runs have none, nor an ease
        measures = [arrays[name] for name in sorted(arrays) if name.startswith("ease")]
        fits = len(member) == len(label) == len(index) and member.dtype == np.bool_
        fits &= all(array.dtype.kind in "iu" and not (array < 0).any() for array in (label, index))
        if not fits or (ids is not None and (len(ids) != len(member) or ids.dtype.kind != "U")):
            raise StoreError(
                f"expected a flag, a label and an index per candidate in {self.path}, "
                "got arrays that do not fit: the run is damaged"
            )
        if not all(_fits_ease(measure, len(member)) for measure in measures):
            raise atomic.damaged_file_error(path, ValueError("an ease that does not fit"))
        sizes = int(member.sum()), int((~member).sum())
        if sizes != (facts.members, facts.nonmembers) or not all(sizes):
            raise atomic.damaged_file_error(
                path, ValueError(f"{sizes[0]} members and {sizes[1]} non-members")
            )
        ease = np.stack(measures) if measures else None
        further = arrays.get("person"), arrays.get("subpopulation")
        _check_people(path, facts, member, *further)
        return Candidates(member, label, index, ids, ease, *further)

    def _check_scores(self, key: str, entry: Entry, candidates: Candidates) -> None:
        """Refuse a finding whose scores or metrics are not those of an attack on membership."""
        score, size = entry.arrays.get("score"), len(candidates.member)
        if score is not None and (score.shape != (size,) or score.dtype != np.float64):
            raise StoreError(
                f"expected {size} scores in {self.path}/findings/{key}.npz, got {score.dtype} of "
                f"shape {score.shape}: the run is damaged"
            )
        fpr = deciding_fpr(int((~candidates.member).sum()))
        wanted = {"auc"} if fpr is None else {"auc", f"tpr@{fpr:g}"}
        metrics, place = entry.finding.metrics, self.path / "findings" / f"{key}.json"
        if entry.finding.status is Status.DONE and (lost := wanted - metrics.keys()):
            raise atomic.damaged_file_error(place, ValueError(f"no metric {min(lost)}"))
        for name, estimate in metrics.items():
            highest = np.inf if name == "epsilon" else 1.0
            numbers = [estimate.value, estimate.low, estimate.high or estimate.value]
            if not all(-(name == "advantage") <= number <= highest for number in numbers):
                raise atomic.damaged_file_error(place, ValueError(f"{name} of {max(numbers):g}"))


def _check_people(
    path: Path,
    facts: MembershipFacts,
    member: np.ndarray,
    person: np.ndarray | None,
    subpopulation: np.ndarray | None,
) -> None:
    """Refuse records that are not those of the people in the facts, and numbers that do not fit.

    Raises:
        StoreError: the run is damaged.
    """
    fits = (person is None) == (facts.people is None)
    if person is not None and facts.people is not None and fits:
        fits = person.dtype.kind in "iu" and np.array_equal(
            np.unique(person), np.arange(len(member))
        )
        # fewer where copies were left out
        fits = fits and np.bincount(person).max() <= facts.people.most
        inside = int(member[person].sum()) if fits else 0
        fits = fits and (inside, len(person) - inside) == (
            facts.people.members,
            facts.people.nonmembers,
        )
    fits = fits and (subpopulation is None) == (facts.strata is None)
    if subpopulation is not None and facts.strata is not None and fits:
        strata = len(facts.strata.names) + (facts.strata.merged > 0)
        fits = subpopulation.shape == member.shape and subpopulation.dtype.kind in "iu"
        fits = fits and bool(np.isin(subpopulation, np.arange(strata)).all())
    if not fits:
        raise atomic.damaged_file_error(
            path, ValueError("people or subpopulations that do not fit")
        )


def _fits_ease(measure: np.ndarray, records: int) -> bool:
    fits = measure.shape == (records,) and measure.dtype == np.float64
    return bool(fits and np.isfinite(measure).all())


PREPARATIONS = (HEAD, CANDIDATES, "*.npy", "*.way.json")
"""What stands in a run folder before the first model is trained, and the first answer is kept."""


def take_run_folder(path: Path) -> AbstractContextManager[None]:
    """Make a run folder unless it is there, and work in it alone; see `take_folder`."""
    return take_folder(path, PREPARATIONS)


@contextmanager
def open_run_folder(run: str | Path | None, *, resume: bool) -> Iterator[Run | None]:
    """A new run folder, or one to be continued, for this process alone; None where none is asked.

    Raises:
        StoreError: another process works in it, or it cannot be made.
    """
    if run is None:
        yield None
        return
    path = Path(run)
    with take_run_folder(path):
        begun = resume and (path / "findings").is_dir()
        yield Run.open(path) if begun else Run.create(path)


def hold_run(path: Path | None) -> AbstractContextManager[None]:
    """Work in a run folder that is there alone, and in those around it.

    The targets of audits in turn, and the defences of a comparison, are run folders within one:
    they are held with it. Without a folder there is nothing to hold.

    Raises:
        StoreError: another process works in it.
    """
    if path is None:
        return nullcontext()
    root = path.resolve()
    while root.parent.name in WITHIN and has_head(root.parent.parent):
        root = root.parent.parent
    return hold_folder(root)
