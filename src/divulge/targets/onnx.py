"""Query models in ONNX files through ONNX Runtime, on the CPU."""

import hashlib
import mmap
import re
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float, Shaped

from divulge._util import untrusted
from divulge._util.arguments import Count, check_arguments
from divulge._util.extras import name_missing_extra
from divulge.core import Need
from divulge.data.class_keys import find_places, own_numbers
from divulge.data.class_names import show
from divulge.errors import TargetError
from divulge.targets.batching import query_in_batches, translate_model_errors
from divulge.targets.onnx_labels import Labels, read_labels
from divulge.targets.onnx_outputs import choose_outputs
from divulge.targets.outputs import Output, access_of, to_answers

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int16)": np.int16,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}


@check_arguments
@final
class OnnxTarget:
    """A model with one input; records are cast to the type that it declares.

    Args:
        path: the .onnx file.
        output: what the model returns.
        output_name: which of its outputs to read; needed where several could hold the answers.
        batch_size: how many records to ask at a time, unless the file fixes it.
        classes: how many classes there are; only labels need it, where the file does not say.

    Raises:
        TargetError: the file cannot be run, or has no such output.
        MissingExtra: onnxruntime is not installed.
    """

    def __init__(
        self,
        path: str | Path,
        output: Output = "probabilities",
        output_name: str | None = None,
        batch_size: Count = 1024,
        classes: int | None = None,
    ) -> None:
        self._session = _open_session(Path(path))
        self._output: Output = output
        self._input = _find_only_input(self._session)
        self._chosen = choose_outputs(self._session, output, output_name)
        named_by = self._chosen.label
        self.class_labels: Labels = read_labels(Path(path), named_by) if named_by else ()
        """The labels of the classes in their order; none where the file does not say them."""
        self._columns = own_numbers(self.class_labels) or list(range(len(self.class_labels)))
        self._classes = classes or max(self._columns, default=-1) + 1 or None
        self._check_labels()
        first = self._input.shape[0] if self._input.shape else None
        # A file exported without a dynamic axis takes exactly as many records as its example had.
        self._limits = (first, first) if isinstance(first, int) else (1, None)
        self._batch_size = batch_size

    @property
    def offers(self) -> Need:
        """What its answers allow."""
        return access_of(self._output)

    def predict(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Float[np.ndarray, "records classes"]:
        """Probabilities or values in float64.

        Raises:
            TargetError: the model failed, or its answers are not what ``output`` says.
        """
        with translate_model_errors(
            "the ONNX model to answer", "check the shape and type of the records"
        ):
            raw = query_in_batches(self._ask, self._cast(x), self._batch_size, *self._limits)
        answers = to_answers(raw, self._output, len(x), self._classes)
        if self._output in ("labels", "values") or not self.class_labels:
            return answers
        if answers.shape[1] != len(self._columns):
            raise TargetError(
                f"expected {len(self._columns)} columns, one for each of the labels "
                f"{show(self.class_labels)} in the file, got {answers.shape[1]}: pass "
                "output_name=, the output with one column a class"
            )
        placed = np.zeros((len(answers), max(self._columns) + 1))
        placed[:, self._columns] = answers
        return placed

    def _ask(self, batch: Shaped[np.ndarray, " batch *features"]) -> Shaped[np.ndarray, "..."]:
        outputs = self._session.run(list(self._chosen.names), {self._input.name: batch})
        if self._chosen.form == "maps":
            return np.array(
                [[scores[label] for label in self.class_labels] for scores in outputs[0]]
            )
        if self._chosen.form == "columns":
            return np.hstack([np.reshape(scores, (len(batch), 1)) for scores in outputs])
        answers = np.asarray(outputs[0])
        if answers.dtype.kind in "OUS":
            places = find_places(set(answers.ravel().tolist()), self.class_labels)
            answers = np.array([places[label] for label in answers.ravel().tolist()])
        return answers.reshape(len(answers)) if self._output == "labels" else answers

    def _check_labels(self) -> None:
        """Refuse a form of answers that cannot be read without labels that the file does not say.

        Raises:
            TargetError: the labels are needed.
        """
        chosen, known = self._chosen, len(self.class_labels)
        names = ", ".join(chosen.names)
        if chosen.form == "maps" and not known:
            raise TargetError(
                f"expected the labels of the maps in the output {names}, got a file that does not "
                'say them: export again with options={"zipmap": False}'
            )
        if chosen.form == "columns" and known not in (0, len(chosen.names)):
            raise TargetError(
                f"expected an output for each of the labels {show(self.class_labels)}, got "
                f'{names}: export again with options={{"zipmap": False}}'
            )
        types = {answer.name: answer.type for answer in self._session.get_outputs()}
        if types[chosen.names[0]] == "tensor(string)" and not known:
            raise TargetError(
                f"expected labels as numbers in the output {names}, got texts whose order the file "
                "does not say: export the model with probabilities"
            )

    def _cast(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Shaped[np.ndarray, " records *features"]:
        cast: np.ndarray = x.astype(_TYPES[self._input.type])
        if x.dtype.kind == "f" and cast.dtype.kind != "f" and (cast != x).any():
            raise TargetError(
                f"expected whole numbers for an input of type {self._input.type}, got fractions: "
                "prepare the records as for training"
            )
        return cast


def fingerprint_onnx(path: Path) -> str:
    """The BLAKE2b hash of a model: of its file, and of the files that hold its weights, if any.

    Raises:
        TargetError: a file cannot be read.
    """
    digest = hashlib.blake2b()
    for each in (path, *_weight_files(path)):
        with untrusted.open_file(each, untrusted.MAX_DATA_BYTES, TargetError) as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()


_LOCATION = re.compile(rb"\n\x08location\x12([\x01-\x7f]|[\x80-\xff][\x01-\x1f])")
"""How ONNX's protocol buffers begin the name of a file with weights: a key, and a text's length."""


def _weight_files(path: Path) -> list[Path]:
    """The files beside a model that hold its weights, as it names them.

    Raises:
        TargetError: one of them is not there, or is no ordinary file in the model's folder.
    """
    listed = set()
    with (
        untrusted.open_file(path, untrusted.MAX_DATA_BYTES, TargetError) as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        for match in _LOCATION.finditer(content):
            low, *high = match[1]
            length = low if not high else (low & 0x7F) | high[0] << 7
            listed.add(content[match.end() : match.end() + length].decode(errors="replace"))
    files = [untrusted.path_within(path.parent, name, TargetError) for name in sorted(listed)]
    for each in files:
        untrusted.check_file(each, untrusted.MAX_DATA_BYTES, TargetError)
    return files


def _open_session(path: Path) -> Any:
    with name_missing_extra():
        import onnxruntime
    _weight_files(path)  # ONNX Runtime would wait for ever to open a pipe
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is raised, and said once
    with translate_model_errors(f"{path} to be an ONNX model", "export it again"):
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _find_only_input(session: Any) -> Any:
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type not in _TYPES:
        listed = ", ".join(f"{i.name}: {i.type}" for i in inputs) or "none"
        raise TargetError(
            f"expected a model with one numeric input, got {listed}: export one that takes the "
            "features as a single tensor"
        )
    return inputs[0]
