#!/usr/bin/env python3
"""The MPI backend under mpirun. (Not run under sanitizers: OpenMPI is not instrumented and keeps memory until it ends.)"""
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

RANKS = str(Path('tests/parallel/comm/network/mpi_ranks').absolute())


def is_mapped(name):
    """Whether a process that this user may ask has the file of shared memory."""
    for maps in Path('/proc').glob('[0-9]*/maps'):
        try:
            if name in maps.read_text():
                return True
        except OSError:
            pass
    return False


class MpiTest(unittest.TestCase):
    def setUp(self):
        # OpenMPI puts sockets there; names of sockets have limited length.
        self.folder = tempfile.mkdtemp(prefix='mpi', dir='/tmp')
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def environment(self, **more):
        launchers = ('RANK', 'WORLD_SIZE', 'MASTER_', 'OMPI_', 'PMIX_', 'PMI_', 'SLURM_')
        plain = {k: v for k, v in os.environ.items() if not k.startswith(launchers) and k != 'TEST_PREMATURE_EXIT_FILE'}
        return {**plain, 'TMPDIR': self.folder, 'HOME': self.folder, 'OMPI_MCA_plm': 'isolated',
                'OMPI_MCA_btl_base_warn_component_unused': '0', 'OMPI_MCA_btl': '^tcp', **more}

    @staticmethod
    def command(num_ranks, *arguments):
        as_root = ['--allow-run-as-root'] if os.geteuid() == 0 else []
        return ['mpirun', *as_root, '--oversubscribe', '--bind-to', 'none', '-n', str(num_ranks), RANKS, *arguments]

    def mpirun(self, num_ranks, *arguments, **environment):
        return subprocess.run(self.command(num_ranks, *arguments), env=self.environment(**environment), text=True,
                              capture_output=True)

    def assert_no_segments_left(self, stderr):
        """Segments of the job whose number rank 1 has printed; or for OpenMPI 5, all that no process has mapped."""
        job = re.search(r'^job ([0-9a-f]+)$', stderr, re.M)[1]
        names = [path.name for path in Path('/dev/shm').iterdir()]
        if job == '0':
            left = [name for name in names if name.startswith('sm_segment.') and not is_mapped(name)]
        else:
            left = [name for name in names if f'.{job}.' in name]
        self.assertEqual(left, [])

    def assert_nothing_left(self):
        word = self.folder.encode()
        end = time.monotonic() + 200
        while time.monotonic() < end:
            left = []
            for path in Path('/proc').glob('[0-9]*'):
                try:
                    if word in path.joinpath('environ').read_bytes():
                        left.append(path.joinpath('cmdline').read_bytes())
                except OSError:
                    pass
            if not left:
                return
            time.sleep(0.01)
        self.fail(f'processes stay behind: {left}')


class RunsTest(MpiTest):
    def assert_passes(self, run):
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assert_nothing_left()

    def test_one_to_four_ranks_pass_the_suite(self):
        for num_ranks in (1, 2, 3, 4):
            with self.subTest(num_ranks=num_ranks):
                self.assert_passes(self.mpirun(num_ranks))

    def test_a_rank_without_a_launcher_is_alone(self):
        self.assert_passes(subprocess.run([RANKS], env=self.environment(), text=True, capture_output=True))

    def test_a_library_that_serves_one_thread_is_enough(self):
        self.assert_passes(self.mpirun(2, '--gtest_also_run_disabled_tests', '--gtest_filter=*OneThreadAlone*'))

    def test_a_host_hands_over_a_part_of_its_ranks(self):
        for num_ranks in (2, 3, 4):
            with self.subTest(num_ranks=num_ranks):
                self.assert_passes(self.mpirun(num_ranks, '--gtest_also_run_disabled_tests', '--gtest_filter=*AHostHands*'))


class FailsTest(MpiTest):
    def test_another_launcher_is_refused(self):
        run = subprocess.run([RANKS, '--gtest_filter=*.AddsInRankOrder'], text=True, capture_output=True,
                             env=self.environment(RANK='0', WORLD_SIZE='2'))
        self.assertIn('ranks must be started by mpirun, or by srun with PMIx; got 2 ranks of another launcher',
                      run.stdout)

    def test_a_stopped_rank_is_named_and_the_job_ends(self):
        run = self.mpirun(3, '--gtest_also_run_disabled_tests', '--gtest_filter=*AStoppedRank*')
        self.assertIn('rank 0 knows', run.stderr, run.stdout)
        self.assertIn('rank 2 knows', run.stderr, run.stdout)
        self.assertNotEqual(run.returncode, 0)
        self.assert_nothing_left()

    def test_a_rank_that_is_stopped_in_mpi_init_is_named_and_the_job_ends(self):
        for where in ('first', 'middle'):
            with self.subTest(where=where):
                run = self.mpirun(3, '--gtest_also_run_disabled_tests', '--gtest_filter=*JoinsWithinFourSeconds',
                                  STOP_IN_MPI_INIT=where)
                self.assertIn('mpi group: MPI_Init must return on every rank within 4 s; got no sign of life from '
                              'rank 1, which died or was stopped\n', run.stderr)
                self.assertNotEqual(run.returncode, 0)
                self.assert_nothing_left()
                self.assert_no_segments_left(run.stderr)

    def test_a_job_that_is_killed_with_mpirun_leaves_no_shared_memory(self):
        with subprocess.Popen(self.command(3, '--gtest_also_run_disabled_tests', '--gtest_filter=*WaitsToBeKilled'),
                              env=self.environment(), text=True, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as job:
            said = ''
            while said.count('ready') < 3:
                line = job.stderr.readline()
                self.assertTrue(line, said)
                said += line
            job.kill()
        self.assert_nothing_left()
        self.assert_no_segments_left(said)

    def test_a_job_that_ends_says_nothing_of_its_shared_memory(self):
        run = self.mpirun(3, '--gtest_also_run_disabled_tests', '--gtest_filter=*JoinsWithinFourSeconds')
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertRegex(run.stderr, r'\Ajob [0-9a-f]+\n\Z')
        self.assert_no_segments_left(run.stderr)

    def test_mpirun_ends_a_job_that_has_lost_a_rank(self):
        run = self.mpirun(3, '--gtest_also_run_disabled_tests', '--gtest_filter=*ARankIsKilled*')
        self.assertNotEqual(run.returncode, 0)
        self.assert_nothing_left()


if __name__ == '__main__':
    unittest.main()
