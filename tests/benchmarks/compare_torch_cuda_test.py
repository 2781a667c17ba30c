#!/usr/bin/env python3
"""compare_torch_cuda.py without a GPU: its logic with made-up sides, and our program on a simulated GPU."""
import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path[:0] = ['benchmarks', 'benchmarks/peers']
import compare_torch_cuda as compare  # noqa: E402  (the folder was just put on the path)

SCRIPT = 'benchmarks/compare_torch_cuda.py'
PROGRAM = str(Path('benchmarks/cuda_training_benchmark').absolute())
TINY = 'step/tiny_mlp/float32/B:32'


def setUpModule():
    listed = subprocess.run([PROGRAM, '--list'], text=True, capture_output=True, check=True).stdout
    if '/H:32/' not in listed:  # tiny images
        raise unittest.SkipTest('the program was compiled for real GPUs')


class Side:
    """Answers with given times, and logs when it was asked."""

    def __init__(self, name, times, log, losses=(2.0, 1.0)):
        self.name, self.times, self.log = name, list(times), log
        self.first_loss, self.final_loss = losses
        self.closed = False

    def sample(self):
        self.log.append(self.name)
        time = self.times.pop(0)
        if isinstance(time, Exception):
            raise time
        return time

    def last_loss(self):
        return self.final_loss

    def close(self):
        self.closed = True


def measured(rounds, **sides):
    log = []
    made = {name: Side(name, times, log) for name, times in sides.items()}
    samples, reasons = compare.measure({n: lambda n=n: made[n] for n in made}, rounds)
    return samples, reasons, log, made


class MeasureTest(unittest.TestCase):
    def test_sides_take_turns_and_the_order_reverses(self):
        _, _, log, _ = measured(3, ringrad=[1] * 3, eager=[1] * 3, compile=[1] * 3)
        forth = ['ringrad', 'eager', 'compile']
        self.assertEqual(log, forth + forth[::-1] + forth)

    def test_a_side_that_fails_has_a_reason_and_no_numbers(self):
        samples, reasons, _, made = measured(
            2, ringrad=[1, 2], eager=[3, RuntimeError('out of memory\nmore')])
        self.assertEqual(samples, {'ringrad': [1, 2]})
        self.assertEqual(reasons, {'eager': 'out of memory'})
        self.assertTrue(all(side.closed for side in made.values()))

    def test_a_side_that_cannot_be_made_has_a_reason(self):
        def missing():
            raise ImportError('no compiler')
        ours = Side('ringrad', [1], [])
        samples, reasons = compare.measure({'ringrad': lambda: ours, 'compile': missing}, 1)
        self.assertEqual((samples, reasons), ({'ringrad': [1]}, {'compile': 'no compiler'}))

    def test_a_step_that_does_not_learn_is_not_measured(self):
        for losses in ((1.0, 1.0), (1.0, 2.0), (1.0, float('nan')), (float('nan'), 1.0)):
            side = Side('ringrad', [5], [], losses)
            samples, reasons = compare.measure({'ringrad': lambda side=side: side}, 1)
            self.assertEqual(samples, {})
            self.assertIn('the loss must fall', reasons['ringrad'])

    def test_an_operator_has_no_loss(self):
        side = Side('ringrad', [5], [], (None, None))
        self.assertEqual(compare.measure({'ringrad': lambda: side}, 1), ({'ringrad': [5]}, {}))


class RatioTest(unittest.TestCase):
    def test_is_the_median_over_rounds_not_the_ratio_of_medians(self):
        # In round 2 the machine was three times slower for both sides.
        samples = {'ringrad': [10, 30, 10], 'torch.eager': [20, 60, 15]}
        record, = compare.comparisons({'case': (samples, {})})
        self.assertEqual(record['ratio'], 2)
        self.assertEqual((record['ours'], record['theirs'], record['rounds']), (10, 20, 3))

    def test_what_was_not_measured_has_no_number(self):
        records = list(compare.comparisons({
            'a': ({'ringrad': [1000.0]}, {'torch.compile': 'no compiler'}),
            'b': ({'torch.eager': [7.0]}, {'ringrad': 'no memory'}),
            'c': ({}, {'ringrad': 'no memory', 'torch.graph': 'no stream'})}))
        self.assertFalse([record for record in records if 'ratio' in record])
        lines = list(compare.table(records))[2:]
        self.assertEqual(lines, [
            '| a | 1 ms | torch.compile | not measured | torch.compile: no compiler |',
            '| b | not measured | torch.eager | 7 µs | ringrad: no memory |',
            '| c | not measured | torch.graph | not measured | ringrad: no memory; '
            'torch.graph: no stream |'])

    def test_table_shows_times_and_ratio(self):
        samples = {'ringrad': [2.5e6], 'torch.eager': [5e6]}
        lines = list(compare.table(compare.comparisons({'case': (samples, {})})))
        self.assertEqual(lines[-1], '| case | 2.5 s | torch.eager | 5 s | 2.00x |')


class VariantsTest(unittest.TestCase):
    def test_cases_run_with_the_variants_that_are_asked_for(self):
        all_of = {'a': ['eager', 'compile'], 'a@captured': ['graph']}
        for asked, expected in ((None, all_of), (['eager', 'graph'], {'a': ['eager'], 'a@captured': ['graph']}),
                                (['compile'], {'a': ['compile']})):
            self.assertEqual(compare.chosen_variants(list(all_of), all_of.get, asked), expected)

    def test_no_variant_at_all_is_said(self):
        with self.assertRaisesRegex(compare.Failure, 'no case has a variant of --variants'):
            compare.chosen_variants(['a'], lambda _: ['eager'], ['graph'])


class CommandLineTest(unittest.TestCase):
    def outcome(self, *arguments, torch=None, script=SCRIPT):
        """(exit status, stdout, stderr), with a module `torch` of the given source."""
        with tempfile.TemporaryDirectory() as folder:
            if torch is not None:
                (Path(folder) / 'torch.py').write_text(torch)
            run = subprocess.run([sys.executable, script, *arguments], text=True,
                                 capture_output=True, check=False, env={'PYTHONPATH': folder})
            return run.returncode, run.stdout, run.stderr

    def test_wrong_arguments_are_usage_errors(self):
        for arguments in (['--rounds', '0'], ['--batch', 'many'], ['--batch', '1'],
                          ['--only', '('], ['--colour', 'red'], ['--seconds', '0'],
                          ['--variants', 'eager,fast']):
            status, _, errors = self.outcome(*arguments)
            self.assertEqual(status, 2, arguments)
            self.assertIn('usage:', errors)

    def test_help_says_what_a_ratio_is(self):
        status, output, _ = self.outcome('--help')
        self.assertEqual(status, 0)
        self.assertIn('above\n1 we are faster', output)

    def test_lists_the_cases_of_the_program(self):
        status, output, _ = self.outcome('--list', '--binary', PROGRAM, '--batch', '3,5', '--only',
                                         'resnet')
        self.assertEqual(status, 0)
        self.assertEqual(output.split(), [
            f'step/{net}/bfloat16/B:{batch}/H:32/W:32{captured}'
            for net in ('resnet18', 'resnet50') for batch in (3, 5) for captured in ('', '@captured')])

    def test_what_is_missing_is_named(self):
        no_gpu = 'class cuda: is_available = lambda: False\n__version__ = "9.9"'
        gpu = '''
import sys, types
__version__ = "9.9"
class backends:
    class cuda:
        class matmul: pass
    class cudnn: pass
class cuda:
    is_available = lambda: True
    synchronize = empty_cache = lambda: None
peer = sys.modules['torch_cuda'] = types.ModuleType('torch_cuda')
peer.variants = lambda name: ['eager']
'''
        ours = ['--binary', PROGRAM, '--only', TINY + '$']
        with tempfile.TemporaryDirectory() as folder:
            alone = Path(folder) / 'benchmarks' / 'compare_torch_cuda.py'
            alone.parent.mkdir()
            shutil.copy(SCRIPT, alone)
            for arguments, torch, message, script in (
                    ([], None, 'must be built, or named by --binary', alone),
                    (['--binary', '/nowhere'], None, 'cannot start', SCRIPT),
                    (['--binary', PROGRAM, '--only', 'vgg'], None, 'no case matches', SCRIPT),
                    (ours, 'raise ImportError("gone")', 'import torch; got: gone', SCRIPT),
                    (ours, no_gpu, 'torch 9.9 must see a GPU', SCRIPT),
                    (ours, gpu, 'got one for simulated GPUs', SCRIPT)):
                status, output, errors = self.outcome(*arguments, torch=torch, script=str(script))
                self.assertEqual((status, output), (1, ''), errors)
                self.assertIn('compare_torch_cuda: ', errors)
                self.assertIn(message, errors)
                self.assertNotIn('Traceback', errors)


class ProgramTest(unittest.TestCase):
    """cuda_training_benchmark on a simulated GPU."""

    def side(self, case):
        side = compare.Ringrad([PROGRAM, case, '--batch', '2'])
        self.addCleanup(side.close)
        return side

    def test_trains_with_and_without_capture_to_the_same_loss(self):
        losses = []
        for case in (TINY, TINY + '@captured'):
            side = self.side(case)
            self.assertIs(side.about['simulated'], True)
            self.assertEqual(side.about['case'], case)
            for _ in range(4):
                self.assertGreater(side.sample(), 0)
            losses.append((side.first_loss, side.last_loss()))
            self.assertEqual(side.process.wait(), 0)
        self.assertLess(losses[0][1], losses[0][0])
        self.assertEqual(losses[0], losses[1])

    def test_runs_a_resnet(self):
        self.assertGreater(self.side('step/resnet18/bfloat16/B:2/H:32/W:32').first_loss, 0)

    def test_an_operator_has_a_time_and_no_loss(self):
        side = self.side('BM_Matmul/cuda/bfloat16/M:64/N:64/K:64')
        self.assertGreater(side.sample(), 0)
        self.assertEqual((side.first_loss, side.last_loss()), (None, None))

    def test_a_program_that_ends_says_how(self):
        with self.assertRaisesRegex(RuntimeError, 'ended with status 2'):
            self.side('step/vgg')
        side = self.side(TINY)
        side.process.kill()
        with self.assertRaisesRegex(RuntimeError, 'ended with status -9'):
            side.sample()


class PeerTest(unittest.TestCase):
    """The peer's cases by the names of ours, on a CPU."""

    @classmethod
    def setUpClass(cls):
        try:
            import torch_cuda
        except ImportError as error:
            raise unittest.SkipTest(f'no PyTorch: {error}')
        cls.peer = torch_cuda

    def cases(self):
        options = compare.parse_arguments(['--batch', '2'])
        return compare.list_cases([PROGRAM], options)

    def test_every_case_of_ours_runs(self):
        has_attention = hasattr(self.peer.F, 'scaled_dot_product_attention')  # since torch 2.0
        for case in self.cases():
            if 'resnet50' in case or (re.search('gpt|Attention', case) and not has_attention):
                continue
            for variant in set(self.peer.variants(case)) & {'eager'}:
                with self.subTest(case):
                    side = compare.Torch(self.peer.build(case, variant, 'cpu'), lambda: None, 1e-6)
                    self.assertGreater(side.sample(), 0)
                    compare.check_loss(side.first_loss, side.last_loss())

    def test_networks_have_torchvisions_sizes(self):
        for name, size in (('resnet18', 11_689_512), ('resnet50', 25_557_032)):
            net = self.peer.NETWORKS[name]()
            self.assertEqual(sum(p.numel() for p in net.parameters()), size)


class ReportTest(unittest.TestCase):
    def test_writes_machine_comparisons_and_results(self):
        results = {'case': ({'ringrad': [1.0, 1.0], 'torch.eager': [2.0, 2.0]}, {})}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / 'results.json'
            original = compare.compare
            compare.compare = lambda *_: (results, {'gpu': 'made up'})
            try:
                with contextlib.redirect_stdout(io.StringIO()) as output:
                    status = compare.main(['--binary', PROGRAM, '--json', str(path)])
            finally:
                compare.compare = original
            written = json.loads(path.read_text())
        self.assertEqual(status, 0)
        self.assertIn('| case | 1 µs | torch.eager | 2 µs | 2.00x |', output.getvalue())
        self.assertEqual(written['machine'], {'gpu': 'made up'})
        self.assertEqual(written['comparisons'][0]['ratio'], 2)
        self.assertEqual(written['results'][1],
                         {'suite': 'torch.eager', 'name': 'case', 'values': [2.0, 2.0]})


if __name__ == '__main__':
    unittest.main()
