"""Peer: what language models and sequences need, in PyTorch, as a Python user writes it.

The cases of ringrad_sequence.cc, and its arguments and output (benchmarks/cases.h has the contract). With
--compile, training steps and operators go through torch.compile.
"""
import argparse
import os
import re
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.dont_write_bytecode = True
import torch_step  # noqa: E402  (beside this file)
from torch_step import BATCHES, time_step  # noqa: E402


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.attn_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, cache=None):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.c_attn(self.ln_1(x)).split(width, -1))
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
            cache[:] = k, v
        y = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.attn_proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate='tanh'))


class GPT(nn.Module):
    def __init__(self, vocabulary, context, layers, heads, width):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, tokens, caches=None, first=0):
        x = self.wte(tokens) + self.wpe.weight[first:first + tokens.shape[1]]
        for i, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[i])
        return F.linear(self.ln_f(x), self.wte.weight)


def gpt_step(compiled):
    net = GPT(256, 256, 4, 4, 256)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    batches = [torch.randint(256, (8, 257)) for _ in range(BATCHES)]
    model = torch.compile(net) if compiled else net
    count = 0

    def step():
        nonlocal count
        tokens = batches[count % BATCHES]
        count += 1
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def lstm_step(compiled):
    """Forward and backward."""
    net = nn.LSTM(128, 256, batch_first=True)
    x = torch.randn(32, 64, 128)

    def step():
        net.zero_grad()
        net(x)[0].sum().backward()

    return step


def generate(compiled):
    """A step is a sequence of 128 tokens, one after the other, with keys and values kept."""
    net = GPT(256, 256, 4, 4, 256).eval()

    @torch.no_grad()
    def step():
        caches, tokens = [[] for _ in net.blocks], torch.zeros(1, 1, dtype=torch.int64)
        for position in range(128):
            tokens = net(tokens, caches, position)[:, -1].argmax(-1, keepdim=True)

    return step


def with_gradient(function, inputs):
    """Calls function and its backward pass, with a gradient of ones."""
    leaves = [x.requires_grad_() if x.is_floating_point() else x for x in inputs]
    y = function(*leaves)
    ones = torch.ones_like(y)

    def call():
        for x in leaves:
            x.grad = None
        function(*leaves).backward(ones)

    return call


def without_gradient(function, inputs):
    @torch.no_grad()
    def call():
        function(*inputs)

    return call


def rms_norm(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-5)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


# name, function, inputs, with its gradient
OPERATORS = [
    ('layer_norm/8192x1024', layer_norm, lambda: [torch.randn(8192, 1024), torch.ones(1024), torch.zeros(1024)], True),
    ('rms_norm/8192x1024', rms_norm, lambda: [torch.randn(8192, 1024), torch.ones(1024)], True),
    ('embedding/65536/V:8192/C:64', lambda i, w: F.embedding(i, w),
     lambda: [torch.randint(8192, (65536,)), torch.randn(8192, 64)], True),
    ('cumsum/1024x1024', lambda x: x.cumsum(-1), lambda: [torch.randn(1024, 1024)], False),
    ('sort/1024x1024', lambda x: x.sort(-1), lambda: [torch.randn(1024, 1024)], False),
    ('topk/1024x1024/K:16', lambda x: x.topk(16), lambda: [torch.randn(1024, 1024)], False),
    ('gather/1024x1024', lambda x, i: x.gather(1, i),
     lambda: [torch.randn(1024, 1024), torch.randint(1024, (1024, 1024))], False),
    ('index_add/65536x64', lambda x, i, y: x.index_add(0, i, y),
     lambda: [torch.zeros(8192, 64), torch.randint(8192, (65536,)), torch.randn(65536, 64)], False),
    ('einsum_bhqd,bhkd->bhqk/B:4/H:8/T:256/D:64', lambda q, k: torch.einsum('bhqd,bhkd->bhqk', q, k),
     lambda: [torch.randn(4, 8, 256, 64) for _ in range(2)], False),
    ('bmm/32x256x64x256', torch.bmm, lambda: [torch.randn(32, 256, 64), torch.randn(32, 64, 256)], False),
]
SEQUENCES = [('lstm/T:64/B:32', lstm_step, 32, 'sequences/s'), ('generate/T:128/B:1', generate, 128, 'tokens/s')]


def report(suite, name, call, amount, unit):
    for _ in range(3):
        call()  # torch.compile compiles now
    us, iqr, busy = time_step(call)
    print(suite, name, torch.get_num_threads(), f'{us:.5g}', f'{iqr:.1f}', f'{amount / us * 1e6:.5g}', unit, 0,
          'busy' if busy else '-', sep='\t', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--suite', default='torch.py')
    parser.add_argument('--only', default='')
    parser.add_argument('--list', action='store_true')
    parser.add_argument('--compile', action='store_true')
    arguments = parser.parse_args()
    torch.set_num_threads(int(os.environ.get('OMP_NUM_THREADS', 1)))
    torch.manual_seed(0)
    cases = {'step/gpt/B:8': lambda name: torch_step.run(arguments.suite, name.removeprefix('step/'),
                                                         lambda: gpt_step(arguments.compile))}
    for name, make, amount, unit in SEQUENCES:
        cases[f'sequence/{name}'] = lambda name, make=make, amount=amount, unit=unit: report(
            arguments.suite, name, make(arguments.compile), amount, unit)
    for name, function, inputs, gradient in OPERATORS:
        wrapped = torch.compile(function) if arguments.compile else function
        call = with_gradient if gradient else without_gradient
        cases[f'sequence/{name}'] = lambda name, call=call, function=wrapped, inputs=inputs: report(
            arguments.suite, name, call(function, inputs()), 1, 'calls/s')
    for name, run in cases.items():
        if not re.search(arguments.only, name):
            continue
        if arguments.list:
            print(name)
        else:
            run(name)


if __name__ == '__main__':
    main()
