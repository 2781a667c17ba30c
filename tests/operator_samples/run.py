#!/usr/bin/env python3
"""Compares our operators with PyTorch's on PyTorch's own samples. See README.md.

    tools/operator_samples                  all of them, as in .ci/run
    tools/operator_samples --only cumsum    one operator, with each sample that is not equal
    tools/operator_samples --write          writes expected.json and docs/operator_samples.md

Prints what is worse than expected.json says, and last `N passed, N failed`, in samples.
"""
import argparse
import collections
import importlib.metadata
import json
import multiprocessing
import os
import sys
import warnings

import page


def results_of(name):
    import samples  # in the worker: PyTorch and ours are in no other process
    return name, samples.run_operator(name)


def started(jobs):
    warnings.simplefilter('ignore')
    return multiprocessing.get_context('spawn').Pool(jobs, initializer=warnings.simplefilter, initargs=('ignore',))


def worse(expected, got):
    """True if a sample was equal, or an error refused, and is not any more."""
    return got != expected and (expected == '=' or got == 'x' or (expected in 'r-' and got == 'a'))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', help='one operator, as op_db names it: max|binary')
    parser.add_argument('--write', action='store_true')
    parser.add_argument('--jobs', type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    names = [options.only] if options.only else page.names()
    expected = {} if options.write else page.read()
    found, passed, failed, better = {}, 0, 0, 0
    with started(options.jobs) as pool:
        for name, results in pool.imap_unordered(results_of, names):
            found[name] = results
            for kind, outcomes in results.items():
                known = page.expanded(expected.get(name, {}).get('samples', {}).get(kind, ''))
                for index, (status, text) in enumerate(outcomes):
                    before = known[index] if index < len(known) else None
                    if options.only and status not in '=':
                        print(f'{name} {kind} {index}: {status} {text}')
                    if options.write:
                        passed += 1
                    elif before is None or worse(before, status):
                        failed += 1
                        print(f'FAILED {name}, {kind} sample {index}: {page.STATUSES[status]}, was '
                              f'{page.STATUSES.get(before, "not known")}: {text}', flush=True)
                    else:
                        passed += 1
                        better += before != status
    if options.write:
        page.write(found)
    if better:
        print(f'{better} samples are better than expected.json says; tools/operator_samples --write')
    counts = collections.Counter(status for results in found.values() for outcomes in results.values()
                                 for status, _ in outcomes)
    print(json.dumps({'torch': importlib.metadata.version('torch'), 'operators': len(found),
                      **{page.STATUSES[status]: count for status, count in sorted(counts.items())}}))
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
