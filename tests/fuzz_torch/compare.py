#!/usr/bin/env python3
"""Compares random programs of our operators with PyTorch's: results, gradients, second derivatives. See README.md.

    tools/fuzz_torch --programs 2000 --seed 1          builds run_programs, and calls this
    tools/fuzz_torch --only 713 --seed 11              one program, with all its results
    tools/fuzz_torch --file program.json               one that was printed as JSON

Prints each differing program as JSON, a line of figures, and last `N passed, N failed`.
"""
import argparse
import collections
import json
import math
import os
import queue
import subprocess
import sys
import threading
import warnings

import torch

import peer
from candidates import CANDIDATES, LAPACK
from programs import Maker

# --- The comparison ---

# If a gradient is NaN or infinite, ours multiplies it by masked probabilities, which are 0.
SPREADS_NAN = 'scaled_dot_product_attention'


def is_at_kink(step, result):
    """True if a second derivative is a choice: ours is that of the side that is not a line."""
    if step['op'] == 'elu':
        return bool((result == 0).any())
    if step['op'] != 'softplus':
        return False
    beta, threshold = step['with']['beta'], step['with']['threshold']
    return bool((result.double() - math.log1p(math.exp(threshold)) / beta).abs().lt(0.02).any())


def parsed(text):
    values = torch.tensor([float(v) for v in text['values'].split()], dtype=torch.float64)
    return values.reshape(text['shape']).to(peer.DTYPES[text['dtype']])


def largest(tensors):
    """The largest finite absolute value, or 1 if that is larger."""
    return max([1.0, *(x.detach().abs().nan_to_num(0, 0, 0).max().item() for x in tensors if x is not None and x.numel())])


def first_difference(ours, theirs, truth, allowed, least=1.0, is_gradient=False, is_lenient=False):
    """None if ours is as good as PyTorch's; else (place, our value, PyTorch's, PyTorch's in float64).

    Equal to either of PyTorch's results, or nearer to one of them than the rounding of some
    operations, or not much farther from the float64 result than PyTorch itself is.
    """
    if ours.shape != truth.shape or theirs.shape != truth.shape:
        return f': shape {list(ours.shape)}, PyTorch {list(theirs.shape)}, in float64 {list(truth.shape)}'
    a, b, t = (x.detach().flatten() for x in (ours, theirs, truth))
    rounded = t.to(a.dtype) if a.dtype.is_floating_point else t  # overflows as the dtype does
    a, b, t, rounded = (x.double() for x in (a, b, t, rounded))
    good = (a == b) | (a == t) | (a == rounded) | (a.isnan() & (b.isnan() | t.isnan()))
    good |= a.isinf() & t.isinf()  # 1 / 0 and 1 / -0
    if is_gradient:  # it overflows in its dtype, or it would if PyTorch had a kernel for that
        good |= ~b.isfinite() & t.isfinite()
        if theirs is truth:
            good |= ~a.isfinite()
    if is_lenient:
        good |= ~b.isfinite() | ~t.isfinite()
    scale = max(least, largest([t]))
    error = torch.minimum((a - b).abs().nan_to_num(float('inf')), (a - t).abs().nan_to_num(float('inf')))
    their_error = (b - t).abs().nan_to_num(float('inf'))
    good |= a.isfinite() & (b.isfinite() | t.isfinite()) & (error <= allowed * scale + 8 * their_error)
    if good.all():
        return None
    k = (~good).nonzero()[0].item()
    return f'[{k}] {a[k].item()}, PyTorch {b[k].item()}, in float64 {t[k].item()}'


def tolerance(dtype, kind):
    """100 eps; more in float64, where PyTorch's own error is not known."""
    if not dtype.is_floating_point:
        return 0
    return torch.finfo(dtype).eps * (100 if dtype != torch.float64 else 1e8 if kind == 'offset' else 1e4)


def zeros_if_none(x, like):
    return torch.zeros(like, dtype=torch.float64) if x is None else x


def all_finite(tensors):
    return all(x is None or bool(x.isfinite().all()) for x in tensors)


class Outcome:
    """What came of a program: `text` describes a difference, and `step` is where it is, if in a step."""

    def __init__(self, text='', step=None, has_second=True):
        self.text, self.step, self.has_second = text, step, has_second


def gradients_in_its_dtypes(program, ours):
    """PyTorch's run, in float64 arithmetic if it lacks a 16-bit kernel backward."""
    try:
        return peer.run(program, ours, False)
    except RuntimeError:
        if not any(given['dtype'] in ('float16', 'bfloat16') for given in program['inputs']):
            raise
        return None


def compared(program, answer):
    ours = [parsed(text) for text in answer.get('steps', [])]
    truth = theirs = None
    try:
        truth = peer.run(program, ours, True)
        theirs = gradients_in_its_dtypes(program, ours) or truth
    except (RuntimeError, IndexError, ValueError) as error:
        if 'error' in answer:
            return Outcome()  # both refuse, as for a shape that depends on values
        return Outcome(f'PyTorch refuses: {error}')
    for k, x in enumerate(ours):
        b, t = theirs['steps'][k], truth['steps'][k]
        if theirs is not truth and x.dtype != b.dtype:
            return Outcome(f'dtype {x.dtype}, not {b.dtype}', k)
        in_range = peer.RANDOM.get(program['steps'][k]['op'])
        if in_range:
            is_drawn = x.shape == t.shape and bool(in_range(x).all()) and (x.numel() < 30 or x.double().unique().numel() > 1)
            found = None if is_drawn else f': not of its distribution: {x.flatten().tolist()}'
        else:
            found = first_difference(x, b, t, tolerance(x.dtype, program['kind']))
        if found:
            return Outcome(found, k)
    if 'error' in answer:
        return Outcome('error: ' + answer['error'], len(ours) if len(ours) < len(program['steps']) else None)
    dtypes = [x.dtype for x in ours] + [peer.DTYPES[given['dtype']] for given in program['inputs']]
    allowed = max(tolerance(dtype, program['kind']) for dtype in dtypes)
    shapes = [given['shape'] for given in program['inputs'] if given['learns']]
    is_rough = program['kind'] == 'offset' or any(dtype in peer.NARROW for dtype in dtypes) or any(
        CANDIDATES[step['op']][0] == LAPACK for step in program['steps'])
    is_lenient = program['kind'] == 'extreme'
    steps = program['steps']
    is_finite = all_finite(truth['gradients'] + theirs['gradients'])
    if not is_finite and any(step['op'] == SPREADS_NAN for step in steps):
        return Outcome()
    # Where our values replace PyTorch's, a derivative that saved its result goes around the hook on it.
    hooked = any(step['op'] == 'hook_on_input' for step in steps)
    has_second = is_finite and not is_lenient and not hooked and not any(map(is_at_kink, steps, ours))
    for what in ('plain',) if program.get('checkpoint') else ('plain', 'gradients', 'second'):
        key = 'gradients' if what == 'plain' else what
        if truth[key] is None or theirs[key] is None:
            continue
        if what == 'second' and not has_second:
            continue
        # Gradients that cancel, or that small slopes follow, are as inexact as the largest number.
        least = largest([*truth[key], *(x.double() for x in ours)]) if is_rough else 1.0
        for k, text in enumerate(answer[what]):
            t = zeros_if_none(truth[key][k], shapes[k])
            b = t if theirs is truth else zeros_if_none(theirs[key][k], shapes[k])
            a = parsed(text) if text else torch.zeros(shapes[k], dtype=torch.float64)
            found = first_difference(a, b, t, allowed, least, True, is_lenient or what == 'second')
            if found:
                return Outcome(f'{what} {k}{found}')
    return Outcome(has_second=not program.get('checkpoint') and None not in (truth['second'], theirs['second']))


# --- One program to read ---


def told(program, answer, outcome):
    """The program as lines, with shapes, dtypes and a mark where the difference is."""
    lines = []
    for n, given in enumerate(program['inputs']):
        notes = ' learns' * given['learns'] + f' order {given["order"]} gap {given["gap"]}'
        lines.append(f'  t{n} = input {given["dtype"]} {given["shape"]}{notes}')
    for k, step in enumerate(program['steps']):
        n = len(program['inputs']) + k
        arguments = ', '.join([f't{i}' for i in step['in']] + [f'{name}={value}' for name, value in step['with'].items()])
        result = answer['steps'][k] if k < len(answer.get('steps', [])) else {'dtype': '?', 'shape': '?'}
        mark = '  <-- ' + outcome.text if outcome.step == k else ''
        sink = ' (sink)' * (n in program['sinks'])
        lines.append(f'  t{n} = {step["op"]}({arguments})  {result["dtype"]} {result["shape"]}{sink}{mark}')
    return '\n'.join(lines)


# --- Workers: one run_programs and one PyTorch each ---


def work(options):
    """Answers each number of standard input by a line of JSON."""
    prepare()
    runner = start_runner(options)
    for line in sys.stdin:
        number = int(line)
        program = Maker(options.seed, number, options.device).program()
        report = {'operators': [step['op'] for step in program['steps']]}
        answer = ask(runner, program)
        if answer is None:
            report |= {'text': 'run_programs died', 'program': program}
            runner = start_runner(options)
        else:
            outcome = compared(program, answer)
            report['has_second'] = outcome.has_second
            if outcome.text:
                report |= {'text': outcome.text, 'told': told(program, answer, outcome), 'program': program}
        print(json.dumps(report), flush=True)


def prepare():
    torch.set_num_threads(1)
    warnings.simplefilter('ignore')  # of operators that compute what is asked, but think it odd


def start_runner(options):
    return subprocess.Popen([options.runner, '--device', options.device], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


def ask(runner, program):
    """The answer of run_programs; None if it died."""
    try:
        print(json.dumps(program), file=runner.stdin, flush=True)
        line = runner.stdout.readline()
    except BrokenPipeError:
        line = ''
    return json.loads(line) if line else None


def start_worker(options):
    return subprocess.Popen([sys.executable, __file__, options.runner, '--worker', '--seed', str(options.seed),
                             '--device', options.device], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def drive(options, numbers, reports):
    """Hands numbers to a worker, and starts another if PyTorch takes the process down."""
    worker = start_worker(options)
    while True:
        try:
            number = numbers.get_nowait()
        except queue.Empty:
            break
        try:
            print(number, file=worker.stdin, flush=True)
            line = worker.stdout.readline()
        except BrokenPipeError:
            line = ''
        if not line:
            line = json.dumps({'text': "the process of PyTorch died", 'operators': []})
            worker = start_worker(options)
        reports.put((number, json.loads(line)))
    worker.stdin.close()
    worker.wait()


def run_all(options):
    numbers, reports = queue.Queue(), queue.Queue()
    for k in range(options.first, options.first + options.programs):
        numbers.put(k)
    for _ in range(options.jobs):
        threading.Thread(target=drive, args=(options, numbers, reports), daemon=True).start()
    failed = without_second = 0
    counts = collections.Counter()
    for _ in range(options.programs):
        number, report = reports.get()
        counts.update(report['operators'])
        without_second += not report.get('has_second', True)
        if 'text' in report:
            failed += 1
            print(f'FAILED program {number} of seed {options.seed}: {report["text"]}')
            print(report.get('told', ''))
            print('   ', json.dumps(report.get('program')), flush=True)
    unused = [name for name in CANDIDATES if name not in counts and not (peer.IS_OLD and name in peer.OLD)]
    if options.programs >= len(CANDIDATES) and options.device == 'cpu':
        for name in unused:
            print(f'FAILED: no program contains {name}')
        failed += len(unused)
    figures = {'torch': torch.__version__, 'seed': options.seed, 'programs': options.programs,
               'steps': sum(counts.values()), 'without_second_derivatives': without_second}
    print(json.dumps(figures))
    print(f'{options.programs - min(failed, options.programs)} passed, {failed} failed')
    return 1 if failed else 0


def run_one(options):
    prepare()
    if options.file:
        with open(options.file, encoding='utf-8') as file:
            program = json.load(file)
    else:
        program = Maker(options.seed, options.only, options.device).program()
    answer = ask(start_runner(options), program)
    if answer is None:
        print('run_programs died')
        return 1
    outcome = compared(program, answer)
    print(json.dumps(program))
    print(told(program, answer, outcome))
    print('FAILED: ' + outcome.text if outcome.text else 'no difference')
    return 1 if outcome.text else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('runner', help='the built run_programs')
    parser.add_argument('--programs', type=int, default=500)
    parser.add_argument('--first', type=int, default=0, help='number of the first program')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--jobs', type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument('--device', default='cpu', help='of our side: cpu or cuda')
    parser.add_argument('--only', type=int, help='runs this program alone, and prints its steps')
    parser.add_argument('--file', help='runs the program in this file')
    parser.add_argument('--worker', action='store_true', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options)
    if options.file or options.only is not None:
        return run_one(options)
    return run_all(options)


if __name__ == '__main__':
    sys.exit(main())
