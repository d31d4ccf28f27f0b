"""Which outputs of an ONNX model hold its answers, by their names, types and shapes alone."""

from types import SimpleNamespace
from typing import Any

import pytest

from divulge.errors import TargetError
from divulge.targets.onnx_outputs import ChosenOutputs, choose_outputs

Listed = tuple[tuple[str, str, tuple[Any, ...]], ...]

LABEL: Listed = (("label", "tensor(int64)", ("n",)),)
SOFT: Listed = (("probabilities", "tensor(float)", ("n", 3)),)
MAPS: Listed = (("output_probability", "seq(map(string,tensor(float)))", ()),)
VALUE: Listed = (("variable", "tensor(double)", ("n", 1)),)
WIDE: Listed = (("embedding", "tensor(float)", ("n", 8, 8)),)


def choose(listed: Listed, output: Any, wanted: str | None = None) -> ChosenOutputs:
    tensors = [SimpleNamespace(name=n, type=kind, shape=list(shape)) for n, kind, shape in listed]
    return choose_outputs(SimpleNamespace(get_outputs=lambda: tensors), output, wanted)


@pytest.mark.parametrize(
    ("listed", "output", "chosen", "form", "label"),
    [
        (SOFT, "probabilities", ("probabilities",), "tensor", None),
        (LABEL + SOFT, "probabilities", ("probabilities",), "tensor", "label"),
        (LABEL + SOFT + WIDE, "logits", ("probabilities",), "tensor", "label"),
        (LABEL + MAPS, "probabilities", ("output_probability",), "maps", "output_probability"),
        (LABEL + SOFT, "labels", ("label",), "tensor", "label"),
        ((("y", "tensor(bool)", ("n", None)),), "labels", ("y",), "tensor", None),
        ((("y", "tensor(string)", ("n", 1)),), "labels", ("y",), "tensor", "y"),
        (VALUE, "values", ("variable",), "tensor", None),
        ((("v", "tensor(float16)", ("n",)),), "values", ("v",), "tensor", None),
        ((("v", "tensor(float)", ("n", "m")),), "values", ("v",), "tensor", None),
        (VALUE + WIDE + LABEL, "values", ("variable",), "tensor", "label"),
        # the name decides between two, where there is a label beside them
        (
            (*LABEL, *SOFT, ("logits", "tensor(float)", ("n", 3))),
            "logits", ("logits",), "tensor", "label",
        ),
        # a column for each class
        (
            (*LABEL, ("cat", "tensor(float)", ("n", 1)), ("dog", "tensor(float)", ("n",))),
            "probabilities", ("cat", "dog"), "columns", "label",
        ),
    ],
)  # fmt: skip
def test_the_output_that_fits_is_chosen(
    listed: Listed, output: str, chosen: tuple[str, ...], form: str, label: str | None
) -> None:
    assert choose(listed, output) == ChosenOutputs(chosen, form, label)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("listed", "output", "wanted", "said"),
    [
        (LABEL, "probabilities", None, "floats, one row a record"),
        (WIDE, "probabilities", None, "floats, one row a record"),
        (LABEL, "values", None, "floats, one row a record"),
        (SOFT, "values", None, "floats, one row a record"),  # three numbers a record
        (WIDE, "values", None, "floats, one row a record"),
        ((("v", "tensor(float)", ("n", 1, 1)),), "values", None, "floats, one row a record"),
        (SOFT, "labels", None, "integers, one a record"),
        ((("y", "tensor(int64)", ("n", 3)),), "labels", None, "integers, one a record"),
        (LABEL + SOFT, "probabilities", "label", "the output 'label'"),
        ((*SOFT, ("other", "tensor(float)", ("n", 3))), "probabilities", None, "one output with"),
        # without a label, columns are no classes
        (
            (("cat", "tensor(float)", ("n", 1)), ("dog", "tensor(float)", ("n", 1))),
            "probabilities", None, 'output_name="cat" or output_name="dog"',
        ),
        # of three columns each, neither is a class
        (
            (*LABEL, ("a", "tensor(float)", ("n", 3)), ("b", "tensor(float)", ("n", 3))),
            "logits", None, "got 2 that could be it",
        ),
        ((*LABEL, *VALUE, ("w", "tensor(float)", ("n",))), "values", None, "got 2 that could be"),
    ],
)  # fmt: skip
def test_what_fits_no_output_or_several_is_refused(
    listed: Listed, output: str, wanted: str | None, said: str
) -> None:
    with pytest.raises(TargetError, match=said):
        choose(listed, output, wanted)
