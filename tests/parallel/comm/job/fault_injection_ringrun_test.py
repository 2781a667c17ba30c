#!/usr/bin/env python3
"""ringrun --inject: how ranks see planned faults, and that no process or file stays behind."""
import json
import tempfile
import unittest
from pathlib import Path

from launched import RINGRUN, Unique, ringrun

RANKS = str(Path('tests/parallel/comm/job/fault_injection_ranks').absolute())


class FaultInjectionTest(Unique):
    def run_ranks(self, plan, *options, ranks=3, steps=50, deadline_ms=20000, grace=5, **more):
        """A job whose processes have self.word in their command lines."""
        run = ringrun('-n', str(ranks), '--grace', str(grace), '--inject', plan, *options, RANKS, str(steps),
                      str(deadline_ms), self.word, **more)
        self.assert_nothing_left()
        return run

    def test_a_killed_rank_is_named_by_all_others(self):
        run = self.run_ranks('kill:2@step=17')
        self.assertEqual(run.returncode, 128 + 9)
        self.assertIn('[2] ringrad inject: rank 2 kills itself at step 17\n', run.stderr)
        for rank in (0, 1):
            self.assertRegex(run.stderr, rf'\[{rank}\] all_reduce\(sum, float32, 1000 elements\) #\d+ on rank {rank}: '
                                         r'the group must be whole; got a failure of rank 2: it has died')
        self.assertTrue(run.stderr.endswith('ringrun: rank 2 failed first: killed by signal 9 (Killed)\n'
                                            'ringrun:   ringrad inject: rank 2 kills itself at step 17\n'), run.stderr)
        self.assertNotIn('done', run.stdout)

    def test_ranks_that_abort_or_exit_are_named_by_all_others(self):
        for plan, code in (('abort:0@call=9', 128 + 6), ('exit:0=7@call=9', 7)):
            run = self.run_ranks(plan)
            self.assertEqual(run.returncode, code, run.stderr)
            self.assertEqual(run.stderr.count('got a failure of rank 0: it has died'), 2, run.stderr)
        # A rank that exits as if it were done is not a failure for the launcher, but it is one for
        # the other ranks.
        run = self.run_ranks('exit:0=0@call=9')
        self.assertEqual(run.returncode, 3, run.stderr)

    def test_a_stopped_rank_is_late_and_does_not_stay(self):
        run = self.run_ranks('stop:1@step=5', deadline_ms=2000, grace=0.3)
        self.assertEqual(run.returncode, 3)
        self.assertIn('[1] ringrad inject: rank 1 stops itself at step 5\n', run.stderr)
        self.assertRegex(run.stderr, r'every rank must arrive within 2 s; got no call from rank 1')
        self.assertRegex(run.stderr, r'ringrun: rank 1 failed first: still running, blamed by rank [02] \(exit code 3\)\n'
                                     r'ringrun:   ringrad inject: rank 1 stops itself at step 5\n'
                                     r'ringrun:   \[[02]\] all_reduce')

    def test_calls_and_steps_of_a_rank_are_counted(self):
        # A step makes two calls, after the barrier in which ranks join: the eighth call is the
        # first of step 4.
        run = self.run_ranks('exit:1=5@call=9,exit:1=6@step=4')
        self.assertEqual(run.returncode, 6)
        run = self.run_ranks('exit:1=5@call=7,exit:1=6@step=4')
        self.assertEqual(run.returncode, 5)

    def test_delays_are_seen_in_the_flight_records(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_ranks('delay:0=100ms,delay:1=400ms@call=5', ranks=2, steps=4,
                           env={'RINGRAD_FLIGHT_DIR': folder})
            flights = {}
            for path in Path(folder).glob('flight_*.json'):
                flight = json.loads(path.read_text())
                flights[flight['rank']] = flight['operations']
        self.assertEqual(sorted(flights), [0, 1])
        begins = [operation['begin_us'] for operation in flights[0]]
        self.assertTrue(all(later - earlier > 100_000 for earlier, later in zip(begins, begins[1:])), begins)
        # The rank that waits for a late rank has the long call.
        waited = {operation['sequence']: operation['took_us'] for operation in flights[1]}
        self.assertGreater(sum(waited[k] for k in (2, 3, 4, 6, 7, 8)), 300_000)
        self.assertGreater(flights[0][4]['took_us'], 150_000)

    def test_faults_of_the_first_run_are_over_after_a_restart(self):
        run = self.run_ranks('kill:1@step=2', '--max-restarts', '1', grace=0.2)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout.count('done'), 3)
        run = self.run_ranks('kill:1@step=2,exit:0=5@step=2@restart=1', '--max-restarts', '1', grace=0.2)
        self.assertEqual(run.returncode, 5)
        self.assertIn('rank 0 exits with code 5 at step 2', run.stderr)

    def test_a_job_that_a_rank_starts_has_no_plan_of_its_own(self):
        run = ringrun('-n', '1', '--inject', 'exit:0=7@step=2', RINGRUN, '-n', '1', RANKS, '4', '20000', self.word)
        self.assertEqual(run.returncode, 0, run.stderr)
        run = ringrun('-n', '1', RANKS, '4', '20000', self.word, env={'RINGRAD_INJECT': 'exit:0=7@step=2'})
        self.assertEqual(run.returncode, 7, run.stderr)

    def test_a_plan_is_checked_before_anything_starts(self):
        for plan, text in (('kill:3@step=1', 'the rank must be a number in [0, 2]; got "3"'),
                           ('kill:1', 'must say when'), ('kill:1@step=1@restart=1', 'got restart 1')):
            run = ringrun('-n', '3', '--inject', plan, script='echo started')
            self.assertEqual((run.returncode, run.stdout), (2, ''), plan)
            self.assertIn(text, run.stderr)


if __name__ == '__main__':
    unittest.main()
