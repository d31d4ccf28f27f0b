"""Networks that experiments train, by what their structure promises."""

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from divulge_papers import networks  # noqa: E402 (needs torch)


def test_each_network_answers_one_row_of_logits_a_record() -> None:
    torch.manual_seed(0)
    images = torch.rand(5, 3, 16, 16)
    for made in (
        networks.perceptron(768, 32, 10),
        networks.resnet((4, 8, 16), 10),
        networks.resnet18(10),
        networks.vit(16, 4, 32, 2, 10),
    ):
        network = made().eval()
        answers = network(images)
        assert answers.shape == (5, 10)
        torch.testing.assert_close(network(images[:1]), answers[:1], rtol=1e-4, atol=1e-5)


def test_a_residual_block_whose_convolutions_say_nothing_hands_on_its_input() -> None:
    block = networks.ResidualBlock(4, 4, 1).eval()
    for layer in block.long:
        if isinstance(layer, torch.nn.BatchNorm2d):
            torch.nn.init.zeros_(layer.weight)
    x = torch.rand(2, 4, 8, 8)
    torch.testing.assert_close(block(x), x)


def test_the_transformer_knows_a_patch_by_its_position_alone() -> None:
    """Patches in another order, and their positions likewise: the same answer; without, another."""
    torch.manual_seed(0)
    network: Any = networks.vit(8, 4, 16, 2, 3)().eval()
    images = torch.rand(2, 3, 8, 8)
    rows_swapped = torch.cat([images[:, :, 4:], images[:, :, :4]], dim=2)
    before, other = network(images), network(rows_swapped)
    assert not torch.allclose(before, other, atol=1e-4)
    with torch.no_grad():
        network.positions.copy_(network.positions[[2, 3, 0, 1]])
    torch.testing.assert_close(network(rows_swapped), before, rtol=1e-4, atol=1e-5)
