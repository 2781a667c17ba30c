#!/usr/bin/env python3
"""tools/gtest_isolated with tests that fault on purpose (faulty_tests.cc)."""
import contextlib
import json
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM = str(Path('tests/tools/faulty_tests').absolute())
DEADLINE = '10'  # long for a test that does nothing, even on a busy machine


class GtestIsolatedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json = Path(folder.name) / 'results.json'
        self.command = ['tools/gtest_isolated', '--deadline', DEADLINE, '--json', str(self.json)]

    def run_tests(self, *arguments, program=PROGRAM):
        """(exit status, {test: outcome}, stdout) of a run."""
        run = subprocess.run([*self.command, *arguments, program], text=True, capture_output=True,
                             check=False)
        results = json.loads(self.json.read_text()) if self.json.exists() else {}
        return run.returncode, {name: one['outcome'] for name, one in results.items()}, run.stdout + run.stderr

    def test_a_fault_takes_no_other_test_with_it(self):
        status, outcomes, output = self.run_tests('--filter=-Exit.*')
        bad = {name: outcome for name, outcome in outcomes.items() if outcome != 'passed'}
        self.assertEqual(bad, {'Fault.BreaksItsProcess': 'failed', 'Crash.Aborts': 'crashed', 'Hang.Sleeps': 'hung',
                               'Skip.Skips': 'skipped'})
        self.assertEqual(status, 1)
        self.assertEqual(output.splitlines()[-1], '24 passed, 1 failed, 1 crashed, 1 hung, 1 skipped, 0 not run')

    def test_tests_that_did_not_pass_show_their_output(self):
        _, _, output = self.run_tests('--filter', 'First.*:Fault.*:Crash.*')
        self.assertIn('the device has faulted', output)
        self.assertRegex(output, 'about to abort\n(.*\n)*.*the process ended with status -6')
        self.assertNotIn('OK', output)

    def test_passes_where_all_pass_or_skip_themselves(self):
        status, outcomes, output = self.run_tests('--shards', '3', '--filter', '*Number*:Skip.*:First.*')
        self.assertEqual((status, len(outcomes)), (0, 22))
        self.assertEqual(output, '21 passed, 0 failed, 0 crashed, 0 hung, 1 skipped, 0 not run\n')

    def test_a_process_that_fails_after_its_tests_is_a_failure(self):
        status, outcomes, output = self.run_tests('--filter', 'First.*:Exit.*')
        self.assertEqual(status, 1)
        self.assertEqual(outcomes, {'First.Passes': 'passed', 'Exit.FailsAfterTheTest': 'passed',
                                    '(the process of First.Passes)': 'failed'})
        self.assertIn('the process ended with status 3', output)

    def test_a_program_that_cannot_start_its_tests_ends(self):
        status, outcomes, output = self.run_tests('--filter', '*Number*', '--wrap', 'false')
        self.assertEqual(status, 1)
        self.assertEqual(output.splitlines()[-1], '0 passed, 1 failed, 0 crashed, 0 hung, 0 skipped, 20 not run')
        self.assertEqual(set(outcomes.values()), {'failed', 'not run'})

    def test_at_most_spreads_evenly(self):
        status, outcomes, _ = self.run_tests('--filter', '*Number*', '--at-most', '4')
        self.assertEqual((status, list(outcomes)), (0, [f'Twenty/WithNumber.Passes/{i}' for i in (0, 5, 10, 15)]))

    def test_what_cannot_be_run_is_said(self):
        for arguments, program, message in ((['--filter', 'Nothing.*'], PROGRAM, 'must match a test'),
                                            ([], '/nowhere', 'must list its tests'), ([], 'false', 'must list')):
            status, outcomes, output = self.run_tests(*arguments, program=program)
            self.assertEqual((status, outcomes), (1, {}))
            self.assertIn(message, output)
            self.assertNotIn('Traceback', output)
        for arguments in (['--shards', '0'], ['--deadline', '-1'], ['--at-most', '0']):
            self.assertEqual(self.run_tests(*arguments)[0], 2)

    def test_a_signal_ends_the_tests_and_keeps_the_results(self):
        self.command[2] = '1000'
        process = subprocess.Popen([*self.command, '--filter', 'Hang.*:AfterTheHang.*', PROGRAM], text=True,
                                   stdout=subprocess.PIPE)
        while not self.running():
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate()
        self.assertEqual(process.returncode, 1)
        self.assertIn('2 not run', output)
        self.assertFalse(self.running())

    def running(self):
        """Whether a process of the program runs tests."""
        start = f'{PROGRAM}\0--gtest_flagfile'.encode()
        for path in Path('/proc').glob('[0-9]*/cmdline'):
            with contextlib.suppress(OSError):  # it has just ended
                if path.read_bytes().startswith(start):
                    return True
        return False


if __name__ == '__main__':
    unittest.main()
