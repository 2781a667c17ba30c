"""Ranks in Python: threads that run at the same time, processes under ringrun, and what a failing rank does."""
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import ringrad as rr
from ringrad import nn

RINGRUN = Path(sys.executable).with_name('ringrun')

TRAIN = '''
import ringrad as rr
from ringrad import nn
comm = rr.join_process_group(deadline=10)
rr.manual_seed(comm.rank)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
model = rr.DistributedDataParallel(net, comm)
optimizer = nn.SGD(net.parameters(), learning_rate=0.05, momentum=0.9)
for _ in range(20):
    x = rr.randn([16, 4])
    optimizer.zero_grad()
    rr.mse_loss(model(x), x[:, :1]).backward()
    optimizer.step()
assert rr.replicas_identical(net, comm)
total = rr.ones([1])
comm.all_reduce(total)
print(f'rank {comm.rank} of {comm.world_size}: {total.item():g}')
'''


def ringrun(ranks, text):
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, 'train.py')
        program.write_text(text)
        return subprocess.run([RINGRUN, '-n', str(ranks), sys.executable, program], capture_output=True, text=True,
                              timeout=60, env={**os.environ, 'OMP_NUM_THREADS': '1'})


class Threads(unittest.TestCase):
    def test_collectives_agree_with_sums(self):
        def body(comm):
            x = rr.full([5], float(comm.rank))
            comm.all_reduce(x)
            self.assertEqual(x.tolist(), [6] * 5)
            gathered = rr.zeros([8])
            comm.all_gather(gathered, rr.full([2], float(comm.rank)))
            self.assertEqual(gathered.tolist(), [0, 0, 1, 1, 2, 2, 3, 3])
            mine = rr.zeros([1])
            comm.reduce_scatter(mine, rr.arange(4).to(rr.float32), rr.ReduceOp.max)
            self.assertEqual(mine.item(), comm.rank)
            if comm.rank == 1:
                comm.send(rr.tensor([9.0]), 2)
            if comm.rank == 2:
                comm.recv(mine, 1)
                self.assertEqual(mine.item(), 9)
            half = comm.split(comm.rank % 2)
            self.assertEqual((half.rank, half.world_size), (comm.rank // 2, 2))
            self.assertIsNone(comm.split(-1))

        rr.run_ranks(4, body)

    def test_a_wait_leaves_the_interpreter_to_others(self):
        # Rank 0 can only come to the barrier if rank 1, which waits there, has let go of the lock.
        seen = []

        def body(comm):
            if comm.rank == 0:
                time.sleep(0.2)
                seen.append(threading.get_ident())
            comm.barrier()
            self.assertEqual(len(seen), 1)

        rr.run_ranks(2, body, deadline=20)

    def test_operators_leave_the_interpreter_to_others(self):
        x = rr.randn([1200, 1200])
        counted = []

        def count():
            while not ended.is_set():
                counted.append(time.perf_counter())

        ended = threading.Event()
        thread = threading.Thread(target=count)
        thread.start()
        while not counted:
            pass
        begin = time.perf_counter()
        y = x @ x
        end = time.perf_counter()
        ended.set()
        thread.join()
        self.assertEqual(y.shape, (1200, 1200))
        # With the lock held, the other thread would stand still but for the ends.
        gaps = [b - a for a, b in zip(counted, counted[1:]) if begin < b and a < end]
        self.assertTrue(gaps)
        self.assertLess(max(gaps), end - begin)

    def test_what_a_rank_raises_is_raised(self):
        class Mine(Exception):
            pass

        def body(comm):
            if comm.rank == 2:
                raise Mine('of rank 2')
            comm.barrier()

        with self.assertRaisesRegex(Mine, '^of rank 2$'):
            rr.run_ranks(3, body)

    def test_what_ranks_return_is_returned_in_their_order(self):
        def body(comm):
            x = rr.tensor([comm.rank + 1.0])
            comm.all_reduce(x)
            return comm.rank, x.item()

        self.assertEqual(rr.run_ranks(3, body), [(0, 6.0), (1, 6.0), (2, 6.0)])
        self.assertEqual(rr.run_ranks(2, lambda comm: None), [None, None])

    def test_a_rank_that_is_late_is_named(self):
        def body(comm):
            if comm.rank != 1:
                comm.barrier()
            else:
                time.sleep(1)

        with self.assertRaisesRegex(rr.CollectiveError, 'rank 1'):
            rr.run_ranks(3, body, deadline=0.3)

    def test_what_stands_for_a_rank_ends_with_it(self):
        kept = []

        def train(comm):
            half = comm.split(0)
            model = rr.DistributedDataParallel(nn.Linear(2, 2), half)
            kept.extend([comm, half, model])
            model(rr.ones([1, 2])).sum().backward()

        rr.run_ranks(2, train)
        for thing in kept:
            with self.assertRaises(TypeError):
                thing.all_reduce(rr.ones([1])) if isinstance(thing, rr.Communicator) else thing(rr.ones([1, 2]))

    def test_a_communicator_that_was_kept_is_no_later_groups(self):
        kept = []

        def body(comm):
            for group in (comm, comm.split(0)):
                group.barrier()
                kept.append(group)

        for _ in range(20):
            rr.run_ranks(2, body)
        self.assertEqual(len(set(map(id, kept))), 20 * 2 * 2)

    def test_a_rank_that_fails_during_backward_ends_the_others_at_once(self):
        def fail(grad):
            raise KeyError('mine')

        def body(comm):
            net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
            model = rr.DistributedDataParallel(net, comm, bucket_bytes=1, overlap=rr.Overlap.always)
            if comm.rank == 0:
                net[0].weight.register_hook(fail)  # when the reduction of the last layer has begun
            y = model(rr.ones([1, 2])).sum()
            if comm.rank == 1:
                time.sleep(0.5)
            y.backward()

        begin = time.monotonic()
        with self.assertRaisesRegex(KeyError, 'mine'):
            rr.run_ranks(2, body, deadline=20)
        self.assertLess(time.monotonic() - begin, 10)

    def test_a_model_that_ends_after_an_error_leaves_the_interpreter_to_others(self):
        # Rank 0 waits for rank 1's part of the reduction that it has begun.
        def fail(grad):
            raise KeyError('mine')

        def body(comm):
            net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
            model = rr.DistributedDataParallel(net, comm, bucket_bytes=1, overlap=rr.Overlap.always)
            hook = net[0].weight.register_hook(fail)
            y = model(rr.ones([1, 2])).sum()
            if comm.rank == 1:
                time.sleep(0.5)
            try:
                y.backward()
            except KeyError:
                hook.remove()
            del model

        begin = time.monotonic()
        rr.run_ranks(2, body, deadline=20)
        self.assertLess(time.monotonic() - begin, 10)

    def test_a_failing_rank_ends_waits_in_groups_of_its_own(self):
        def body(comm):
            half = comm.split(0)
            if comm.rank == 0:
                raise KeyError('mine')
            half.barrier()

        begin = time.monotonic()
        with self.assertRaisesRegex(KeyError, 'mine'):
            rr.run_ranks(2, body, deadline=20)
        self.assertLess(time.monotonic() - begin, 10)

    def test_ctrl_c_ends_ranks_that_wait_and_ranks_that_compute(self):
        # A background job of a shell starts with SIGINT ignored, and Python leaves it so.
        program = ('import ringrad as rr, signal\n'
                   'signal.signal(signal.SIGINT, signal.default_int_handler)\n'
                   'def body(comm):\n'
                   '    half = comm.split(0)\n'
                   '    print("begun\\n", end="", flush=True)  # one write: ranks share the stream\n'
                   '    {}\n'
                   '    while True: pass\n'
                   'try: rr.run_ranks(2, body, deadline=500)\n'
                   'except KeyboardInterrupt: print("interrupted")\n')
        for work in ('if comm.rank == 0: comm.recv(rr.ones([1]), 1)', 'half.recv(rr.ones([1]), 1 - comm.rank)'):
            with self.subTest(work), subprocess.Popen([sys.executable, '-c', program.format(work)], text=True,
                                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
                try:
                    for _ in range(2):
                        self.assertEqual(run.stdout.readline(), 'begun\n')
                    run.send_signal(signal.SIGINT)
                    self.assertEqual(run.communicate(timeout=60)[0], 'interrupted\n')
                finally:
                    run.kill()

    def test_bad_arguments_are_errors(self):
        for deadline in (0, -1, float('nan'), 1e10):
            with self.assertRaisesRegex(ValueError, 'deadline'):
                rr.run_ranks(2, lambda comm: None, deadline=deadline)
        with self.assertRaises(ValueError):
            rr.run_ranks(0, lambda comm: None)
        alone = rr.join_process_group()
        self.assertEqual((alone.rank, alone.world_size), (0, 1))

    def test_replicas_are_those_of_one_rank_with_the_whole_batch(self):
        def steps(net, model, x, y):
            optimizer = nn.SGD(net.parameters(), learning_rate=0.1)
            for _ in range(5):
                optimizer.zero_grad()
                rr.mse_loss(model(x), y).backward()
                optimizer.step()
            return [value for p in net.parameters() for value in p.flatten().tolist()]

        rr.manual_seed(1)
        x, y = rr.randn([8, 3]), rr.randn([8, 1])
        start = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        state = {name: value.clone() for name, value in start.state_dict().items()}
        whole = steps(start, start, x, y)
        parts = {}

        def body(comm):
            net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
            net.load_state_dict(state)
            mine = slice(4 * comm.rank, 4 * comm.rank + 4)
            parts[comm.rank] = steps(net, rr.DistributedDataParallel(net, comm), x[mine], y[mine])
            self.assertTrue(rr.replicas_identical(net, comm))

        rr.run_ranks(2, body)
        self.assertEqual(parts[0], parts[1])
        for a, b in zip(parts[0], whole):
            self.assertAlmostEqual(a, b, places=5)


class Processes(unittest.TestCase):
    def test_processes_train_one_model(self):
        job = ringrun(2, TRAIN)
        self.assertEqual((job.returncode, job.stderr), (0, ''))
        self.assertEqual(sorted(job.stdout.splitlines()), ['[0] rank 0 of 2: 2', '[1] rank 1 of 2: 2'])

    def test_the_rank_that_raises_is_named_and_the_others_end(self):
        job = ringrun(3, TRAIN.replace('assert', 'if comm.rank == 1: raise KeyError("mine")\nassert'))
        self.assertEqual(job.returncode, 1)
        self.assertIn('ringrun: rank 1 failed first', job.stderr)
        self.assertIn("KeyError: 'mine'", job.stderr)


class Plans(unittest.TestCase):
    def test_plans_are_made_proved_timed_and_drawn(self):
        links = rr.plan.named_topology('nvlink8', 4).links
        for name in rr.plan.algorithm_names(rr.Collective.all_reduce):
            plan = rr.plan.make_plan(rr.Collective.all_reduce, name, 4)
            self.assertIsNone(rr.plan.plan_check(plan), name)
            self.assertGreater(rr.plan.predicted_seconds(plan, 1 << 20, links), 0)
            self.assertTrue(plan._repr_svg_().startswith('<svg'))
            self.assertEqual(rr.plan.collective_plan_from_json(rr.plan.to_json(plan)), plan)

    def test_pipelines_are_made_proved_timed_and_drawn(self):
        for name in rr.plan.pipeline_schedule_names():
            bare = rr.plan.make_pipeline_plan(name, 4, 2 if rr.plan.takes_several_stages(name) else 1, 8)
            plan = rr.plan.with_messages(bare)
            self.assertIsNone(rr.plan.pipeline_check(plan), name)
            self.assertIsNotNone(rr.plan.pipeline_check(bare), name)
            times = rr.plan.pipeline_times(plan, rr.plan.PipelineCosts(message_s=[0.1]))
            self.assertTrue(0 < times.bubble < 0.5)
            self.assertTrue(plan._repr_svg_().startswith('<svg'))
            self.assertIn('milli', rr.plan.pipeline_svg(plan, times, times, title='milli', unit='ms'))
            run = rr.plan.pipeline_run_from_json(rr.plan.to_json(rr.plan.PipelineRun(plan, times)))
            self.assertEqual(run.plan, plan)
            self.assertAlmostEqual(run.times.total_s, times.total_s)
        # GPipe's bubble is 3 (p - 1) of 3 (m + p - 1) units; it keeps all micro-batches.
        gpipe = rr.plan.with_messages(rr.plan.gpipe(4, 8))
        self.assertAlmostEqual(rr.plan.pipeline_times(gpipe, rr.plan.PipelineCosts()).bubble, 3 / 11)
        self.assertEqual(rr.plan.peak_kept(gpipe), [8] * 4)

    def test_a_pipeline_of_ones_own_is_proved_or_refuted(self):
        Action, Op = rr.plan.PipelineAction, rr.PipelineOp
        plan = rr.plan.empty_pipeline_plan('own', 1, 1, 1)
        plan.actions = [[Action(Op.forward, 0, 0), Action(Op.backward, 0, 0)]]
        self.assertIsNone(rr.plan.pipeline_check(plan))
        plan.actions = [[Action(Op.backward, 0, 0), Action(Op.forward, 0, 0)]]
        self.assertIn('forward pass must come before', rr.plan.pipeline_check(plan).text)
        plan.actions = [[Action(Op.forward, 7, 0)]]
        for call in (rr.plan.peak_kept, lambda plan: plan._repr_svg_(), lambda plan: rr.plan.PipelineRun(
                plan, rr.plan.pipeline_times(rr.plan.gpipe(1, 1), rr.plan.PipelineCosts()))):
            with self.assertRaises(ValueError):
                call(plan)
        with self.assertRaisesRegex(ValueError, 'must have none yet'):
            rr.plan.with_messages(rr.plan.with_messages(rr.plan.gpipe(2, 2)))

    def test_a_plan_of_ones_own_is_proved_or_refuted(self):
        plan = rr.plan.empty_plan(rr.Collective.all_reduce, 'own', 2, 1)
        plan.send(0, 0, 0, 1)
        plan.recv_reduce(0, 1, 0, [0, 1])
        found = rr.plan.plan_check(plan)
        self.assertEqual(found.rank, 0)
        self.assertIn('got', found.text)
        plan.send(1, 1, 0, 0)
        plan.recv(1, 0, 0, 1)
        self.assertIsNone(rr.plan.plan_check(plan))

    def test_a_plan_may_hold_one_ranks_steps(self):
        plan = rr.plan.empty_plan(rr.Collective.all_reduce, 'own', rr.plan.WorldSize(2, 1), 1)
        plan.send(0, 0, 0, 1)
        plan.recv_reduce(0, 1, 0, [0, 1])
        self.assertEqual([step.rank for step in plan.steps], [1])
        with self.assertRaisesRegex(ValueError, 'the only rank must be one of 2; got 7'):
            rr.plan.empty_plan(rr.Collective.all_reduce, 'own', rr.plan.WorldSize(2, 7), 1)

    def test_a_plan_with_ranks_that_it_lacks_is_an_error(self):
        plan = rr.plan.empty_plan(rr.Collective.all_reduce, 'own', 2, 1)
        plan.send(0, 0, 5, 99)
        with self.assertRaises(ValueError):
            rr.plan.predicted_seconds(plan, 10, rr.plan.CostModel())
        links = rr.plan.named_topology('nvlink8', 4).links
        choice = rr.plan.fastest_all_reduce(4, 1e9, links)
        self.assertEqual(choice.seconds, rr.plan.all_reduce_seconds(choice.algorithm, 4, 1e9, links))

    def test_nonsense_is_an_error(self):
        with self.assertRaisesRegex(ValueError, 'ring'):
            rr.plan.make_plan(rr.Collective.all_reduce, 'unknown', 4)
        with self.assertRaises(ValueError):
            rr.plan.collective_plan_from_json('{}')


if __name__ == '__main__':
    unittest.main()
