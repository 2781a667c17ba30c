"""Peer: training steps in PyTorch, as a Python user writes them.

The same cases, arguments and output as torch_step.cc (benchmarks/cases.h has the contract); run
by the interpreter of any environment that has torch.
"""
import argparse
import os
import re
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCHES = 8
CLASSES = 10
STEP_SECONDS = 1.5


def tiny_mlp():
    return nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 5))


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                         nn.Linear(512, CLASSES))


def convnet():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, CLASSES))


class Block(nn.Module):
    """ResNet-20's basic block; where the shape changes, the shortcut is a 1x1 convolution."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = None
        if inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                          nn.BatchNorm2d(outputs))

    def forward(self, x):
        shortcut = x if self.shortcut is None else self.shortcut(x)
        return self.body(x).add_(shortcut).relu_()


def resnet20():
    layers = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16),
              nn.ReLU(inplace=True)]
    inputs = 16
    for outputs in (16, 32, 64):
        for _ in range(3):
            layers.append(Block(inputs, outputs, 1 if inputs == outputs else 2))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


# name, network, shape of a batch, mean squared error instead of cross entropy
NETWORKS = [
    ('tiny_mlp/B:32', tiny_mlp, (32, 10), True),
    ('mlp/B:128', mlp, (128, 784), False),
    ('convnet/B:128', convnet, (128, 1, 28, 28), False),
    ('resnet20/B:64', resnet20, (64, 3, 32, 32), False),
]


def make_step(make, shape, squared, channels_last):
    """A function that does one training step and returns the loss."""
    torch.manual_seed(0)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    net = make().to(memory_format=layout)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01 if squared else 0.005, momentum=0.9)
    batches = []
    for _ in range(BATCHES):
        target = torch.randn(shape[0], 5) if squared else torch.randint(CLASSES, (shape[0],))
        batches.append((torch.randn(shape).contiguous(memory_format=layout), target))
    criterion = F.mse_loss if squared else F.cross_entropy
    count = 0

    def step():
        nonlocal count
        x, target = batches[count % BATCHES]
        count += 1
        optimizer.zero_grad()
        loss = criterion(net(x), target)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def machine_cpu_seconds():
    with open('/proc/stat') as stat:
        return sum(map(int, stat.readline().split()[1:4])) / os.sysconf('SC_CLK_TCK')


def status_mebibytes(key):
    with open('/proc/self/status') as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(key))


def time_step(step):
    """Median in microseconds, interquartile range in percent, and whether other processes were busy."""
    start = time.perf_counter()
    for _ in range(3):
        step()
    per_step = (time.perf_counter() - start) / 3
    batch = max(1, int(2e-3 / per_step))
    samples = []
    begin, cpu, own = time.perf_counter(), machine_cpu_seconds(), time.process_time()
    for _ in range(min(101, max(9, int(STEP_SECONDS / (per_step * batch))))):
        start = time.perf_counter()
        for _ in range(batch):
            step()
        samples.append((time.perf_counter() - start) / batch)
    foreign = machine_cpu_seconds() - cpu - (time.process_time() - own)
    busy = foreign > 0.03 + 0.06 * (time.perf_counter() - begin)
    low, median, high = statistics.quantiles(samples, n=4)
    return median * 1e6, (high - low) / median * 100, busy


def run(suite, name, build):
    threads = torch.get_num_threads()
    before = status_mebibytes('VmRSS')
    step = build()
    first = statistics.mean(step() for _ in range(BATCHES))
    us, iqr, busy = time_step(step)
    last = statistics.mean(step() for _ in range(BATCHES))
    if not last < first:
        sys.exit(f'{suite}: {name}: the loss must fall; got {first} at first and {last} at last')
    rate = int(re.search(r'B:(\d+)', name).group(1)) / us * 1e6
    peak = status_mebibytes('VmHWM')
    print(suite, f'step/{name}', threads, f'{us:.5g}', f'{iqr:.1f}', f'{rate:.5g}', 'images/s', 0,
          'busy' if busy else '-', sep='\t')
    for what, size in (('peak', peak), ('growth', peak - before)):
        print(suite, f'memory_{what}/{name}', threads, 0, 0, f'{size:.5g}', 'MiB', 0, '-',
              sep='\t', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--suite', default='torch.py')
    parser.add_argument('--only', default='')
    parser.add_argument('--list', action='store_true')
    arguments = parser.parse_args()
    torch.set_num_threads(int(os.environ.get('OMP_NUM_THREADS', 1)))
    for name, make, shape, squared in NETWORKS:
        for variant in ('', '@channels_last') if len(shape) == 4 else ('',):
            if not re.search(arguments.only, f'step/{name}{variant}'):
                continue
            if arguments.list:
                print(f'step/{name}{variant}')
            else:
                run(arguments.suite, name + variant,
                    lambda: make_step(make, shape, squared, variant != ''))


if __name__ == '__main__':
    main()
