#!/usr/bin/env python3
"""Jobs that ringrun has not started: how their ranks meet, and that jobs on one machine never mix."""
import os
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from launched import PATIENCE

RANKS = Path('tests/parallel/comm/job/job_store_ranks').absolute()
LAUNCHERS = ('RANK', 'WORLD_SIZE', 'LOCAL_', 'MASTER_', 'OMPI_', 'PMIX_', 'PMI_', 'SLURM_', 'RINGRAD_', 'TORCHELASTIC_')
NOBODY = 65534

# Acts as torchrun does: ranks are children of one process, and variables tell each rank its number.
TORCHRUN = ('for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 "$@" & ranks="$ranks $!"; done; '
            'for rank in $ranks; do wait $rank || failed=$?; done; exit $failed')
# The same with a script around each rank.
WRAPPED = TORCHRUN.replace('"$@"', "bash -c '\"$@\"; exit $?' wrapper \"$@\"")


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def may_be_nobody():
    try:
        return subprocess.run(['true'], user=NOBODY, group=NOBODY, check=False).returncode == 0
    except OSError:  # a user namespace may have only one user
        return False


class JobStoreTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix='job', dir='/tmp'))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o1777)
        self.ranks = self.folder / 'job_store_ranks'  # a place where another user can start it
        shutil.copy(RANKS, self.ranks)
        self.jobs = []
        self.addCleanup(self.end_jobs)

    def end_jobs(self):
        for job in self.jobs:
            job.kill()
            if not job.stdout.closed:
                job.communicate()

    def environment(self, **more):
        plain = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS) and k != 'TEST_PREMATURE_EXIT_FILE'}
        return {**plain, 'TMPDIR': str(self.folder), 'HOME': str(self.folder), **more}

    def start(self, *command, user=None, **variables):
        job = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                               user=user, group=user, env=self.environment(**variables))
        self.jobs.append(job)
        return job

    def torchrun(self, name, stay_ms=0, script=TORCHRUN, user=None, **variables):
        return self.start('bash', '-c', script, 'bash', str(self.ranks), name, str(stay_ms), user=user,
                          **{'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': '29500', **variables})

    def mpirun(self, name, stay_ms=0):
        as_root = ['--allow-run-as-root'] if os.geteuid() == 0 else []
        return self.start('mpirun', *as_root, '--oversubscribe', '--bind-to', 'none', '-n', '2', str(self.ranks), name,
                          str(stay_ms), OMPI_MCA_plm='isolated', OMPI_MCA_btl_base_warn_component_unused='0')

    def rank(self, rank, **variables):
        return self.start(str(self.ranks), 'job', '0', RANK=str(rank), WORLD_SIZE='2', **variables)

    def assert_met(self, job, num_ranks=2):
        out, err = job.communicate()
        self.assertEqual((job.returncode, out, err), (0, 'met\n' * num_ranks, ''))

    def files(self, user=None):
        folder = self.folder / f'ringrad-{os.geteuid() if user is None else user}'
        return list(folder.iterdir()) if folder.exists() else []


class MixTest(JobStoreTest):
    # All jobs have the same address: 9 pairs, whose two jobs start 0.3 s apart and run at the same
    # time.
    def assert_pairs_do_not_mix(self, start):
        for pair in range(9):
            first = start(f'{pair}a', 1000)
            time.sleep(0.3)
            second = start(f'{pair}b', 1000)
            self.assert_met(first)
            self.assert_met(second)
        self.assertEqual(self.files(), [])

    def test_jobs_of_torchrun_do_not_mix(self):
        self.assert_pairs_do_not_mix(self.torchrun)

    def test_jobs_of_mpirun_do_not_mix(self):
        self.assert_pairs_do_not_mix(self.mpirun)

    def test_jobs_of_one_launcher_with_ports_of_their_own_do_not_mix(self):
        one_job = TORCHRUN.split(' done; ')[0].replace('"$@"', '"$1" $MASTER_PORT 500') + ' done; '
        script = f'MASTER_PORT=29500; {one_job} MASTER_PORT=29501; {one_job}' + TORCHRUN.split(' done; ', 1)[1]
        self.assert_met(self.torchrun('', script=script), 4)

    @unittest.skipUnless(may_be_nobody(), 'needs root to be two users')
    def test_jobs_of_two_users_do_not_mix(self):
        jobs = [self.torchrun('ours', 500), self.torchrun('theirs', 500, user=NOBODY)]
        for job in jobs:
            self.assert_met(job)
        self.assertEqual(self.files(NOBODY), [])


class FileTest(JobStoreTest):
    def wait_for_file(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = [path for path in self.files() if not path.name.startswith('new-')]
            if found:
                return found[0]
            time.sleep(0.01)
        self.fail('no file')

    def test_nobody_else_can_read_it(self):
        job = self.rank(0)
        path = self.wait_for_file()
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(path.parent.stat().st_mode), 0o700)
        port, token = path.read_text().split()
        self.assertRegex(token, '^[0-9a-f]{32}$')
        listening = Path('/proc/net/tcp').read_text()
        self.assertIn(f' 0100007F:{int(port):04X} 00000000:0000 0A ', listening)  # at 127.0.0.1 only
        self.assert_met(self.rank(1), 1)
        self.assert_met(job, 1)
        self.assertEqual(self.files(), [])

    def test_scripts_around_ranks_do_not_matter(self):
        self.assert_met(self.torchrun('wrapped', script=WRAPPED))

    def test_what_a_killed_job_left_does_not_matter(self):
        killed = self.rank(0)
        path = self.wait_for_file()
        killed.kill()
        killed.communicate()
        token = path.read_text().split()[1]
        with socket.create_server(('127.0.0.1', 0)) as stranger:  # has the old port now
            stranger.settimeout(PATIENCE)
            path.write_text(f'{stranger.getsockname()[1]} {token}\n')
            late = self.rank(1)
            stranger.accept()[0].close()  # the late rank has read the old file
        self.assert_met(self.rank(0), 1)
        self.assert_met(late, 1)
        # The file does not stay either, once the launcher is gone.
        job = self.torchrun('left', 60000, script='RANK=0 WORLD_SIZE=2 "$@" & sleep 60')
        path = self.wait_for_file()
        subprocess.run(['pkill', '-9', '-P', str(job.pid)], check=True)
        job.kill()
        job.communicate()
        self.assert_met(self.torchrun('next'))
        self.assertFalse(path.exists())

    def test_a_second_job_of_the_same_name_is_refused(self):
        first = self.rank(0)
        self.wait_for_file()
        second = self.rank(0)
        self.assertIn('each must have a MASTER_PORT of its own; got a second rank 0', second.communicate()[1])
        self.assert_met(self.rank(1), 1)
        self.assert_met(first, 1)

    def test_a_folder_that_others_can_write_to_is_refused(self):
        folder = self.folder / f'ringrad-{os.geteuid()}'
        folder.mkdir(mode=0o755)
        expected = 'which must be a folder of this user with mode 0700; got another owner or mode'
        self.assertIn(expected, self.rank(0).communicate()[1])
        self.assertIn(expected, self.rank(1).communicate()[1])
        folder.rmdir()
        elsewhere = self.folder / 'elsewhere'
        elsewhere.mkdir(mode=0o700)
        folder.symlink_to(elsewhere)
        self.assertIn('set RINGRAD_TOKEN on all ranks to one output of `openssl rand -hex 16`',
                      self.rank(0).communicate()[1])


class SecretTest(JobStoreTest):
    def test_a_secret_set_by_hand_is_all_that_is_needed(self):
        variables = {'RINGRAD_TOKEN': secrets.token_hex(16), 'MASTER_PORT': str(free_port()), 'LOCAL_WORLD_SIZE': '1'}
        for local in 0, 1:  # in either order
            jobs = [self.rank(local, LOCAL_RANK='0', **variables), self.rank(1 - local, LOCAL_RANK='0', **variables)]
            for job in jobs:
                self.assert_met(job, 1)
        self.assertEqual(self.files(), [])

    def test_a_name_that_leads_rank_0_to_itself_is_no_address_for_other_hosts(self):
        variables = {'RINGRAD_TOKEN': secrets.token_hex(16), 'MASTER_PORT': str(free_port()),
                     'MASTER_ADDR': '0x7f000101'}  # means 127.0.1.1, as a host's own name does on Debian
        err = self.rank(0, LOCAL_WORLD_SIZE='1', **variables).communicate(timeout=60)[1]
        self.assertIn('MASTER_ADDR must be an address at which other hosts reach rank 0; got "0x7f000101"', err)
        jobs = [self.rank(rank, LOCAL_WORLD_SIZE='2', **variables) for rank in (0, 1)]
        for job in jobs:
            self.assert_met(job, 1)

    def test_a_wrong_secret_does_not_join(self):
        port = str(free_port())
        first = self.rank(0, MASTER_PORT=port, RINGRAD_TOKEN=secrets.token_hex(16))
        stranger = self.rank(1, MASTER_PORT=port, RINGRAD_TOKEN=secrets.token_hex(16))
        self.assertIn("must have this job's token; got one of another job", stranger.communicate()[1])
        first.kill()

    def test_a_weak_secret_is_refused(self):
        for weak in 'job', 'a' * 40:
            err = self.rank(0, RINGRAD_TOKEN=weak).communicate()[1]
            self.assertIn("RINGRAD_TOKEN: the job's secret must have at least 22 characters, 8 of them different", err)
            self.assertIn('openssl rand -hex 16', err)
            self.assertNotIn('a' * 40, err)

    def test_ranks_on_several_hosts_must_have_one(self):
        err = self.rank(0, LOCAL_WORLD_SIZE='1').communicate()[1]
        self.assertIn('ranks on several hosts must share a secret: set RINGRAD_TOKEN on all ranks', err)
        err = self.start(str(self.ranks), 'job', '0', SLURM_PROCID='0', SLURM_NTASKS='2',
                         SLURM_STEP_NUM_NODES='2').communicate()[1]
        self.assertIn('set RINGRAD_TOKEN on all ranks', err)


if __name__ == '__main__':
    unittest.main()
