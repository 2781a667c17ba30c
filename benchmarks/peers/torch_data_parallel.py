"""Peer: steps of torch.distributed's DistributedDataParallel over Gloo, as a Python user writes them.

The same networks, batches, optimizer and output as benchmarks/data_parallel.cc, one thread per rank; run by any
interpreter that has torch:

    torch_data_parallel.py --network convnet --ranks 2
"""
import argparse
import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
import torch.nn as nn
import torch.nn.functional as F

import torch_step

BATCHES = 8


def mlp():
    return nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))


# network, shape of a sample, batch of each rank
NETWORKS = {
    'mlp': (mlp, (784,), 64),
    'convnet': (torch_step.convnet, (1, 28, 28), 128),
    'resnet20': (torch_step.resnet20, (3, 32, 32), 64),
}


def proportional_mb():
    with open('/proc/self/smaps_rollup', encoding='ascii') as rollup:
        return next(int(line.split()[1]) / 1024 for line in rollup if line.startswith('Pss:'))


def run_rank(rank, arguments, store):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    make, shape, batch = NETWORKS[arguments.network]
    batch = arguments.batch or batch
    layout = torch.channels_last if arguments.channels_last and len(shape) == 3 else torch.contiguous_format
    net = make().to(memory_format=layout)
    if arguments.ranks > 1:
        dist.init_process_group('gloo', init_method='file://' + store, rank=rank, world_size=arguments.ranks)
        net = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=arguments.bucket_view)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9)
    inputs = [torch.randn(batch, *shape).contiguous(memory_format=layout) for _ in range(BATCHES)]
    targets = [torch.randint(10, (batch,)) for _ in range(BATCHES)]
    seconds = []
    for step in range(arguments.warmup + arguments.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(net(inputs[step % BATCHES]), targets[step % BATCHES])
        loss.backward()
        optimizer.step()
        loss.item()
        if step >= arguments.warmup:
            seconds.append(time.perf_counter() - begin)
    if rank == 0:
        step = statistics.median(seconds)
        print(json.dumps({
            'network': arguments.network, 'batch': batch, 'ranks': arguments.ranks,
            'backend': 'gloo' if arguments.ranks > 1 else 'none', 'step_ms': step * 1e3,
            'images_per_second': arguments.ranks * batch / step,
            'memory_mb': proportional_mb()}), flush=True)
    if arguments.ranks > 1:
        dist.barrier()
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--network', choices=NETWORKS, default='convnet')
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--batch', type=int, default=0, help="0: the network's")
    parser.add_argument('--steps', type=int, default=60)
    parser.add_argument('--warmup', type=int, default=15)
    parser.add_argument('--channels-last', action='store_true')
    parser.add_argument('--bucket-view', action='store_true', help='gradients are views of buckets')
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, 'store')
        if arguments.ranks == 1:
            run_rank(0, arguments, store)
        else:
            multiprocessing.spawn(run_rank, (arguments, store), arguments.ranks)


if __name__ == '__main__':
    main()
