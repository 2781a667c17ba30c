#!/usr/bin/env python3
"""tools/gpu_run_all: its rules with steps that fail on purpose, and a dry run of all phases on simulated GPUs."""
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

# Each step appends to `log`, so that the test sees which steps ran.
STEPS = r'''
declare -A budget=([A]=300 [B]=${B_SECONDS:-300} [C]=1 [D]=1)
phase_A() {
  step first 100 sh -c 'echo first >>log; echo "12 passed"'
  step fails 100 sh -c 'echo fails >>log; exit 3'
  step crashes 100 sh -c 'echo crashes >>log; kill -SEGV $$'
  step hangs 1 sh -c 'echo hangs >>log; eval "${ON_TERM-}"; while :; do sleep 1; done'
  skip tool "the machine lacks the tool"
}
phase_B() {
  step slow 200 sh -c 'echo slow >>log; sleep "${SLOW_SECONDS:-0}"'
  step late 200 sh -c 'echo late >>log'
}
phase_C() { :; }
phase_D() { :; }
'''
LIMIT = 480  # seconds that any phase may take


class RunAllTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bundle = Path(folder.name)

    def command(self, *arguments):
        return [str(self.bundle / 'run_all.sh'), *arguments]

    def run_all(self, *arguments, **environment):
        return subprocess.run(self.command(*arguments), text=True, capture_output=True, cwd=self.bundle,
                              env={**os.environ, **environment}, check=False)

    def outcomes(self, run):
        """{step: outcome} of the table."""
        table = run.stdout[run.stdout.index('\nphase '):]
        return {step: outcome for step, outcome in re.findall(r'^[A-D] +(\w+) +(\w+) +\d+$', table, re.MULTILINE)}

    def packed(self, results='results'):
        with tarfile.open(self.bundle / f'{results}.tar.gz') as tar:
            return {name.removeprefix(f'{results}/') for name in tar.getnames()}


class PlantedTest(RunAllTest):
    """The test's own steps, and a made-up check of the machine."""

    def setUp(self):
        super().setUp()
        (self.bundle / 'bin').mkdir()
        shutil.copy('tools/gpu_run_all', self.bundle / 'run_all.sh')
        (self.bundle / 'phases').write_text(STEPS)
        self.check('exit 0')

    def check(self, script):
        path = self.bundle / 'gpu_check'
        path.write_text('#!/bin/sh\n' + script)
        path.chmod(0o755)

    def log(self):
        path = self.bundle / 'log'
        names = path.read_text().split()
        path.unlink()
        return names

    def test_every_step_runs_and_has_its_outcome(self):
        run = self.run_all('A', ON_TERM='trap "" TERM')  # only SIGKILL ends the step that hangs
        self.assertEqual(self.outcomes(run), {'first': 'passed', 'fails': 'failed', 'crashes': 'crashed',
                                              'hangs': 'timed_out', 'tool': 'skipped'})
        self.assertEqual(run.stdout.splitlines()[-1], '1 passed, 2 failed, 1 timed out, 0 not run, 1 skipped')
        self.assertEqual(run.returncode, 1)
        self.assertIn('12 passed', run.stdout)  # the last line of the log
        self.assertLessEqual({'summary.txt', 'check.log', 'first.log', 'fails.log', 'hangs.outcome'}, self.packed())

    def test_goes_on_with_what_has_not_passed(self):
        self.assertEqual(self.run_all('A').returncode, 1)
        self.log()
        (self.bundle / 'phases').write_text(STEPS.replace('exit 3', 'true').replace('hangs 1 ', 'new 1 true; : '))
        run = self.run_all('A')
        self.assertEqual(self.log(), ['fails', 'crashes'])
        self.assertEqual(self.outcomes(run), {'first': 'passed', 'new': 'passed', 'fails': 'passed',
                                              'crashes': 'crashed', 'tool': 'skipped'})

    def test_steps_that_never_ran_go_first(self):
        self.run_all('A', '--step-limit', '5')
        self.log()
        (self.bundle / 'results' / 'crashes.outcome').unlink()
        self.run_all('A')
        self.assertEqual(self.log(), ['crashes', 'fails', 'hangs'])

    def test_a_phase_ends_with_its_budget(self):
        run = self.run_all('B', B_SECONDS='1', SLOW_SECONDS='100')
        self.assertEqual(self.outcomes(run), {'slow': 'timed_out', 'late': 'not_run'})
        self.assertEqual((run.returncode, self.log()), (1, ['slow']))
        run = self.run_all('B')
        self.assertEqual((run.returncode, self.log()), (0, ['late', 'slow']))
        self.assertEqual(run.stdout.splitlines()[-1], '2 passed, 0 failed, 0 timed out, 0 not run, 0 skipped')

    def test_a_signal_ends_the_step_and_packs_the_results(self):
        with subprocess.Popen(self.command('B', 'A'), text=True, stdout=subprocess.PIPE, cwd=self.bundle,
                              env={**os.environ, 'SLOW_SECONDS': '1000'}) as process:
            log = self.bundle / 'log'
            while not (log.exists() and log.read_text()) and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate()
        self.assertEqual(process.returncode, 1)
        self.assertEqual(output.splitlines()[-1], '0 passed, 0 failed, 1 timed out, 6 not run, 0 skipped')
        self.assertEqual(self.log(), ['slow'])
        self.assertIn('slow.outcome', self.packed())

    def test_nothing_runs_where_the_check_fails(self):
        self.check('echo "there is a GPU, and it is unusable"; exit 1')
        run = self.run_all('--results', 'elsewhere')
        self.assertEqual(run.returncode, 1)
        self.assertIn('it is unusable', run.stdout)
        self.assertFalse((self.bundle / 'log').exists())
        self.assertIn('check.log', self.packed('elsewhere'))

    def test_only_some_steps_run(self):
        run = self.run_all('--only', '^(first|late)$', 'A', 'B')
        self.assertEqual(self.outcomes(run), {'first': 'passed', 'late': 'passed'})
        self.assertEqual((run.returncode, self.log()), (0, ['first', 'late']))

    def test_wrong_arguments_are_refused(self):
        for arguments, message in ((['E'], 'got E'), (['--step-limit', '0'], 'got 0'), (['--results'], 'must have'),
                                   (['--only', '('], 'expression; got ('), (['--only', 'x', 'A'], 'got x')):
            run = self.run_all(*arguments)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(message, run.stderr)
            self.assertFalse((self.bundle / 'log').exists())


class SimulatedTest(RunAllTest):
    """The bundle of the simulator's flavour."""

    def setUp(self):
        super().setUp()
        listed = subprocess.run(['benchmarks/cuda_training_benchmark', '--list'], text=True, capture_output=True,
                                check=True).stdout
        if '/H:32/' not in listed:
            self.skipTest('the programs were compiled for real GPUs')
        subprocess.run(['tools/gpu_bundle', '--simulated', '--prebuilt', '.', self.bundle], check=True)

    def test_all_phases_run_within_their_limits(self):
        listed = [line.split() for line in self.run_all('--list').stdout.splitlines()]
        self.assertEqual({phase for phase, _, _ in listed}, set('ABCD'))
        for phase, runs in {'A': 1, 'B': 1, 'C': 1, 'D': 2}.items():
            self.assertLessEqual(sum(int(limit) for one, _, limit in listed if one == phase), runs * LIMIT)

        run = self.run_all()
        outcomes = self.outcomes(run)
        self.assertEqual(list(outcomes), [name for _, name, _ in listed])
        self.assertEqual({name: outcome for name, outcome in outcomes.items() if outcome != 'passed'},
                         {'memcheck': 'skipped', 'racecheck': 'skipped', 'ncu': 'skipped'}, run.stdout)
        self.assertEqual(run.returncode, 0)
        self.assertLessEqual({'tests_native.json', 'benchmark_native.json', 'ring_8_segments.json'}, self.packed())

        # A GPU that no program can use fails the check, whatever steps have passed before.
        program = self.bundle / 'bin' / 'cuda_training_benchmark'
        program.write_text('#!/bin/sh\necho "CUDA driver version is insufficient"; exit 1\n')
        run = self.run_all('A')
        self.assertEqual(run.returncode, 1)
        self.assertIn('CUDA driver version is insufficient\ngpu_check: ', run.stdout)


if __name__ == '__main__':
    unittest.main()
