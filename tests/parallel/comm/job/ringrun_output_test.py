#!/usr/bin/env python3
"""The output of ringrun's ranks: that nobody has to read it, that it is seen at once and whole, and the file per rank."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from launched import PATIENCE, RINGRUN, Unique, ringrun


def has_terminals():
    try:
        for end in os.openpty():
            os.close(end)
        return True
    except OSError:
        return False


class OutputTest(Unique):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, script, *options, **more):
        """ringrun on two ranks, whose output nobody reads yet."""
        job = subprocess.Popen([RINGRUN, '-n', '2', *options, 'bash', '-c', script], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, **{'text': True, **more})
        self.addCleanup(lambda: job.stdout and job.communicate())
        self.addCleanup(job.kill)
        return job

    def wait_for(self, *files):
        end = time.monotonic() + PATIENCE
        while not all((self.folder / name).exists() for name in files):
            self.assertLess(time.monotonic(), end, files)
            time.sleep(0.01)

    # More than the pipes and terminals on the way hold.
    CHATTER = 'for i in {1..40}; do printf "%s $i %0999d\n" $RANK 0; done; '

    def test_may_stay_unread_for_as_long_as_it_likes(self):
        chatter = f'for i in {{1..20}}; do {self.CHATTER} done; '
        job = self.start(f'{chatter} touch {self.folder}/printed$RANK; until [ -e {self.folder}/go ]; do sleep 0.05; '
                         'done; echo $RANK end', '--host-timeout', '1')
        self.wait_for('printed0', 'printed1')
        time.sleep(3)  # a host that were silent for that long would be lost
        self.assertIsNone(job.poll())
        (self.folder / 'go').touch()
        out, err = job.communicate()
        self.assertEqual((job.returncode, err), (0, ''))
        for rank in 0, 1:
            lines = [line for line in out.splitlines() if line.startswith(f'[{rank}] ')]
            one = [f'[{rank}] {rank} {i} {0:0999d}' for i in range(1, 41)]
            self.assertEqual(lines, one * 20 + [f'[{rank}] {rank} end'])

    def test_that_nobody_reads_is_bounded(self):
        # The file has its name once it is whole.
        job = self.start(f'cd {self.folder}; echo $BASHPID > new$RANK; mv new$RANK rank$RANK; exec yes {"y" * 1000}')
        self.wait_for('rank0', 'rank1')
        ranks = [int((self.folder / f'rank{rank}').read_text()) for rank in (0, 1)]
        end, before = time.monotonic() + PATIENCE, None
        while True:  # until both ranks wait, which then write nothing more
            written = [Path(f'/proc/{rank}/io').read_text() for rank in ranks]
            if written == before or time.monotonic() > end:
                break
            before = written
            time.sleep(2)
        self.assertEqual(written, before)
        resident = next(line for line in Path(f'/proc/{job.pid}/status').read_text().splitlines() if 'VmRSS' in line)
        self.assertLess(int(resident.split()[1]), 1 << 20)  # KiB: sanitizers need a multiple
        self.assertIsNone(job.poll())
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(), 128 + signal.SIGTERM)

    def test_that_nobody_reads_delays_no_signal_and_no_failure(self):
        chatter = f'for i in {{1..20}}; do {self.CHATTER} done; touch {self.folder}/printed$RANK; '
        job = self.start(f'{chatter} while :; do sleep 0.05; done # {self.word}')
        self.wait_for('printed0', 'printed1')
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(), 128 + signal.SIGTERM)
        self.assert_nothing_left()
        for name in 'printed0', 'printed1':
            (self.folder / name).unlink()
        job = self.start(f'{chatter} [ $RANK = 1 ] || sleep 1000; [ $RINGRAD_RESTART_COUNT = 1 ] && touch '
                         f'{self.folder}/again; exit 3 # {self.word}', '--max-restarts', '1', '--grace', '0.1')
        self.wait_for('again')  # the job has been started anew
        out, err = job.communicate()
        self.assertEqual(job.returncode, 3)
        self.assertEqual(err.count('ringrun: rank 1 failed first: exit code 3\n'), 2)
        self.assertEqual(sum(line.startswith('[1] ') for line in out.splitlines()), 2 * 800)

    def test_errors_do_not_wait_for_a_reader_of_stdout(self):
        job = self.start(f'for i in {{1..20}}; do {self.CHATTER} done; echo "the cause" >&2; exit 3', '--grace', '0.1')
        self.assertIn('the cause', job.stderr.readline())
        job.communicate()
        self.assertEqual(job.returncode, 3)

    @unittest.skipUnless(has_terminals(), 'the system has no terminals to give')
    def test_of_a_rank_that_is_killed_is_seen(self):
        run = ringrun('-n', '2', sys.executable, '-c', 'import os; print("seen"); os.kill(os.getpid(), 9)')
        self.assertEqual(run.returncode, 128 + 9)
        self.assertIn(' seen\n', run.stdout)

    def test_shows_progress_when_it_is_made(self):
        for stream in '', '>&2':
            with self.subTest(stream=stream):
                job = self.start(f'[ $RANK = 0 ] || exit 0; for i in 10 20; do printf "\\r$i %%" {stream}; '
                                 f'until [ -e {self.folder}/$i ]; do sleep 0.05; done; rm {self.folder}/$i; done; '
                                 f'printf "\\rdone\\n" {stream}', text=False, bufsize=0)
                out = job.stderr if stream else job.stdout
                for part in '10', '20':
                    expected = f'[0] {part} %\r'.encode()
                    self.assertEqual(b''.join(out.read(1) for _ in expected), expected)
                    (self.folder / part).touch()
                self.assertEqual(b''.join(job.communicate()), b'[0] done\n')

    def test_keeps_long_lines_whole(self):
        job = self.start(f'{sys.executable} -c "print(\'$RANK\' * 3_000_000)"')
        out, _ = job.communicate()
        self.assertEqual(sorted(out.splitlines()), [f'[{r}] ' + str(r) * 3_000_000 for r in (0, 1)])

    @unittest.skipUnless(has_terminals(), 'the system has no terminals to give')
    def test_comes_from_terminals_that_change_nothing(self):
        run = subprocess.run([RINGRUN, '-n', '1', 'bash', '-c', '[ -t 1 ] && echo $TERM; printf "a\\r\\n\\tb\\x03\\x04c\\n"'],
                             capture_output=True, check=True)
        self.assertEqual(run.stdout, b'[0] dumb\n[0] a\r\n[0] \tb\x03\x04c\n')

    def test_goes_to_a_file_per_rank(self):
        logs = self.folder / 'new' / 'logs'
        script = 'echo out $RANK; sleep 0.2; echo err >&2; [ $RINGRAD_RESTART_COUNT = 1 ] || exit $RANK'
        run = ringrun('-n', '2', '--log-dir', str(logs), '--max-restarts', '1', '--grace', '5', script=script)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(sorted(run.stdout.splitlines()), ['[0] out 0'] * 2 + ['[1] out 1'] * 2)
        self.assertEqual({path.name: path.read_text() for path in logs.iterdir()},
                         {f'rank_{rank}{restart}.log': f'out {rank}\nerr\n'
                          for rank in (0, 1) for restart in ('', '.restart_1')})
        run = ringrun('-n', '1', '--log-dir', str(logs / 'rank_0.log'), 'true')
        self.assertEqual(run.returncode, 1)
        self.assertIn('the folder of --log-dir must be there; got ', run.stderr)

    def test_leaves_no_files_of_a_larger_job(self):
        for name in 'rank_0.log', 'rank_2.log', 'rank_11.log', 'rank_0.restart_1.log', 'rank_x.log', 'notes':
            (self.folder / name).write_text('old')
        run = ringrun('-n', '2', '--log-dir', str(self.folder), script='echo $RANK')
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual({path.name: path.read_text() for path in self.folder.iterdir()},
                         {'rank_0.log': '0\n', 'rank_1.log': '1\n', 'rank_x.log': 'old', 'notes': 'old'})

    def test_may_be_closed(self):
        for closed in '0<&-', '1>&-', '2>&-', '0<&- 1>&- 2>&-':
            with self.subTest(closed=closed):
                mark = self.folder / 'mark'
                run = subprocess.run(['bash', '-c', f'exec {closed}; exec "$@"', '', RINGRUN, '-n', '1', 'bash', '-c',
                                      f'echo out; echo err >&2; touch {mark}'], capture_output=True, text=True)
                self.assertEqual((run.returncode, run.stdout, run.stderr),
                                 (0, '' if '1' in closed else '[0] out\n', '' if '2' in closed else '[0] err\n'))
                mark.unlink()

    @unittest.skipUnless(has_terminals(), 'the system has no terminals to give')
    def test_may_lose_its_terminal(self):
        master, terminal = os.openpty()
        self.addCleanup(os.close, terminal)
        os.close(master)
        run = subprocess.run([RINGRUN, '-n', '1', 'bash', '-c', 'echo out; echo err >&2'], stdout=terminal,
                             stderr=terminal, check=False)
        self.assertEqual(run.returncode, 0)

    def test_goes_on_when_a_file_is_full(self):
        (self.folder / 'rank_1.log').symlink_to('/dev/full')
        run = ringrun('-n', '2', '--log-dir', str(self.folder), script='echo $RANK; echo end')
        self.assertEqual((run.returncode, sorted(run.stdout.splitlines())), (1, ['[0] 0', '[0] end', '[1] 1', '[1] end']))
        self.assertEqual((self.folder / 'rank_0.log').read_text(), '0\nend\n')
        self.assertEqual(run.stderr, f'ringrun: output must be writable; got {self.folder}/rank_1.log: '
                                     'No space left on device\n')
        with open('/dev/full', 'wb') as full:
            run = subprocess.run([RINGRUN, '-n', '2', 'bash', '-c', 'echo $RANK; echo $RANK >&2'], stdout=full,
                                 stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertEqual(sorted(run.stderr.splitlines()), [
            '[0] 0', '[1] 1', 'ringrun: output must be writable; got stdout: No space left on device'])


if __name__ == '__main__':
    unittest.main()
