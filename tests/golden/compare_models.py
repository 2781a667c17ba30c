#!/usr/bin/env python3
"""Exchanges resnet18 and resnet50 with PyTorch, both ways, as safetensors files.

    bazel build //tests/nn:model_scores
    VENV/bin/python tests/golden/compare_models.py      with torch, safetensors and numpy in VENV

PyTorch's random weights are saved, loaded here, and the scores of four images compared; then this
library's file is loaded there, with strict=True. Prints the largest difference of a score, relative
to the largest score; ends with 1 if one exceeds 1e-5.
"""
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file

sys.dont_write_bytecode = True
import make_golden  # noqa: E402  (the architecture)

ROOT = pathlib.Path(__file__).parents[2]


def random_model(name):
    net = make_golden.resnet(name)
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
    make_golden.resnet(name).load_state_dict(state, strict=True)
    with torch.no_grad():
        expected = net(images)
    return ((scores - expected).abs().max() / expected.abs().max()).item()


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        differences = {name: difference(name, pathlib.Path(folder)) for name in ('resnet18', 'resnet50')}
    for name, value in differences.items():
        print(f'{name}: {value:.1e}')
    return int(max(differences.values()) > 1e-5)


if __name__ == '__main__':
    sys.exit(main())
