#!/usr/bin/env python3
"""Exchanges resnet18 and resnet50 with PyTorch, both ways, as safetensors files.

    bazel build //tests/nn:model_scores
    VENV/bin/python tests/golden/compare_models.py      with torch, safetensors and numpy in VENV

PyTorch's random weights are saved, loaded here, and the scores of four images compared; then this
library's file is loaded there, with strict=True. Prints the largest difference of a score, relative
to the largest score; ends with 1 if one exceeds 1e-5. PyTorch's networks are torchvision's if that
is installed too, otherwise those of make_golden.py; the first line says which.
"""
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file

sys.dont_write_bytecode = True
import make_golden  # noqa: E402  (the architecture)

try:
    import torchvision
except ModuleNotFoundError as error:
    if error.name != 'torchvision':
        raise
    torchvision = None

ROOT = pathlib.Path(__file__).parents[2]


def make(name):
    return getattr(torchvision.models, name)().eval() if torchvision else make_golden.resnet(name)


def random_model(name):
    net = make(name)
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, 0, 0.1)
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
            module.num_batches_tracked.fill_(5)
    return net


def difference(name, folder):
    net, images = random_model(name), torch.randn(4, 3, 224, 224)
    theirs, ours = folder / 'theirs.safetensors', folder / 'ours.safetensors'
    save_file({**net.state_dict(), 'input': images}, theirs)
    subprocess.run([ROOT / 'bazel-bin/tests/nn/model_scores', name, theirs, ours], check=True)
    state = load_file(ours)
    scores = state.pop('scores')
    returned = make(name)
    returned.load_state_dict(state, strict=True)
    for key, tensor in net.state_dict().items():
        if not key.endswith('num_batches_tracked') and not torch.equal(returned.state_dict()[key], tensor):
            raise ValueError(f'{name}: {key} must come back as it was; got other values')
    with torch.no_grad():
        expected = net(images)
    return ((scores - expected).abs().max() / expected.abs().max()).item()


def main():
    torch.manual_seed(0)
    print('torchvision', torchvision.__version__) if torchvision else print('make_golden.py')
    with tempfile.TemporaryDirectory() as folder:
        differences = {name: difference(name, pathlib.Path(folder)) for name in ('resnet18', 'resnet50')}
    for name, value in differences.items():
        print(f'{name}: {value:.1e}')
    return int(max(differences.values()) > 1e-5)


if __name__ == '__main__':
    sys.exit(main())
