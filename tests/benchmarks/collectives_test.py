#!/usr/bin/env python3
"""benchmarks/collectives on tiny tensors: every backend, every algorithm, and results that are wrong on purpose.

NcclCommunicatorTest covers NCCL. (Times are not judged, because this machine may be busy.)
"""
import json
import math
import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAM = str(Path('benchmarks/collectives').absolute())
FACTORS = {'all_reduce': lambda n: 2 * (n - 1) / n, 'reduce_scatter': lambda n: (n - 1) / n,
           'all_gather': lambda n: (n - 1) / n, 'broadcast': lambda n: 1, 'reduce': lambda n: 1,
           'all_to_all': lambda n: (n - 1) / n, 'send_recv': lambda n: 1}
LIMITS = ('memcpy', 'device_copy', 'launch')
TINY = ('--samples', '1', '--min-size', '1KiB', '--max-size', '1KiB')


class CollectivesTest(unittest.TestCase):
    def run_program(self, *arguments, **environment):
        with tempfile.TemporaryDirectory(prefix='coll', dir='/tmp') as folder:  # OpenMPI limits its names
            plain = {k: v for k, v in os.environ.items() if not k.startswith(('OMPI_', 'PMIX_', 'PMI_'))}
            run = subprocess.run([PROGRAM, *arguments], text=True, capture_output=True, check=False,
                                 env={**plain, 'TMPDIR': folder, 'HOME': folder, **environment})
            self.assertEqual(os.listdir(folder), [], 'something is left behind')
        return run

    def results(self, *arguments, status=0):
        """The content of the JSON, and the run."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / 'results.json'
            run = self.run_program(*arguments, '--json', str(path))
            self.assertEqual(run.returncode, status, run.stdout + run.stderr)
            return json.loads(path.read_text()), run

    def assert_right(self, result):
        """The result's columns agree with each other and with nccl-tests' definitions."""
        columns = [result[name] for name in ('out_of_place', 'in_place') if result[name]]
        self.assertTrue(columns, result)
        for column in columns:
            self.assertEqual(column['wrong'], None if result['backend'] in LIMITS else 0, result)
            self.assertGreater(column['time_us'], 0)
            if result['backend'] == 'launch':  # moves nothing
                self.assertNotIn('busbw_gbps', column)
                continue
            self.assertTrue(math.isclose(column['algbw_gbps'], result['size'] / column['time_us'] * 1e-3))
            factor = 1 if result['backend'] in LIMITS else FACTORS[result['collective']](result['ranks'])
            self.assertTrue(math.isclose(column['busbw_gbps'], factor * column['algbw_gbps']), result)


class BackendsTest(CollectivesTest):
    def assert_all_are_right(self, backends, *arguments):
        results, run = self.results('--backends', ','.join(backends), '--collectives', 'all', *TINY, *arguments)
        for result in results['results']:
            self.assert_right(result)
        for backend in backends:
            ran = {r['collective'] for r in results['results'] if r['backend'] == backend}
            self.assertEqual(ran, {'all_reduce'} if backend == 'gloo_itself' else set(FACTORS), run.stdout)
        return results['results']

    def test_every_algorithm_of_threads_is_exact(self):
        results = self.assert_all_are_right(['threads'], '--ranks', '3', '--algorithms', 'all')
        self.assertLessEqual({'ring', 'two_shot', 'tree'}, {r['algorithm'] for r in results})

    def test_processes_are_exact_with_and_without_shared_tensors(self):
        self.assert_all_are_right(['processes', 'copied', 'memcpy'], '--ranks', '2')

    def test_gloo_and_openmpi_are_exact_ours_and_theirs(self):
        self.assert_all_are_right(['gloo', 'gloo_itself'], '--ranks', '2')
        self.assert_all_are_right(['mpi', 'openmpi'], '--ranks', '2')

    def test_simulated_gpus_are_exact(self):
        results = self.assert_all_are_right(['gpus', 'device_copy', 'launch'], '--ranks', '4')
        for result in results:
            if not result['simulated']:
                self.skipTest('compiled for real GPUs')
            self.assertIn('imulated', result['gpu'])
            self.assertGreater((result['in_place'] or result['out_of_place'])['wall_us'], 0)

    def test_kernels_and_copy_engines_of_gpus_are_exact(self):
        for transfers in ('copy_engines', 'kernels'):
            results, _ = self.results('--backends', 'gpus', '--ranks', '2', '--algorithms', 'ring,one_shot_kernel',
                                      '--transfers', transfers, '--gpus', '1', *TINY)
            self.assertEqual([r['algorithm'] for r in results['results']], ['ring', 'one_shot_kernel'])
            for result in results['results']:
                self.assert_right(result)
                self.assertEqual(result['transfers'], transfers)


class InputsTest(CollectivesTest):
    def test_every_dtype_and_operation_is_exact(self):
        floating = ('float32', 'float64', 'float16', 'bfloat16')
        for dtype in (*floating, 'int32', 'int64', 'uint8', 'bool'):
            for op in ('sum', 'mean', 'product', 'min', 'max'):
                if (op == 'mean' and dtype not in floating) or (op == 'sum' and dtype == 'bool'):
                    continue
                with self.subTest(dtype=dtype, op=op):
                    results, _ = self.results('--backends', 'threads', '--ranks', '3', '--dtype', dtype, '--op', op,
                                              '--collectives', 'all_reduce,reduce_scatter', *TINY)
                    for result in results['results']:
                        self.assert_right(result)
                        self.assertEqual((result['dtype'], result['op']), (dtype, op))

    def test_takes_a_list_of_sizes(self):
        results, _ = self.results('--samples', '1', '--sizes', '4,2KiB,1KiB', '--backends', 'threads')
        self.assertEqual([result['size'] for result in results['results']], [4, 2048, 1024])

    def test_sizes_mean_what_nccl_tests_mean(self):
        results, _ = self.results('--backends', 'threads', '--ranks', '4', '--collectives', 'all', *TINY)
        counts = {r['collective']: (r['size'], r['count']) for r in results['results']}
        for collective, (size, count) in counts.items():
            parts = collective in ('reduce_scatter', 'all_gather', 'all_to_all')
            self.assertEqual((size, count), (1024, 64 if parts else 256), collective)

    def test_planted_errors_are_counted(self):
        for backend, collective in (('threads', 'all_reduce'), ('processes', 'all_gather'), ('gpus', 'reduce'),
                                    ('openmpi', 'all_to_all')):
            with self.subTest(backend=backend):
                results, run = self.results('--backends', backend, '--collectives', collective, '--plant-wrong', '5',
                                            *TINY, status=1)
                for result in results['results']:
                    for column in filter(None, (result['out_of_place'], result['in_place'])):
                        self.assertEqual(column['wrong'], 5)
                self.assertIn('      5', run.stdout)


class SideBySideTest(CollectivesTest):
    def test_peers_are_compared_with_goals(self):
        results, run = self.results('--peers', '--rounds', '2', *TINY)
        summary, = results['comparisons']
        self.assertEqual(set(summary['times_us']),
                         {'threads', 'processes', 'copied', 'openmpi', 'gloo_itself', 'memcpy'})
        checks = {check['name']: check for check in summary['checks']}
        self.assertEqual(set(checks), {'best peer/ours', 'openmpi/ours', 'processes/threads', 'memcpy/ours'})
        self.assertEqual(checks['best peer/ours']['goal'], 1 / 1.15)
        self.assertEqual(checks['best peer/ours']['reached'], checks['best peer/ours']['ratio'] >= 1 / 1.15)
        self.assertIsNone(checks['openmpi/ours']['goal'])
        times = {r['backend']: r['in_place']['rounds_us'] for r in results['results'] if r['in_place']}
        ratios = [t / o for t, o in zip(times['openmpi'], times['processes'])]
        either = [*ratios, sum(ratios) / 2]  # a round may have been disturbed
        self.assertTrue(any(math.isclose(checks['openmpi/ours']['ratio'], ratio) for ratio in either), summary)
        missed = [check for check in summary['checks'] if check['reached'] is False]
        self.assertIn('MISS' if missed else 'PASS', run.stdout)


class CommandLineTest(CollectivesTest):
    def test_help_lists_backends_and_algorithms(self):
        run = self.run_program('--help')
        self.assertEqual(run.returncode, 0)
        for word in ('gloo_itself', 'two_shot', 'one_shot_kernel', '#wrong'):
            self.assertIn(word, run.stdout)

    def test_wrong_options_say_what_must_hold(self):
        for arguments, message in (
                (['--backends', 'thread'], '--backends: must be one of threads processes'),
                (['--collectives', 'all_scatter'], '--collectives: must be one of all_reduce'),
                (['--algorithms', 'rings'], '--algorithms: must be one of all default two_shot'),
                (['--backends', 'threads', '--algorithms', 'ring_kernel'], 'got ring_kernel'),
                (['--dtype', 'float'], '--dtype: must be one of float32'),
                (['--op', 'average'], '--op: must be one of sum'),
                (['--op', 'mean', '--dtype', 'int32'], 'must have a floating dtype; got --dtype int32'),
                (['--op', 'sum', '--dtype', 'bool'], 'sum must have numbers'),
                (['--backends', 'openmpi', '--op', 'max'], 'with float32 and sum; got float32 and max'),
                (['--collectives', 'reduce', '--root', '2'], '--root: must be one of 2 ranks; got 2'),
                (['--min-size', '8', '--max-size', '4'], '--min-size: must be at most --max-size; got 8 and 4'),
                (['--sizes', '8', '--max-size', '4'], '--max-size excludes --sizes'),
                (['--sizes', '4,0'], '0 not in range'),
                (['--ranks', '0'], '--ranks: Value 0 not in range'),
                (['--colour', 'red'], '--colour')):
            run = self.run_program(*arguments)
            self.assertEqual((run.returncode, run.stdout), (2, ''), arguments)
            self.assertIn(message, run.stderr)

    def test_refuses_to_be_started_by_mpirun(self):
        run = self.run_program(OMPI_COMM_WORLD_SIZE='2')
        self.assertEqual(run.returncode, 2)
        self.assertIn('starts mpirun by itself', run.stderr)

    def test_a_case_that_cannot_run_is_named_and_the_others_go_on(self):
        # A missing file is not NCCL.
        run = self.run_program('--backends', 'nccl,threads', *TINY, RINGRAD_NCCL='/nowhere')
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stdout, r'\n *1024 +256 .* threads ')
        self.assertIn('all_reduce by nccl/default, 2 ranks, 1024 B: rank ', run.stderr)
        run = self.run_program('--backends', 'gpus', '--gpus', '99', *TINY)
        self.assertEqual(run.returncode, 1)
        self.assertIn('there must be 99 GPUs; got ', run.stderr)

    def test_an_interrupt_leaves_nothing(self):
        for backend in ('processes', 'openmpi'):
            with self.subTest(backend=backend), tempfile.TemporaryDirectory(prefix='coll', dir='/tmp') as folder:
                plain = {k: v for k, v in os.environ.items() if not k.startswith(('OMPI_', 'PMIX_', 'PMI_'))}
                with subprocess.Popen([PROGRAM, '--backends', backend, '--samples', '10000', '--min-size',
                                       '1MiB'], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      env={**plain, 'TMPDIR': folder, 'HOME': folder}) as program:
                    program.stdout.readline()
                    while not os.listdir(folder):
                        self.assertIsNone(program.poll())
                    program.send_signal(signal.SIGINT)
                    _, errors = program.communicate()
                self.assertEqual((program.returncode, os.listdir(folder)), (1, []), errors)
                self.assertIn('collectives: Interrupt', errors)

    def test_a_file_that_cannot_be_written_is_named(self):
        run = self.run_program('--backends', 'threads', *TINY, '--json', '/nowhere/results.json')
        self.assertEqual((run.returncode, run.stdout), (2, ''))
        self.assertIn('--json: the file must be writable; got /nowhere/results.json', run.stderr)


if __name__ == '__main__':
    unittest.main()
