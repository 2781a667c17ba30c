#!/usr/bin/env python3
"""Measures what a call from Python costs, compared with PyTorch: operators on a few numbers, where the call is nearly
all of the work.

    python benchmarks/python_overhead.py        with an interpreter that has ringrad, torch, or both

In each case the libraries take turns, with one thread; the script prints medians in nanoseconds.
"""
import importlib
import statistics
import sys
import time

CALLS, TURNS = 20_000, 7


def cases(library, ones):
    for grad in (False, True):
        a, b, m = ones(4, grad), ones(4, False), ones((4, 4), grad)
        word = ' recorded' * grad
        yield f'a + b{word}', lambda: a + b
        yield f'a * 2.0{word}', lambda: a * 2.0
        yield f'relu(a){word}', lambda: library.relu(a)
        yield f'a.sum(){word}', lambda: a.sum()
        yield f'm @ m{word}', lambda: m @ m
        yield f'm[1]{word}', lambda: m[1]
        yield f'm[:, 1]{word}', lambda: m[:, 1]
    yield 'zeros(4)', lambda: library.zeros(4)
    yield 'm.shape', lambda: m.shape


def nanoseconds(call):
    begin = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - begin) / CALLS


def main():
    found = {}
    for name in ('ringrad', 'torch'):
        try:
            found[name] = importlib.import_module(name)
        except ImportError:
            print(f'{name}: not installed')
    if 'torch' in found:
        found['torch'].set_num_threads(1)
    if not found:
        sys.exit(1)
    calls = [list(cases(library, lambda shape, grad, library=library: library.ones(shape, requires_grad=grad)))
             for library in found.values()]
    print(f'{"":18}' + ''.join(f'{name:>10}' for name in found) + ('     ratio' if len(found) == 2 else ''))
    for row in zip(*calls):
        times = [[] for _ in row]
        for _ in range(TURNS):
            for turn, (_, call) in zip(times, row):
                turn.append(nanoseconds(call))
        medians = [statistics.median(turn) for turn in times]
        ratio = f'{medians[0] / medians[1]:10.2f}' if len(medians) == 2 else ''
        print(f'{row[0][0]:18}' + ''.join(f'{ns:10.0f}' for ns in medians) + ratio)


if __name__ == '__main__':
    main()
