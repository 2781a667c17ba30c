#!/usr/bin/env python3
"""Compares Ringrad with PyTorch on a GPU: training steps, and the operators of cuda_benchmark.

Needs a GPU, an interpreter that can import torch, and cuda_training_benchmark compiled by nvcc
(tools/gpu_bundle packs it beside this script). For each case, Ringrad in a process of its own and PyTorch
in this one take samples in turn, round by round, in an order that reverses every time; while one is timed
the other waits. A ratio is their time divided by ours in the same round, the median over the rounds: above
1 we are faster. A case that could not be measured, or whose loss did not fall, has a reason instead of a number.

  compare_torch_cuda.py                                    everything
  compare_torch_cuda.py --only '^step/' --batch 128        the training steps
  compare_torch_cuda.py --only Matmul --rounds 5           a quick look
"""
import argparse
import contextlib
import gc
import importlib
import json
import math
import re
import shlex
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = 'cuda_training_benchmark'
OURS = 'ringrad'
CASE_DEADLINE_SECONDS = 300  # for one answer of our program
VARIANTS = ('eager', 'compile', 'graph')  # those of peers/torch_cuda.py
WARM_UPS = 3


class Failure(Exception):
    """Ends the comparison with a message and exit status 1."""


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=15, metavar='N', help='default: 15')
    parser.add_argument('--seconds', type=float, default=0.05, metavar='S',
                        help='that a sample lasts at least; default: 0.05')
    parser.add_argument('--batch', default='64,256', metavar='LIST',
                        help='batch sizes of the ResNets; default: 64,256')
    parser.add_argument('--only', default='', metavar='REGEX', help='the cases to run')
    parser.add_argument('--variants', type=lambda names: names.split(','), metavar='LIST',
                        help="of PyTorch's: eager, compile, graph; default: all")
    parser.add_argument('--tf32', action='store_true', help='float32 products in TF32, on both sides')
    parser.add_argument('--binary', metavar='COMMAND', help=f'what starts {PROGRAM}')
    parser.add_argument('--json', metavar='FILE', help='also write the results here')
    parser.add_argument('--list', action='store_true', help='list the cases, run nothing')
    options = parser.parse_args(arguments)
    try:
        options.only = re.compile(options.only)
        sizes = [int(size) for size in options.batch.split(',')]
    except (re.error, ValueError) as error:
        parser.error(str(error))
    unknown = set(options.variants or []) - set(VARIANTS)
    if unknown:
        parser.error(f"--variants must be of {', '.join(VARIANTS)}; got {', '.join(sorted(unknown))}")
    if options.rounds < 1 or options.seconds <= 0 or min(sizes) < 2:
        parser.error('--rounds and --seconds must be positive, and --batch at least 2')
    return options


# --- The two sides -----------------------------------------------------------------------------


class Ringrad:
    """One case in a process of its own, which answers lines of JSON (cuda_training_benchmark.cc)."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        try:
            self.about = self.answer()
        except Exception:
            self.close()
            raise
        self.first_loss = self.about['loss']

    def answer(self):
        late = threading.Event()

        def give_up():
            late.set()
            self.process.kill()

        deadline = threading.Timer(CASE_DEADLINE_SECONDS, give_up)
        deadline.start()
        try:
            line = self.process.stdout.readline()
        finally:
            deadline.cancel()
        if not line and late.is_set():
            raise RuntimeError(f'{PROGRAM} must answer within {CASE_DEADLINE_SECONDS} s; got nothing')
        if not line:
            raise RuntimeError(f'{PROGRAM} ended with status {self.process.wait()}')
        return json.loads(line)

    def sample(self):
        with contextlib.suppress(BrokenPipeError):  # answer() says why
            self.process.stdin.write('\n')
            self.process.stdin.flush()
        return self.answer()['us']

    def last_loss(self):
        self.process.stdin.close()
        return self.answer()['loss']

    def close(self):
        self.process.kill()
        with contextlib.suppress(BrokenPipeError), self.process:  # closes the pipes and waits
            pass


class Torch:
    """One variant of a case in this process, timed as our program times itself."""

    def __init__(self, running, synchronize, seconds):
        self.running, self.synchronize = running, synchronize
        self.calls = 1
        running.call()
        self.first_loss = running.loss()
        for _ in range(2):
            once = self.time(WARM_UPS)
        self.calls = max(1, math.ceil(seconds / once))

    def time(self, calls):
        self.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            self.running.call()
        self.synchronize()
        return (time.perf_counter() - start) / calls

    def sample(self):
        return 1e6 * self.time(self.calls)

    def last_loss(self):
        return self.running.loss()

    def close(self):
        self.running = None


# --- Measuring ---------------------------------------------------------------------------------


def check_loss(first, last):
    if first is not None and not last < first:
        raise RuntimeError(f'the loss must fall; got {first} at first and {last} at last')


def measure(makers, rounds):
    """({side: microseconds by round}, {side: why it has none}) of one case.

    `makers` make the sides: objects with sample(), first_loss, last_loss() and close().
    """
    sides, samples, reasons = {}, {}, {}

    def attempt(name, action):
        try:
            return action()
        except Failure:
            raise
        except Exception as error:  # any error in a side is that side's result
            lines = str(error).strip().splitlines()
            reasons[name] = lines[0] if lines else type(error).__name__
            samples.pop(name, None)
            return None

    try:
        for name, make in makers.items():
            side = attempt(name, make)
            if side is not None:
                sides[name], samples[name] = side, []
        for number in range(rounds):
            for name in list(samples) if number % 2 == 0 else list(samples)[::-1]:
                us = attempt(name, sides[name].sample)
                if us is not None:
                    samples[name].append(us)
        for name in list(samples):
            side = sides[name]
            attempt(name, lambda side=side: check_loss(side.first_loss, side.last_loss()))
    finally:
        for side in sides.values():
            side.close()
    return samples, reasons


def comparisons(results):
    """One record per case and peer, without a ratio if a side has no numbers."""
    for case, (samples, reasons) in results.items():
        mine = samples.get(OURS)
        for peer in [*samples, *reasons]:
            if peer == OURS:
                continue
            theirs = samples.get(peer)
            record = {'name': case, 'suite': peer, 'rounds': len(mine or [])}
            if mine:
                record['ours'] = statistics.median(mine)
            if theirs:
                record['theirs'] = statistics.median(theirs)
            if mine and theirs:
                record['ratio'] = statistics.median(b / a for a, b in zip(mine, theirs))
            why = [f'{side}: {reasons[side]}' for side in (OURS, peer) if side in reasons]
            if why:
                record['not_measured'] = '; '.join(why)
            yield record


# --- Reporting ---------------------------------------------------------------------------------


def duration(us):
    for unit, size in (('s', 1e6), ('ms', 1e3)):
        if us >= size:
            return f'{us / size:.3g} {unit}'
    return f'{us:.3g} µs'


def table(records):
    yield '| case | Ringrad | PyTorch | its time | their time / our time |'
    yield '|---|---|---|---|---|'
    for record in records:
        ours, theirs = (duration(record[key]) if key in record else 'not measured'
                        for key in ('ours', 'theirs'))
        ratio = f"{record['ratio']:.2f}x" if 'ratio' in record else record['not_measured']
        yield f"| {record['name']} | {ours} | {record['suite']} | {theirs} | {ratio} |"


def program(options):
    """The command that starts our program."""
    if options.binary:
        return shlex.split(options.binary)
    places = [ROOT / 'bin' / PROGRAM, ROOT / 'bazel-bin' / 'benchmarks' / PROGRAM]
    for path in places:
        if path.exists():
            return [str(path)]
    raise Failure(f'{PROGRAM} must be built, or named by --binary; got none at '
                  + ' or '.join(map(str, places)))


def list_cases(command, options):
    try:
        output = subprocess.run([*command, '--list', '--batch', options.batch], text=True,
                                stdout=subprocess.PIPE, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Failure(f'{PROGRAM} cannot start: {error}') from error
    cases = [name for name in output.split() if options.only.search(name)]
    if not cases:
        raise Failure('no case matches --only')
    return cases


def chosen_variants(cases, variants_of, asked):
    """{case: the requested variants of it in PyTorch}, for cases that have any."""
    chosen = {case: [one for one in variants_of(case) if one in (asked or VARIANTS)] for case in cases}
    chosen = {case: variants for case, variants in chosen.items() if variants}
    if not chosen:
        raise Failure('no case has a variant of --variants')
    return chosen


def import_torch(options):
    """torch and the peer's cases, with the same precision as on our side."""
    try:
        torch = importlib.import_module('torch')
    except ImportError as error:
        raise Failure(f'{sys.executable} must be able to import torch; got: {error}') from error
    if not torch.cuda.is_available():
        raise Failure(f'torch {torch.__version__} must see a GPU; got none')
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.tf32
    torch.backends.cudnn.benchmark = True
    sys.path.insert(0, str(ROOT / 'benchmarks' / 'peers'))
    return torch, importlib.import_module('torch_cuda')


def compare(command, cases, options):
    """({case: what measure() found}, our program's GPU) with PyTorch in this process."""
    torch, peer = import_torch(options)
    results, about = {}, {}

    def ringrad(case):
        side = Ringrad([*command, case, '--batch', options.batch, '--seconds', str(options.seconds)])
        about.update(side.about)
        if side.about['simulated']:
            side.close()
            raise Failure(f'{PROGRAM} must be compiled by nvcc (--config=cuda); got one for simulated GPUs')
        return side

    wanted = chosen_variants(cases, peer.variants, options.variants)
    for number, case in enumerate(wanted, 1):
        print(f'{number}/{len(wanted)}: {case}', file=sys.stderr, flush=True)
        makers = {OURS: lambda case=case: ringrad(case)}
        for variant in wanted[case]:
            makers[f'torch.{variant}'] = lambda case=case, variant=variant: Torch(
                peer.build(case, variant), torch.cuda.synchronize, options.seconds)
        results[case] = measure(makers, options.rounds)
        gc.collect()
        torch.cuda.empty_cache()
    machine = {'gpu': torch.cuda.get_device_name(), 'ringrad_gpu': about.get('gpu'),
               'torch': torch.__version__, 'cuda': torch.version.cuda,
               'cudnn': torch.backends.cudnn.version(), 'tf32': options.tf32}
    return results, machine


def main(arguments):
    options = parse_arguments(arguments)
    try:
        command = program(options)
        cases = list_cases(command, options)
        if options.list:
            print(*cases, sep='\n')
            return 0
        if options.tf32:
            command = ['env', 'RINGRAD_TF32=1', *command]
        results, machine = compare(command, cases, options)
    except Failure as error:
        print(f'compare_torch_cuda: {error}', file=sys.stderr)
        return 1
    records = list(comparisons(results))
    print(', '.join(f'{key} {value}' for key, value in machine.items()))
    print(*table(records), sep='\n')
    if options.json:
        raw = [{'suite': side, 'name': case, 'values': values}
               for case, (samples, _) in results.items() for side, values in samples.items()]
        Path(options.json).write_text(
            json.dumps({'machine': machine, 'comparisons': records, 'results': raw}, indent=1))
    return 1 if any('not_measured' in record for record in records) else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
