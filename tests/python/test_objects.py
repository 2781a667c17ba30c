"""What Python's own protocols do with our objects: identity, comparison, copies, with statements, errors and imports."""
import copy
import gc
import pickle
import subprocess
import sys
import threading
import traceback
import unittest
import unittest.mock
import weakref

import numpy as np

import ringrad as rr
from ringrad import nn


class Scaled(nn.Module):
    """y = x * scale, and a buffer."""

    def __init__(self):
        super().__init__()
        self.scale = self.parameter('scale', rr.ones([2]))
        self.mean = self.buffer('mean', rr.zeros([2]))

    def forward(self, x):
        return x * self.scale


class Members(unittest.TestCase):
    def test_a_registered_tensor_stays_a_member_and_changes_in_place(self):
        net = Scaled()
        for name in ('scale', 'mean'):
            for value in (rr.ones([2]), getattr(net, name) * 0.5, None):
                with self.assertRaisesRegex(rr.ValueError, f'Scaled: {name} is registered .* self.{name}.copy_'):
                    setattr(net, name, value)
            with self.assertRaisesRegex(rr.ValueError, f'{name} is registered'):
                delattr(net, name)
        net.mean += 1
        net.mean = net.mean
        with rr.no_grad():
            net.scale.copy_(net.scale * 3)
        self.assertEqual(net.state_dict()['mean'].tolist(), [1, 1])
        self.assertEqual(net(rr.ones([2])).tolist(), [3, 3])
        net.alias = nn.Linear(1, 1).weight.detach()
        net.alias = None  # not registered

    def test_a_trained_tensor_that_is_not_registered_is_found_when_an_optimizer_asks(self):
        net = Scaled()
        net.late = rr.ones([2])
        self.assertEqual(len(net.parameters()), 1)
        net.late.requires_grad = True
        with self.assertRaisesRegex(rr.ValueError, 'Scaled: a tensor that is trained .* self.late'):
            net.parameters()
        with self.assertRaisesRegex(rr.ValueError, 'self.late'):
            nn.Sequential(net).named_parameters()

    def test_a_list_may_hold_tensors_that_others_train(self):
        net = Scaled()
        net.target = nn.Linear(2, 2).parameters()
        net.inputs = (rr.ones([1], requires_grad=True),)
        self.assertEqual([name for name, _ in nn.Sequential(net).named_parameters()], ['0.scale'])

    def test_an_assignment_that_fails_registers_nothing(self):
        class Fixed(nn.Module):
            __slots__ = ('layer',)

            @property
            def half(self):
                return None

        net = Fixed()
        with self.assertRaises(AttributeError):
            net.half = nn.Linear(1, 1)
        self.assertEqual(net.parameters(), [])
        net.layer = nn.Linear(1, 1)
        with self.assertRaisesRegex(rr.ValueError, 'child layer must stay'):
            net.layer = 3
        with self.assertRaisesRegex(rr.ValueError, 'circle'):
            net.itself = net
        self.assertFalse(hasattr(net, 'itself'))

    def test_a_parent_calls_its_childs_own_train(self):
        class Frozen(nn.Module):
            def train(self, training=True):
                super().train(False)

        class Parent(nn.Module):
            def __init__(self):
                super().__init__()
                self.frozen = Frozen()
                self.dropout = nn.Dropout(0.5)

        for net in (Parent(), nn.Sequential(Parent())):
            net.eval()
            net.train()
            parent = net if isinstance(net, Parent) else net[0]
            self.assertEqual((parent.frozen.training, parent.dropout.training), (False, True))

    def test_a_layer_of_cpp_keeps_its_forward(self):
        with self.assertRaisesRegex(rr.ValueError, 'Linear: forward.. must stay'):
            nn.Linear(1, 1).forward = lambda x: x
        net = Scaled()
        net.forward = lambda x: x * 5
        self.assertEqual(net(rr.ones([2])).tolist(), [5, 5])

    def test_a_replica_that_is_its_modules_member_ends_with_it(self):
        def body(comm):
            net = Scaled()
            net.replica = rr.DistributedDataParallel(net, comm)
            self.assertIs(net.replica.module, net)
            net.replica(rr.ones([2])).sum().backward()
            lives.append(weakref.ref(net.replica))
            del net
            gc.collect()
            self.assertIsNone(lives[-1]())

        lives = []
        rr.run_ranks(1, body)


class Comparison(unittest.TestCase):
    def test_what_holds_numbers_is_never_compared_as_an_object(self):
        x = rr.ones([2])
        for other in (np.ones(2), [1, 1], (1,), 1 << 64, 1j):
            for compare in (lambda: x == other, lambda: x != other, lambda: other == x):
                with self.assertRaisesRegex(rr.DTypeError, 'must be compared with a Tensor'):
                    compare()
        self.assertIs(x == None, False)  # noqa: E711
        self.assertIs(x != 'name', True)
        self.assertIs(x == unittest.mock.ANY, True)
        self.assertEqual((x == 1).tolist(), [True, True])

    def test_one_tensor_may_have_two_objects(self):
        net = nn.Linear(2, 3)
        first, second = net.parameters()[0], net.parameters()[0]
        self.assertTrue(first.is_(second))
        self.assertFalse(first.is_(first.clone()))
        self.assertEqual(hash(first), hash(second))
        self.assertIn('named_parameters', rr.Tensor.__hash__.__doc__)

    def test_numbers_that_a_dtype_cannot_hold_divide_and_compare(self):
        x = rr.tensor([0, 128, 255], rr.uint8)
        self.assertEqual((x / 256).tolist(), [0, 0.5, 255 / 256])
        self.assertEqual((x / -1).tolist(), [0, -128, -255])
        self.assertEqual((320 / x[1:2]).tolist(), [2.5])
        self.assertEqual((x < 300).tolist(), [True] * 3)
        self.assertEqual((x == -1).tolist(), [False] * 3)
        self.assertEqual((300 > x).tolist(), [True] * 3)
        with self.assertRaisesRegex(rr.ValueError, 'must fit'):
            x + 256

    def test_a_tensor_is_no_list_of_tensors(self):
        w = rr.ones([2], requires_grad=True)
        for call in (lambda: rr.grad([w.sum()], w), lambda: rr.gradient_check(lambda x: x[0].sum(), w),
                     lambda: rr.concatenate(w)):
            with self.assertRaisesRegex(TypeError, r'Tensor\].*; got .*Tensor'):
                call()
        with self.assertRaises(TypeError):
            nn.SGD(w, learning_rate=0.1)
        self.assertEqual(rr.grad([w.sum()], [w])[0].tolist(), [1, 1])

    def test_a_date_is_no_number(self):
        with self.assertRaisesRegex(rr.ValueError, 'there must be a number'):
            rr.tensor([np.datetime64(1, 'ns')])
        self.assertEqual(rr.tensor([np.uint8(1), np.int64(2)]).tolist(), [1, 2])


class Copies(unittest.TestCase):
    def test_tensors_are_copied_and_pickled_in_all_dtypes(self):
        for dtype in (rr.float32, rr.float64, rr.float16, rr.bfloat16, rr.int32, rr.int64, rr.uint8, rr.bool_):
            for x in (rr.tensor([[1, 0], [1, 1]], dtype).transpose(0, 1), rr.zeros([0, 2], dtype=dtype),
                      rr.ones([], dtype=dtype)):
                for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
                    self.assertEqual((y.dtype, y.shape, y.tolist()), (dtype, x.shape, x.tolist()))
                    y.fill_(0)
                    self.assertFalse(y.requires_grad)
        w = rr.ones([1], requires_grad=True)
        self.assertEqual([y.requires_grad for y in copy.deepcopy([w, w.detach()])], [True, False])
        twice = copy.deepcopy([w, w])
        self.assertIs(twice[0], twice[1])
        with self.assertRaisesRegex(rr.AutogradError, 'detach'):
            copy.copy(w * 2)

    def test_a_pickle_that_lies_is_an_error(self):
        dtype, shape, data, trained = rr.ones([2]).__getstate__()
        for state in ((dtype, (3,), data, trained), (rr.bool_, shape, b'\1\2', False), (rr.int64, (1,), data, True)):
            with self.assertRaises(rr.Error):
                rr.Tensor.__new__(rr.Tensor).__setstate__(state)

    def test_modules_and_optimizers_say_how_they_are_copied(self):
        net = Scaled()
        for thing in (net, nn.Linear(1, 1), nn.SGD(net.parameters(), learning_rate=0.1)):
            for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, type(thing).__name__ + '.*state_dict'):
                    copied(thing)

    def test_a_groups_parameters_are_a_tuple(self):
        group = nn.ParameterGroup([rr.ones([1])])
        self.assertIsInstance(group.parameters, tuple)
        group.parameters = [rr.ones([1]), rr.ones([2])]
        self.assertEqual(len(group.parameters), 2)

    def test_a_second_tensor_of_the_same_memory_counts_its_writes(self):
        for shared in (rr.from_dlpack, rr.from_buffer):
            x = rr.ones([2])
            y = (rr.ones([2], requires_grad=True) * x).sum()
            shared(x).fill_(2)
            self.assertEqual(x.tolist(), [2, 2])
            with self.assertRaisesRegex(rr.AutogradError, 'changed'):
                y.backward()

    def test_memory_of_a_tensor_is_taken_as_any_other_librarys(self):
        w = rr.ones([2], requires_grad=True)
        for take in (rr.from_dlpack, rr.tensor):
            for x in (w, w * 2):
                with self.assertRaisesRegex(rr.AutogradError, r'must not require a gradient.* detach\(\)'):
                    take(x)
        self.assertEqual(rr.tensor(w.detach()).tolist(), [1, 1])
        for x in (w, rr.ones([2, 3]).transpose(0, 1), rr.ones([2], dtype=rr.bfloat16), rr.ones([2], device='cuda')):
            with self.assertRaisesRegex(BufferError, 'memoryview: a tensor must be'):
                rr.from_buffer(x)


class Scopes(unittest.TestCase):
    def records(self):
        return (rr.ones([1], requires_grad=True) * 2).requires_grad

    def test_a_guard_ends_after_those_within_it(self):
        outer, inner = rr.no_grad(), rr.no_grad()
        outer.__enter__()
        inner.__enter__()
        with self.assertRaisesRegex(rr.ValueError, 'after those within it'):
            outer.__exit__(None, None, None)
        self.assertTrue(self.records())
        with self.assertRaisesRegex(rr.ValueError, 'must end'):
            inner.__exit__(None, None, None)
        self.assertTrue(self.records())

    def test_a_guard_ends_on_its_own_thread(self):
        def end():
            with self.assertRaisesRegex(rr.ValueError, 'on the thread where it began'):
                guard.__exit__(None, None, None)
            seen.append(self.records())

        guard, seen = rr.no_grad(), []
        with guard:
            thread = threading.Thread(target=end)
            thread.start()
            thread.join()
            self.assertFalse(self.records())
        self.assertEqual((seen, self.records()), ([True], True))

    def test_a_guard_that_is_dropped_has_ended(self):
        guard = rr.no_grad()
        guard.__enter__()
        del guard
        self.assertTrue(self.records())

    def test_averages_end_in_order_too(self):
        net = nn.Linear(1, 1)
        average = nn.ExponentialMovingAverage(net)
        applied, quiet = average.applied(), rr.no_grad()
        applied.__enter__()
        quiet.__enter__()
        with self.assertRaisesRegex(rr.ValueError, 'after those within it'):
            applied.__exit__(None, None, None)
        self.assertTrue(self.records())


class Messages(unittest.TestCase):
    def test_a_mistake_within_a_callback_keeps_its_text_and_its_line(self):
        class Wrong(nn.Module):
            def forward(self, x):
                return rr.relu('x')

        for call in (lambda: Wrong()(rr.ones([1])), lambda: rr.run_ranks(1, lambda comm: rr.relu('x'))):
            try:
                call()
                self.fail('no error')
            except TypeError as error:
                self.assertEqual(str(error), 'relu: argument x must be Tensor; got str')
                self.assertIn("relu('x')", ''.join(traceback.format_tb(error.__traceback__)[1:]))

    def test_each_error_says_what_is_wrong(self):
        class Without(nn.Module):
            def __init__(self):
                pass

            def forward(self, x):
                return x

        kept = []
        rr.run_ranks(1, kept.append)
        x, net = rr.ones([2]), nn.SGD([rr.ones([1], requires_grad=True)], learning_rate=1)
        for text, call in (
                ('relu: there must be at most 0 arguments without a name; got 1', lambda: x.relu(1)),
                ('self must be an initialised object; got Without whose super', lambda: Without().parameters()),
                ('self must be .*Communicator .*whose rank has ended', lambda: kept[0].barrier()),
                ('at most 8', lambda: rr.zeros([1] * 9)),
                ('seed must be in the range .*; got -1', lambda: rr.manual_seed(-1)),
                ('axis1 must be in the range .*; got 1180591620717411303424', lambda: x.transpose(-1, 1 << 70)),
                ("tensors must have Tensors as values; got ndarray at 'a'",
                 lambda: nn.write_tensors('/nowhere', {'a': np.ones(1)})),
                ('value must be Tensor | float | int | bool; got numpy.ndarray', lambda: x.__setitem__(0, np.ones(1))),
                ('requires_grad: .* must be bool; got str', lambda: setattr(x, 'requires_grad', 'x')),
                ('learning_rate: .* must be float; got str', lambda: setattr(net, 'learning_rate', 'x'))):
            with self.subTest(text), self.assertRaisesRegex(TypeError, text):
                call()
        with self.assertRaisesRegex(rr.ValueError, 'tensor: there must be .*; got NoneType'):
            rr.tensor(None)

    def test_a_leaf_is_not_its_own_gradient(self):
        w = rr.ones([1], requires_grad=True)
        with self.assertRaisesRegex(rr.AutogradError, 'the leaf itself'):
            w.grad = w


class Process(unittest.TestCase):
    def run_python(self, program):
        return subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, timeout=60)

    def test_a_second_import_is_an_error(self):
        done = self.run_python('import sys, ringrad\n'
                               'del sys.modules["ringrad"]\n'
                               'try:\n'
                               '    import ringrad as again\n'
                               'except ImportError as error:\n'
                               '    print(error)\n'
                               'print(ringrad.ones([1]).tolist())\n')
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, '[1.0]'), done.stderr)
        self.assertIn('once per process', done.stdout)

    def test_a_thread_that_computes_does_not_disturb_the_end(self):
        program = ('import threading, time, ringrad as rr\n'
                   'def compute():\n'
                   '    x = rr.ones([64, 64])\n'
                   '    while True:\n'
                   '        x @ x\n'
                   'for _ in range(3):\n'
                   '    threading.Thread(target=compute, daemon=True).start()\n'
                   'time.sleep(0.2)\n')
        for _ in range(3):
            done = self.run_python(program)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == '__main__':
    unittest.main()
