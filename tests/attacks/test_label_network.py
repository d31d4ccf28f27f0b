"""The stacking network's gradients, against those that PyTorch finds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch: Any = pytest.importorskip("torch")

from divulge.attacks.assignment.stacking.network import _TwoBranchNetwork  # noqa: E402 (needs torch)


@given(st.integers(0, 2**31), st.integers(2, 6), st.integers(1, 40))
def test_gradients_by_hand_are_those_of_the_graph(seed: int, classes: int, records: int) -> None:
    torch.manual_seed(seed)
    network = _TwoBranchNetwork(classes)
    x, y = torch.randn(records, classes), torch.randint(classes, (records,))
    wanted = torch.randint(2, (records,)).float()

    loss = torch.nn.functional.binary_cross_entropy_with_logits(network(x, y), wanted)
    naive = torch.autograd.grad(loss, network.weights)
    with torch.no_grad():
        network.differentiate(x, y, wanted)

    for weight, gradient in zip(network.weights, naive, strict=True):
        torch.testing.assert_close(weight.grad, gradient)
