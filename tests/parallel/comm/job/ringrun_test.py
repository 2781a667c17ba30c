#!/usr/bin/env python3
"""ringrun as its users see it: the variables that ranks get, the output, and that no process stays behind."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from launched import PATIENCE, RINGRUN, Unique, ringrun

# Clients of the store that all begin to connect before any of them ends.
REQUESTS = f"""
import os, sys
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
from store_client import StoreClient
address = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])
clients = [StoreClient(address, os.environ['RINGRAD_TOKEN'], enter=False) for _ in range(16)]
for client in clients:
    client.say_hello()
for client in reversed(clients):
    client.prove()
    print(client.add('sum', 1))
"""


class RunsTest(Unique):
    def test_tells_ranks_their_place(self):
        run = ringrun('-n', '3', script='echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR '
                                        '${MASTER_PORT:+port} ${RINGRAD_TOKEN:+token} $RINGRAD_RESTART_COUNT')
        self.assertEqual(run.returncode, 0)
        self.assertEqual(sorted(run.stdout.splitlines()),
                         [f'[{r}] {r} {r} 3 3 127.0.0.1 port token 0' for r in range(3)])
        self.assertEqual(run.stderr, '')

    def test_ranks_have_no_terminal_to_ask_at(self):
        # In the background of a terminal, a rank that reads from it would be stopped for ever.
        def has_terminal():
            os.setsid()
            os.close(os.open(os.ttyname(0), os.O_RDWR))  # becomes the terminal that controls this session
        _, terminal, _, other = ends = os.openpty() + os.openpty()
        for end in ends:
            self.addCleanup(os.close, end)
        run = ringrun('-n', '1', script=f': <>{os.ttyname(other)}; read line </dev/tty; echo $?', stdin=terminal,
                      preexec_fn=has_terminal, timeout=PATIENCE)
        self.assertEqual(run.stdout, '[0] 1\n')
        self.assertIn('/dev/tty: No such device or address', run.stderr)

    def test_ranks_may_move_to_other_process_groups_and_be_stopped(self):
        run = ringrun('-n', '1', sys.executable, '-c', 'import os; os.setpgrp(); print("moved")')
        self.assertEqual((run.stdout, run.stderr), ('[0] moved\n', ''))
        # A stop from the keyboard does not stop the processes of an orphaned group.
        run = ringrun('-n', '1', script='{ until grep -q ") T" /proc/$$/stat; do sleep 0.05; done; echo stopped; '
                                        'kill -CONT $$; } & kill -TSTP $$; kill $!; echo end', timeout=PATIENCE)
        self.assertEqual(run.stdout, '[0] stopped\n[0] end\n')

    def test_keeps_lines_whole(self):
        run = ringrun('-n', '8', script='for i in {1..200}; do echo "$RANK $i abcdefghijklmnopqrstuvwxyz"; '
                                        'done; printf "no newline"')
        expected = [f'[{r}] {r} {i} abcdefghijklmnopqrstuvwxyz' for r in range(8) for i in range(1, 201)]
        expected += [f'[{r}] no newline' for r in range(8)]
        self.assertEqual(sorted(run.stdout.splitlines()), sorted(expected))

    def test_passes_arguments_and_streams_on(self):
        run = ringrun('-n', '1', '--', 'printf', '%s|', '-n', 'a b', '--help')
        self.assertEqual(run.stdout, '[0] -n|a b|--help|\n')
        run = ringrun('-n', '1', script='echo out; echo err >&2')
        self.assertEqual((run.stdout, run.stderr), ('[0] out\n', '[0] err\n'))

    def test_leaves_the_children_of_its_shell_alone(self):
        with tempfile.NamedTemporaryFile('r') as log:
            subprocess.run(['bash', '-c', 'exec > >(sleep 1; cat > $1); shift; exec "$@"', 'bash', log.name, RINGRUN,
                            '-n', '1', 'echo', 'hello'], check=True, timeout=60)
            end = time.monotonic() + 30
            while not (text := log.read()) and time.monotonic() < end:
                time.sleep(0.01)
        self.assertEqual(text, '[0] hello\n')

    def test_gives_ranks_an_ordinary_world(self):
        run = ringrun('-n', '2', script='while :; do echo y; done | head -1; cat; echo end', stdin=subprocess.PIPE)
        self.assertEqual(sorted(run.stdout.splitlines()), ['[0] end', '[0] y', '[1] end', '[1] y'])

    def test_shares_the_processors(self):
        environment = {k: v for k, v in os.environ.items() if k != 'OMP_NUM_THREADS'}
        run = ringrun('-n', '64', script='echo $OMP_NUM_THREADS', env=environment)
        self.assertEqual(set(line.split()[1] for line in run.stdout.splitlines()),
                         {str(max(1, os.cpu_count() // 64))})
        run = ringrun('-n', '2', script='echo $OMP_NUM_THREADS', env={**environment, 'OMP_NUM_THREADS': '5'})
        self.assertEqual(sorted(run.stdout.splitlines()), ['[0] 5', '[1] 5'])

    def test_pins_ranks_to_shares_of_the_processors(self):
        allowed = sorted(os.sched_getaffinity(0))
        say = 'import os; print(*sorted(os.sched_getaffinity(0)))'
        for ranks, options, may_use in ((1, ['--pin'], allowed), (2, ['--pin'], allowed), (2, ['--pin'], allowed[:1]),
                                        (len(allowed[:4]), ['--pin'], allowed[:4]), (2, [], allowed)):
            run = ringrun('-n', str(ranks), *options, sys.executable, '-c', say,
                          preexec_fn=lambda cpus=may_use: os.sched_setaffinity(0, cpus))
            self.assertEqual(run.returncode, 0, run.stderr)
            share = len(may_use) // ranks if options else 0
            expected = [may_use[rank * share:(rank + 1) * share] or may_use for rank in range(ranks)]
            self.assertEqual(sorted(run.stdout.splitlines()),
                             sorted(f'[{rank}] {" ".join(map(str, cpus))}' for rank, cpus in enumerate(expected)))

    def test_serves_ranks_that_come_at_the_same_time(self):
        run = ringrun('-n', '1', sys.executable, '-B', '-c', REQUESTS)
        self.assertEqual((run.returncode, run.stdout, run.stderr),
                         (0, ''.join(f'[0] {i}\n' for i in range(1, 17)), ''))


class FailsTest(Unique):
    def test_names_the_first_rank_that_failed_last_and_once(self):
        run = ringrun('-n', '3', '--grace', '5',
                      script='trap "echo consequence >&2; exit 4" TERM; '
                             'if [ $RANK = 1 ]; then echo "the cause" >&2; exit 7; fi; sleep 0.5; '
                             'echo "[$RANK] lost rank 1" >&2; exit 5')
        self.assertEqual(run.returncode, 7)
        self.assertTrue(run.stderr.endswith(
            'ringrun: rank 1 failed first: exit code 7\nringrun:   the cause\n'), run.stderr)
        self.assertEqual(run.stderr.count('failed first'), 1)

    def test_names_the_rank_that_others_blame(self):
        # Rank 2 never ends. Rank 0 blames rank 1, which blames rank 2. Descriptor 198 is the ranks'
        # pipe to the launcher.
        blame = f'echo $BASHPID waits >&2; if [ $RANK = 2 ]; then while :; do sleep 0.1; done; fi # {self.word}\n'
        blame += 'echo $((RANK + 1)) >&198; [ $RANK = 1 ] && sleep 0.2; echo "no call from $((RANK + 1))" >&2; exit 3'
        run = ringrun('-n', '3', '--grace', '0.5', script=blame)
        self.assertEqual(run.returncode, 3)
        self.assertRegex(run.stderr, r'ringrun: rank 2 failed first: still running, blamed by rank 0 \(exit code 3\)\n'
                                     r'ringrun:   \d+ waits\nringrun:   \[0\] \d+ waits\n'
                                     r'ringrun:   \[0\] no call from 1\n$')
        self.assert_nothing_left()
        # The next run leaves out the culprit, not the rank that noticed the failure.
        script = ('echo $RANK of $WORLD_SIZE; [ $RINGRAD_RESTART_COUNT = 1 ] && exit; '
                  'if [ $RANK = 1 ]; then sleep 100; fi; echo 1 >&198; exit 3')
        run = ringrun('-n', '2', '--grace', '0.1', '--max-restarts', '1', '--min-ranks', '1', script=script)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout.count('0 of 1'), 1)
        # If a rank starts a launcher, that launcher has pipes of its own.
        run = ringrun('-n', '2', '--grace', '5', script=f'if [ $RANK = 1 ]; then {RINGRUN} -n 1 bash -c "echo 0 >&198"; '
                                                        'exit 7; fi; sleep 0.5')
        self.assertIn('ringrun: rank 1 failed first: exit code 7\n', run.stderr)

    def test_ends_when_its_agent_is_stopped(self):
        run = ringrun('-n', '2', '--host-timeout', '1', '--grace', '0.2',
                      script=f'[ $RANK = 0 ] && kill -STOP $PPID; sleep 1000 # {self.word}')
        self.assertEqual(run.returncode, 1)
        self.assertIn('ringrun: host localhost failed first: silent for 1 s\n', run.stderr)
        self.assert_nothing_left()

    def test_goes_on_when_its_agent_was_stopped_for_a_while(self):
        # So does an agent that waits for a processor for that long. Its ranks run meanwhile.
        job = subprocess.Popen([RINGRUN, '-n', '2', 'bash', '-c', 'sleep 13; echo end'], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        children = Path(f'/proc/{job.pid}/task/{job.pid}/children')
        end = time.monotonic() + PATIENCE
        while not children.read_text() and time.monotonic() < end:
            time.sleep(0.01)
        agent = int(children.read_text())
        os.kill(agent, signal.SIGSTOP)
        time.sleep(11.5)
        self.assertIsNone(job.poll())
        os.kill(agent, signal.SIGCONT)
        out, err = job.communicate()
        self.assertEqual((job.returncode, sorted(out.splitlines()), err), (0, ['[0] end', '[1] end'], ''))

    def test_ends_ranks_that_do_not_end(self):
        run = ringrun('-n', '3', '--grace', '0.3',
                      script=f'if [ $RANK = 0 ]; then kill -9 $$; fi; trap "" TERM; while :; do sleep 1; done '
                             f'# {self.word}')
        self.assertEqual(run.returncode, 128 + 9)
        self.assertIn('rank 0 failed first: killed by signal 9 (Killed)', run.stderr)
        self.assert_nothing_left()

    def test_leaves_no_descendants(self):
        # One child stays in the rank's process group; the other has left the group and the session.
        # No rank ends before both ranks have seen all four children.
        with tempfile.NamedTemporaryFile() as seen:
            sleep = f'exec -a {self.word} sleep 1000'
            run = ringrun('-n', '2', script=f'({sleep}) & setsid bash -c "{sleep}" & '
                                            f'until [ $(pgrep -fc "^{self.word}") = 4 ]; do sleep 0.01; done; '
                                            f'echo >> {seen.name}; '
                                            f'until [ $(wc -l < {seen.name}) = 2 ]; do sleep 0.01; done')
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assert_nothing_left()

    def test_starts_anew_as_often_as_told(self):
        script = 'echo run $RINGRAD_RESTART_COUNT; [ $RINGRAD_RESTART_COUNT = 2 ] || exit 3'
        run = ringrun('-n', '2', '--max-restarts', '2', '--grace', '0.1', script=script)
        self.assertEqual(run.returncode, 0)
        self.assertIn('ringrun: restart 2 of 2', run.stderr)
        self.assertEqual(run.stdout.count('run 2'), 2)
        run = ringrun('-n', '2', '--max-restarts', '1', '--grace', '0.1', script=script)
        self.assertEqual(run.returncode, 3)
        self.assertNotIn('run 2', run.stdout)

    def test_starts_anew_on_the_ranks_that_are_left(self):
        # The other ranks end as a consequence, with an error of their own, and are not lost.
        script = ('echo $RANK of $WORLD_SIZE in $RINGRAD_RESTART_COUNT; '
                  '[ $RINGRAD_RESTART_COUNT = 2 ] && exit; [ $RANK = 1 ] && %s; trap "exit 3" TERM; sleep 30 & wait')
        options = ('-n', '4', '--max-restarts', '2', '--grace', '0.1')
        for how in ('kill -9 $$', 'exit 5'):
            run = ringrun(*options, '--min-ranks', '2', script=script % how)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(sorted(run.stdout.splitlines()),
                             sorted(f'[{r}] {r} of {n} in {k}' for k, n in enumerate((4, 3, 2)) for r in range(n)))
            self.assertIn('ringrun: restart 1 of 2 on 3 ranks\n', run.stderr)
        run = ringrun(*options, '--min-ranks', '3', script=script % 'exit 5')
        self.assertEqual(run.returncode, 5)
        self.assertTrue(run.stderr.endswith('ringrun: no restart: at least 3 ranks must be left; got 2\n'), run.stderr)
        self.assertEqual(run.stdout.count(' in 1'), 3)
        # Two ranks that an outsider kills are both lost.
        both = script.replace('= 1 ]', '-ge 2 ]').replace('COUNT = 2', 'COUNT = 1')
        run = ringrun(*options, '--min-ranks', '1', script=both % 'kill -9 $$')
        self.assertIn('ringrun: restart 1 of 2 on 2 ranks\n', run.stderr)
        self.assertEqual(run.returncode, 0, run.stderr)
        run = ringrun('-n', '2', '--min-ranks', '3', script='echo started')
        self.assertEqual((run.returncode, run.stdout), (2, ''))
        self.assertIn('min_ranks must be in [0, 2], the ranks there are; got 3', run.stderr)

    def test_refuses_what_makes_no_sense(self):
        for arguments, text in [(['-n', '0', 'ls'], '-'), (['-n', '2'], 'a program must follow'),
                                (['ls'], 'required'), (['-n', 'two', 'ls'], 'two'),
                                (['-n', '1', '--grace', '-1', 'ls'], 'grace'),
                                (['-n', '1', '--grace', 'nan', 'ls'], 'must be in [0, 3600] seconds; got "nan"'),
                                (['-n', '1', '--grace', 'inf', 'ls'], 'got "inf"'), (['-n', '1', '--grace', '', 'ls'], 'grace'),
                                (['-n', '1', '--host-timeout', 'nan', 'ls'], 'must be in [1, 3600] seconds; got "nan"'),
                                (['-n', '1', '--host-timeout', '0', 'ls'], 'got "0"'),
                                (['-n', '1', '--port', '65536', 'ls'], '65536'), (['-n', '1', '--port', '-1', 'ls'], '-1'),
                                (['-n', '1', '--max-restarts', '-1', 'ls'], '-1'), (['-n', '300', 'ls'], '256'),
                                (['-n', '99999999999999999999', 'ls'], 'ranks'), (['-n', '', 'ls'], 'ranks'),
                                (['-n', '1', '-n', '2', 'ls'], 'ranks'), (['-n', '1', '--min-ranks', '0', 'ls'], 'min-ranks'),
                                (['--hosts', '', 'ls'], 'hosts must be listed as h1:2,h2:2; got ""'),
                                (['--hosts', 'a\n:1', 'ls'], 'a host must be NAME[:RANKS]'),
                                (['--hosts', 'localhost:200,b:57', 'ls'], 'at most 256 ranks; got 257'),
                                (['-n', '1', '--inject', 'kill:0@step=1\n', 'ls'], 'a step or call'),
                                (['--no-such-option', 'ls'], 'unknown option --no-such-option (see ringrun --help)'),
                                (['-n', '2', '--max-restart', '3', 'ls'],
                                 'unknown option --max-restart, nearest is --max-restarts (see ringrun --help)'),
                                (['--rank', '2', 'ls'], 'unknown option --rank, nearest is --ranks'),
                                (['-n', '1', '--inejct=kill:0', 'ls'], 'unknown option --inejct, nearest is --inject')]:
            run = ringrun(*arguments)
            self.assertEqual(run.returncode, 2, arguments)
            self.assertIn(text, run.stderr)
            self.assertEqual((run.stderr.count('\n'), run.stdout), (1, ''), run.stderr)
            self.assertTrue(run.stderr.startswith('ringrun: '), run.stderr)
        run = ringrun('-n', '2', '/no/such/program')
        self.assertEqual(run.returncode, 1)
        self.assertIn('the program must start; got "No such file or directory" from /no/such/program',
                      run.stderr)

    def test_says_that_the_port_is_taken(self):
        with subprocess.Popen(['python3', '-c', 'import socket; s = socket.create_server(("127.0.0.1", 0)); '
                               'print(s.getsockname()[1], flush=True); input()'], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            run = ringrun('-n', '1', '--port', other.stdout.readline().strip(), 'ls')
            other.stdin.close()
        self.assertEqual(run.returncode, 1)
        self.assertIn('store: the server must be able to listen', run.stderr)


class SignalsTest(Unique):
    def start(self, script, *options, before=''):
        """ringrun, once both ranks have printed that they are ready."""
        job = subprocess.Popen(['bash', '-c', f'{before} exec "$@"', 'bash', RINGRUN, '-n', '2', *options, 'bash',
                                '-c', script], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        for _ in range(2):
            self.assertIn('ready', job.stdout.readline())
        return job

    def test_are_passed_on(self):
        job = self.start('trap "echo told" USR1; trap "echo bye; exit 0" TERM; echo ready; '
                         'while :; do sleep 0.05; done')
        job.send_signal(signal.SIGUSR1)
        self.assertEqual(sorted(job.stdout.readline() for _ in range(2)), ['[0] told\n', '[1] told\n'])
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(), 128 + signal.SIGTERM)
        self.assertEqual(sorted(job.stdout.read().splitlines()), ['[0] bye', '[1] bye'])

    def test_end_ranks_that_ignore_them(self):
        job = self.start(f'trap "" INT TERM; echo ready; while :; do sleep 0.05; done # {self.word}',
                         '--grace', '0.2')
        job.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(), 130)
        self.assert_nothing_left()

    def test_that_are_ignored_are_left_alone(self):
        job = self.start('echo ready; sleep 0.5; echo done', before='trap "" HUP CHLD;')
        job.send_signal(signal.SIGHUP)
        self.assertEqual(job.wait(), 0)
        self.assertEqual(sorted(job.stdout.read().splitlines()), ['[0] done', '[1] done'])

    def test_a_launcher_that_is_killed_takes_its_ranks_along(self):
        job = self.start(f'echo ready; while :; do sleep 0.05; done # {self.word}')
        job.kill()
        self.assert_nothing_left()


if __name__ == '__main__':
    unittest.main()
