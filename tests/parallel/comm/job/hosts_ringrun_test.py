#!/usr/bin/env python3
"""ringrun --hosts, with remote shells that stay on this machine: the variables that ranks get, how hosts are lost,
and that no process stays behind. tools/test_two_hosts has hosts with a network between them."""
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from launched import PATIENCE, RINGRUN, Unique, processes_with, ringrun

# Remote shells, called with the host and the command. 'joined' joins the words as ssh does;
# 'pumped' has two pipes that can be stopped.
SHELLS = {'direct': 'shift; exec "$@"',
          'joined': 'shift; exec bash -c "$*"',
          'pumped': 'shift; exec -a PUMP_$1 cat | "$@" | exec -a PUMP cat',
          'chatty': 'echo Welcome; shift; exec "$@"',
          'lingers': 'shift; "$@"; exec >&-; sleep 0.5',
          'endless': 'exec cat /dev/zero',
          'dripping': 'for i in {1..100}; do printf 1:; sleep 0.2; printf A; done',
          'steals': 'shift; printf "1:A1:A1:A"; exec cat >> PUMP.stolen',
          'deaf': 'exec <&-; sleep 2; echo "no route to $1" >&2; exit 255',
          'refuses': 'echo "no route to $1" >&2; exit 255'}


class HostsTest(Unique):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def shell(self, kind):
        path = Path(self.folder.name, kind)
        path.write_text('#!/bin/bash\n' + SHELLS[kind].replace('PUMP', f'{self.word}_pump') + '\n')
        path.chmod(0o755)
        return str(path)

    def arguments(self, hosts, kind, *options):
        return ['--hosts', hosts, '--rsh', self.shell(kind), '--master-addr', '127.0.0.1', *options]

    def run_hosts(self, script, *options, hosts='localhost:1,far:2', kind='direct', **more):
        run = ringrun(*self.arguments(hosts, kind, *options), script=f'{script} # {self.word}', **more)
        self.assert_nothing_left()
        return run

    def start(self, script, *options, ranks=3, hosts='localhost:1,far:2', kind='direct'):
        """ringrun, once all ranks have printed that they are ready."""
        job = subprocess.Popen([RINGRUN, *self.arguments(hosts, kind, *options), 'bash', '-c',
                                f'{script} # {self.word}'], text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        for _ in range(ranks):
            self.assertIn('ready', job.stdout.readline())
        return job

    def agents_of(self, job):
        """(first process, second process) of the far host's agent."""
        first = [p for p in processes_with('--agent') if parent_of(p) == job.pid]
        second = [p for p in processes_with('--agent') if first and parent_of(p) == int(first[0])]
        self.assertEqual((len(first), len(second)), (1, 1))
        return int(first[0]), int(second[0])

    def test_tell_ranks_their_place(self):
        script = ('echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE $MASTER_ADDR '
                  '${MASTER_PORT:+port} ${RINGRAD_TOKEN:+token} $RINGRAD_RESTART_COUNT "$RINGRAD_NOTE" $PWD')
        expected = ['[0@localhost] 0 0 5 1 0 3 127.0.0.1 port token 0 a  b ' + os.getcwd()]
        for rank, local, host, group in ((1, 0, 'far', 1), (2, 1, 'far', 1), (3, 0, 'farther', 2), (4, 1, 'farther', 2)):
            expected.append(f'[{rank}@{host}] {rank} {local} 5 2 {group} 3 127.0.0.1 port token 0 a  b {os.getcwd()}')
        for kind in 'direct', 'joined':
            run = self.run_hosts(script, hosts='localhost,far:2,farther:2', kind=kind,
                                 env={**os.environ, 'RINGRAD_NOTE': 'a  b'})
            self.assertEqual((run.returncode, run.stderr), (0, ''))
            self.assertEqual(sorted(run.stdout.splitlines()), expected)

    def test_of_this_machine_are_told_where_the_store_listens(self):
        # The store's Unix socket has a name that follows from that address.
        run = self.run_hosts('echo $MASTER_ADDR', '--bind', '0.0.0.0', hosts='localhost,far')
        self.assertEqual(sorted(run.stdout.splitlines()), ['[0@localhost] 0.0.0.0', '[1@far] 127.0.0.1'])

    def test_whose_names_all_lead_to_this_machine_are_mentioned(self):
        run = ringrun('--hosts', 'localhost,127.0.1.1', '--rsh', self.shell('direct'), script='echo $MASTER_ADDR')
        self.assertEqual(sorted(run.stdout.splitlines()), ['[0@localhost] 127.0.0.1', '[1@127.0.1.1] 127.0.0.1'])
        self.assertEqual(run.stderr, "ringrun: all hosts' names lead to this machine, so ranks look for the store at "
                                     '127.0.0.1; --master-addr says otherwise\n')

    def test_keep_the_token_out_of_command_lines(self):
        run = self.run_hosts('echo "$RINGRAD_TOKEN" | grep -lFf - /proc/[0-9]*/cmdline; '
                             'echo "$MASTER_PORT" | grep -c ^ ')
        self.assertEqual(sorted(run.stdout.splitlines()), ['[0@localhost] 1', '[1@far] 1', '[2@far] 1'])

    def test_keep_lines_whole(self):
        run = self.run_hosts('for i in {1..500}; do echo "$RANK $i abcdefghijklmnopqrstuvwxyz"; done; '
                             'printf "no newline"; printf "a\\0b" >&2', kind='pumped')
        expected = []
        for rank, host in ((0, 'localhost'), (1, 'far'), (2, 'far')):
            expected += [f'[{rank}@{host}] {rank} {i} abcdefghijklmnopqrstuvwxyz' for i in range(1, 501)]
            expected += [f'[{rank}@{host}] no newline']
        self.assertEqual(sorted(run.stdout.splitlines()), sorted(expected))
        self.assertIn('[2@far] a\0b\n', run.stderr)

    def test_name_a_far_rank_that_fails(self):
        run = self.run_hosts('if [ $RANK = 2 ]; then echo "the cause" >&2; kill -9 $$; fi; '
                             'trap "" TERM; while :; do sleep 0.1; done', '--grace', '0.2')
        self.assertEqual(run.returncode, 128 + 9)
        self.assertTrue(run.stderr.endswith('ringrun: rank 2 on far failed first: killed by signal 9 (Killed)\n'
                                            'ringrun:   the cause\n'), run.stderr)
        run = self.run_hosts('[ $RINGRAD_RESTART_COUNT = 1 ] || exit $((RANK + 3)); echo again', '--max-restarts', '1',
                             '--grace', '0.1')
        self.assertEqual(run.returncode, 0)
        self.assertEqual(run.stdout.count('again'), 3)

    def test_pass_signals_on(self):
        job = self.start('trap "echo told" USR1; trap "echo bye; exit 0" TERM; echo ready; '
                         'while :; do sleep 0.05; done')
        job.send_signal(signal.SIGUSR1)
        self.assertEqual(sorted(job.stdout.readline() for _ in range(3)),
                         ['[0@localhost] told\n', '[1@far] told\n', '[2@far] told\n'])
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(), 128 + signal.SIGTERM)
        self.assertEqual(job.stdout.read().count('bye'), 3)

    # Starts a child that has left the rank's process group and session.
    RANK = 'setsid bash -c "echo ready; while :; do sleep 0.1; done # WORD"; exit 0'

    def rank(self):
        return self.RANK.replace('WORD', self.word)

    def test_end_with_the_launcher(self):
        for kind in 'direct', 'pumped':
            job = self.start(self.rank(), kind=kind)
            job.kill()
            self.assert_nothing_left()

    def test_end_with_either_process_of_an_agent(self):
        for which, why in enumerate(('the first process of its agent was ended', 'its connection ended')):
            job = self.start(self.rank(), '--grace', '0.2')
            os.kill(self.agents_of(job)[which], signal.SIGKILL)
            self.assertEqual(job.wait(), 1)
            self.assertIn(f'ringrun: host far failed first: {why}', job.stderr.read())
            self.assert_nothing_left()

    def test_end_with_the_agent_of_this_host(self):
        job = self.start(self.rank(), '--grace', '0.2', hosts='localhost:2', ranks=2)
        children = Path(f'/proc/{job.pid}/task/{job.pid}/children').read_text().split()
        self.assertEqual(len(children), 1)
        os.kill(int(children[0]), signal.SIGKILL)
        self.assertEqual(job.wait(), 1)
        self.assertIn('host localhost failed first: its connection ended', job.stderr.read())
        self.assert_nothing_left()

    def test_are_lost_when_silent(self):
        job = self.start(self.rank(), '--grace', '0.2', '--host-timeout', '1.5', kind='pumped')
        pumps = processes_with(f'{self.word}_pump')
        self.assertEqual(len(pumps), 2)
        for pump in pumps:
            os.kill(int(pump), signal.SIGSTOP)
            self.addCleanup(subprocess.run, ['kill', '-9', pump], stderr=subprocess.DEVNULL)
        self.assertEqual(job.wait(), 1)
        self.assertIn('ringrun: host far failed first: silent for 1.5 s', job.stderr.read())
        # The agent no longer receives anything either: it has ended its ranks by itself.
        end = time.monotonic() + PATIENCE
        while set(processes_with(self.word)) - set(pumps) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(set(processes_with(self.word)) - set(pumps), set())

    def test_that_cannot_be_had_are_named(self):
        refused = ('host far failed first: its connection ended: exit code 255\n'
                   'ringrun:   no route to far\n')
        # A deaf shell reads nothing: the launcher's writes to it must not end the launcher.
        for kind, text in (('refuses', refused), ('deaf', refused),
                           ('chatty', 'host far failed first: launch: an agent and its launcher must speak in '
                            'messages; got "Welcome"')):
            run = self.run_hosts('sleep 100', '--grace', '0.2', kind=kind)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIn(text, run.stderr)
        run = self.run_hosts('true', '--remote-ringrun', '/no/ringrun')
        self.assertIn('host far failed first', run.stderr)
        run = ringrun(*self.arguments('localhost,far', 'direct'), '/no/such/program')
        self.assertEqual(run.returncode, 1)
        self.assertIn('the program must start; got "No such file or directory" from /no/such/program on', run.stderr)

    def test_that_are_no_agents_get_no_token_and_no_time(self):
        stolen = Path(f'{self.word}_pump.stolen')
        self.addCleanup(lambda: stolen.unlink(missing_ok=True))
        for kind, text in (('endless', 'must speak in messages; got "???'),
                           ('dripping', 'host far failed first: its ringrun must be "ringrad agent'),
                           ('steals', 'host far failed first: its ringrun must be "ringrad agent')):
            run = self.run_hosts('sleep 100', '--grace', '0.2', '--host-timeout', '2', kind=kind)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIn(text, run.stderr)
        self.assertNotIn('RINGRAD_TOKEN', stolen.read_text() if stolen.exists() else '')

    def test_that_are_lost_are_all_left_out_of_the_next_run(self):
        # Both far agents end at once, as when a switch fails.
        script = ('echo $RANK of $WORLD_SIZE; [ $RINGRAD_RESTART_COUNT = 1 ] && exit; echo ready; '
                  'while :; do sleep 0.1; done')
        job = self.start(script, '--grace', '0.2', '--max-restarts', '1', '--min-ranks', '1', ranks=0,
                         hosts='localhost:1,far:2,farther:1')
        lines = [job.stdout.readline() for _ in range(8)]
        self.assertEqual(sum('ready' in line for line in lines), 4, lines)
        agents = [p for p in processes_with('--agent') if parent_of(p) == job.pid]
        self.assertEqual(len(agents), 2)
        for agent in agents:
            os.kill(int(agent), signal.SIGKILL)
        self.assertEqual(job.wait(), 0)
        self.assertEqual(job.stdout.read(), '[0] 0 of 1\n')
        self.assertIn('ringrun: restart 1 of 1 on 1 ranks\n', job.stderr.read())
        self.assert_nothing_left()

    def test_that_are_lost_while_the_job_ends_are_left_out_of_the_next_run(self):
        # Rank 0 notices the far ranks' failure before the launcher notices that their host is gone.
        job = self.start('echo $RANK of $WORLD_SIZE; [ $RINGRAD_RESTART_COUNT = 1 ] && exit; echo ready; '
                         '[ $RANK != 0 ] || { while [ ! -e FLAG ]; do sleep 0.05; done; exit 3; }; sleep 100'
                         .replace('FLAG', f'{self.folder.name}/flag'), '--grace', '0.2', '--max-restarts', '1',
                         '--min-ranks', '1', ranks=0, hosts='localhost:2,far:1,farther:1', kind='pumped')
        lines = [job.stdout.readline() for _ in range(8)]
        self.assertEqual(sum('ready' in line for line in lines), 4, lines)
        pumps = processes_with(f'{self.word}_pump')
        for pump in pumps:
            os.kill(int(pump), signal.SIGSTOP)
            self.addCleanup(subprocess.run, ['kill', '-9', pump], stderr=subprocess.DEVNULL)
        Path(self.folder.name, 'flag').touch()
        self.assertEqual(job.wait(), 0)
        self.assertEqual(job.stdout.read(), '[0] 0 of 1\n')
        self.assertIn('ringrun: restart 1 of 1 on 1 ranks\n', job.stderr.read())

    def test_whose_shells_end_late_are_not_lost(self):
        script = 'echo $RANK of $WORLD_SIZE; [ $RINGRAD_RESTART_COUNT = 1 ] || exit $((3 - RANK * 3))'
        run = self.run_hosts(script, '--grace', '0.2', '--max-restarts', '1', '--min-ranks', '1',
                             hosts='localhost:1,far:1', kind='lingers')
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn('[0@far] 0 of 1\n', run.stdout)

    def test_that_have_the_blamed_rank_lose_it(self):
        # The ranks on healthy hosts notice that rank 2 does not answer, and end first.
        script = ('echo $RANK of $WORLD_SIZE; [ $RINGRAD_RESTART_COUNT = 1 ] && exit; [ $RANK = 2 ] && kill -STOP $$; '
                  'echo 2 >&198; exit 3')
        run = self.run_hosts(script, '--grace', '0.2', '--max-restarts', '1', '--min-ranks', '1',
                             hosts='localhost:1,ha:1,hb:1')
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn('[0@localhost] 0 of 2\n', run.stdout)
        self.assertIn('[1@ha] 1 of 2\n', run.stdout)

    def test_that_make_no_sense_are_refused(self):
        for arguments, code, text in (
                (['--hosts', 'a:0'], 2, 'a host must have ranks in [1, 4096]; got "a:0"'),
                (['--hosts', 'a:1,a:2'], 2, 'each host must be named once; got a again'),
                (['--hosts', '-oProxy:1'], 2, 'a host must be NAME[:RANKS]'),
                (['--hosts', 'a', '-n', '2'], 2, 'ranks'),
                (['--hosts', 'no.such.host.invalid'], 1, 'master_addr must say how other hosts reach this one'),
                (['--hosts', 'a', '--master-addr', '127.0.0.1', '--remote-ringrun', 'a b'], 2, 'got "a b"'),
                (['--hosts', 'a', '--master-addr', '192.0.2.1'], 1, 'store: the server must be able to listen')):
            run = ringrun(*arguments, '--rsh', self.shell('direct'), 'true')
            self.assertEqual(run.returncode, code, (arguments, run.stderr))
            self.assertIn(text, run.stderr)


def parent_of(process):
    for line in Path(f'/proc/{process}/status').read_text().splitlines():
        if line.startswith('PPid:'):
            return int(line.split()[1])
    return 0


if __name__ == '__main__':
    unittest.main()
