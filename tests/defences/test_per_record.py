"""Layer normalisation in place of batch normalisation."""

import torch
from torch import nn
from torch.nn.functional import layer_norm as reference

from divulge.defences.training.dp_sgd.loop import layer_norm


def network() -> nn.Module:
    images = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, eps=1e-3), nn.ReLU())
    return nn.Sequential(images, nn.Flatten(), nn.Linear(8 * 36, 5), nn.BatchNorm1d(5))


def test_no_batch_normalisation_is_left_and_the_rest_is_the_same() -> None:
    before = network()
    after = layer_norm(before)
    kinds = [type(layer) for layer in after.modules()]
    assert not any(issubclass(kind, nn.modules.batchnorm._BatchNorm) for kind in kinds)
    assert kinds.count(nn.GroupNorm) == 2
    kept = dict(after.named_parameters())
    for name, p in before.named_parameters():
        assert torch.equal(kept[name], p)
        assert kept[name] is not p  # a copy: the given network is left alone
    assert not list(after.buffers())


def test_it_is_layer_normalisation_over_channels_and_positions() -> None:
    norm = nn.BatchNorm2d(4, eps=1e-3)
    with torch.no_grad():
        norm.weight.uniform_()
        norm.bias.uniform_()
    x = torch.randn(7, 4, 5, 6)
    scale, shift = (t.detach()[:, None, None].expand(4, 5, 6) for t in (norm.weight, norm.bias))
    wanted = reference(x, (4, 5, 6), scale, shift, eps=1e-3)
    # float32: sums of 120 terms of size 1 differ by their order
    torch.testing.assert_close(layer_norm(norm)(x), wanted, rtol=1e-5, atol=1e-5)


def test_a_record_no_longer_depends_on_its_batch() -> None:
    x = torch.randn(6, 3, 8, 8)
    before, after = network().train(), layer_norm(network()).train()
    assert not torch.allclose(before(x)[:1], before(x[:2])[:1])
    # alone and in a batch, float32 products may be summed in another order
    torch.testing.assert_close(after(x)[:1], after(x[:1]), rtol=1e-4, atol=1e-5)


def test_normalisation_without_scale_and_shift_stays_without() -> None:
    norm = layer_norm(nn.BatchNorm1d(3, affine=False))
    assert isinstance(norm, nn.GroupNorm)
    assert not list(norm.parameters())
