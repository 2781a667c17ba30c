"""Tensors in Python: values, brackets, gradients, errors, and memory that is shared with NumPy."""
import array
import ctypes
import gc
import io
import operator
import sys
import threading
import unittest
import weakref

import numpy as np

import ringrad as rr
from ringrad import nn

DTYPES = {'float32': np.float32, 'float64': np.float64, 'float16': np.float16, 'int32': np.int32, 'int64': np.int64,
          'uint8': np.uint8, 'bool_': np.bool_}


class Values(unittest.TestCase):
    def test_lists_have_the_dtype_of_their_numbers(self):
        self.assertEqual(rr.tensor([[1, 2], [3, 4]]).dtype, rr.int64)
        self.assertEqual(rr.tensor([1, 2.5]).dtype, rr.float32)
        self.assertEqual(rr.tensor([True, False]).dtype, rr.bool_)
        self.assertEqual(rr.tensor([1, 2], rr.float64).dtype, rr.float64)
        self.assertEqual(rr.tensor([[1, 2], [3, 4]]).tolist(), [[1, 2], [3, 4]])
        with self.assertRaisesRegex(rr.ShapeError, 'equally long'):
            rr.tensor([[1, 2], [3]])

    def test_operators_agree_with_numpy(self):
        a, b = np.random.default_rng(1).random((2, 3, 4)) + 0.5
        x, y = rr.from_dlpack(a), rr.from_dlpack(b)
        for name, ours, theirs in (('+', x + y, a + b), ('-', x - y, a - b), ('*', x * y, a * b), ('/', x / y, a / b),
                                   ('**', x**y, a**b), ('1 -', 1 - x, 1 - a), ('2 /', 2 / x, 2 / a), ('2 **', 2**x, 2**a),
                                   ('-x', -x, -a), ('@', x @ y.transpose(0, 1), a @ b.T), ('<', x < y, a < b),
                                   ('==', x == x, a == a), ('sum', x.sum([1]), a.sum(1)), ('exp', rr.exp(x), np.exp(a))):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12, err_msg=name)

    def test_results_may_be_several_tensors(self):
        values, inverse, counts = rr.unique(rr.tensor([3., 1., 3.]))
        self.assertEqual((values.tolist(), inverse.tolist(), counts.tolist()), ([1, 3], [1, 0, 1], [1, 2]))

    def test_brackets_agree_with_numpy_and_are_views_unless_a_step_is_negative(self):
        a = np.arange(60.0).reshape(3, 4, 5)
        x = rr.from_dlpack(a)
        for key in (1, -1, slice(1, 3), (0, slice(None), 2), (Ellipsis, 0), (None, 1), (slice(None, None, 2), Ellipsis, slice(1, 4)),
                    slice(None, None, -1), (0, slice(-1, 0, -2)), (Ellipsis, slice(2, None, -1))):
            np.testing.assert_array_equal(x[key].numpy(), a[key], err_msg=str(key))
        x[0, 1:3] = -1
        x[2, 0, ::-1] = rr.tensor([4.0, 3.0, 2.0, 1.0, 0.0]).to(rr.float64)
        self.assertEqual(a[0, 1:3].sum(), -10)
        self.assertEqual(a[2, 0].tolist(), [0, 1, 2, 3, 4])
        self.assertEqual([row.sum().item() for row in x], a.sum((1, 2)).tolist())
        with self.assertRaises(IndexError):
            x[3]
        with self.assertRaisesRegex(rr.IndexError, 'whole number'):
            x['a']

    def test_a_threads_generator_may_outlive_the_thread(self):
        kept = []

        def seeded(seed):
            rr.manual_seed(seed)
            kept.append(rr.default_generator())

        for seed in range(8):
            thread = threading.Thread(target=seeded, args=[seed])
            thread.start()
            thread.join()
        for seed, generator in enumerate(kept):
            self.assertEqual(rr.rand([4], generator=generator).tolist(), rr.rand([4], generator=rr.Generator(seed)).tolist())
        self.assertIs(rr.default_generator(), rr.default_generator())

    def test_errors_have_cpps_text_and_pythons_types(self):
        with self.assertRaisesRegex(ValueError, r'^add: shapes must broadcast; got \(2,\) and \(3,\)$') as caught:
            rr.zeros([2]) + rr.zeros([3])
        self.assertIs(caught.exception.__class__, rr.ShapeError)
        with self.assertRaisesRegex(rr.DeviceError, 'gpu'):
            rr.zeros([2], device='gpu')
        with self.assertRaises(rr.DTypeError):
            rr.softmax(rr.tensor([1, 2]), 0)
        with self.assertRaises(TypeError):
            rr.zeros([2]) + 'a'
        with self.assertRaises(rr.ShapeError):
            rr.zeros([-1])

    def test_numbers_of_numpy_are_numbers_and_leave_the_operator_to_the_tensor(self):
        x = rr.ones([2], requires_grad=True)
        for y in (x * np.float32(2), np.float32(2) * x, x * np.float64(2), np.float64(2) * x, np.int64(2) * x):
            self.assertIsInstance(y, rr.Tensor)
            self.assertTrue(y.requires_grad)
            self.assertEqual(y.tolist(), [2, 2])
        p = q = rr.ones([2])
        p *= np.float32(0.5)
        self.assertEqual(q.tolist(), [0.5, 0.5])
        p[0] = np.float32(9)
        self.assertEqual([rr.full([1], np.int64(3)).item(), rr.tensor([np.float32(3)]).item(), p[0].item()], [3, 3, 9])
        for call in (lambda: x + np.ones(2), lambda: np.ones(2) + x, lambda: x - np.ones(2), lambda: np.ones(2) / x,
                     lambda: x ** np.ones(2), lambda: operator.imul(p, np.ones(2, np.float32)), lambda: x @ np.ones(2),
                     lambda: np.ones(2) @ x, lambda: x < np.ones(2), lambda: np.ones(2) >= x):
            with self.assertRaisesRegex(rr.DTypeError, r'operands must be Tensors and numbers; got ndarray; write rr.tensor'):
                call()

        with self.assertRaisesRegex(rr.DTypeError, 'write rr.tensor'):
            x == np.ones(2)

    def test_in_place_powers_are_new_tensors(self):
        x = y = rr.tensor([2.0, 3.0])
        y **= 2
        y **= rr.tensor([1.0, 2.0])
        self.assertEqual([x.tolist(), y.tolist()], [[2, 3], [4, 81]])

    def test_other_classes_keep_their_reflected_operators(self):
        class Measured:
            def __radd__(self, other):
                return 'measured'

            def __dlpack__(self):
                raise NotImplementedError

        self.assertEqual(rr.ones(2) + Measured(), 'measured')

    def test_arrays_become_tensors_of_any_dtype(self):
        a = np.arange(3.0)
        x = rr.tensor(a, rr.float32, requires_grad=True)
        self.assertEqual([x.dtype, x.requires_grad, x.tolist()], [rr.float32, True, [0, 1, 2]])
        self.assertEqual(rr.tensor(a).dtype, rr.float64)
        y = rr.tensor(a, dtype=rr.float64, device='cpu')
        y += 1
        self.assertEqual(a.tolist(), [0, 1, 2])  # a copy
        self.assertTrue(rr.tensor([1.0], requires_grad=True).requires_grad)
        with self.assertRaises(rr.DTypeError):
            rr.tensor([1], requires_grad=True)

    def test_extents_may_be_arguments(self):
        self.assertEqual([rr.zeros(2, 3).shape, rr.ones(2, 3, dtype=rr.int32).shape, rr.randn(2, 1, 3).shape, rr.zeros(4).shape],
                         [(2, 3), (2, 3), (2, 1, 3), (4,)])
        x = rr.arange(6)
        self.assertEqual([x.reshape(-1, 2).shape, rr.reshape(x, 2, 3).permute(1, 0).shape, x.reshape(1, 6).expand(4, 6).shape],
                         [(3, 2), (3, 2), (4, 6)])
        for call in (lambda: rr.zeros(2, 'a'), lambda: rr.zeros(2, 1.5), lambda: x.reshape([2], 3)):
            with self.assertRaisesRegex(rr.DTypeError, r'(zeros|reshape): there must be whole numbers of 64 bits, or one list'):
                call()
        with self.assertRaises(rr.ShapeError):
            x.reshape(4, 2)

    def test_what_is_no_index_no_number_and_no_list_is_an_error(self):
        x = rr.ones([2, 3])
        self.assertEqual([x[None].shape, x[..., None].shape], [(1, 2, 3), (2, 3, 1)])
        for key in (True, False, np.bool_(True), 1.5, 'a', slice(0, 1.5), slice(0, 10**30)):
            with self.assertRaises(rr.IndexError):
                x[key]

        class Unruly(list):
            def __iter__(self):
                raise KeyError

        self.assertEqual(rr.tensor(Unruly([1])).tolist(), [1])
        endless = []
        endless.append(endless)
        for value in (endless, 2**63, [2**63], 'abc', [x, x]):
            with self.assertRaisesRegex(rr.ValueError, 'numbers in lists'):
                rr.tensor(value)
        for call in (lambda: rr.full([2], -1, dtype=rr.uint8), lambda: rr.tensor([300], rr.uint8),
                     lambda: rr.zeros([2], dtype=rr.int32).fill_(1e10)):
            with self.assertRaisesRegex(rr.ValueError, 'number must fit'):
                call()
        with self.assertRaises(TypeError):
            len(rr.tensor(1))
        self.assertEqual([row.tolist() for row in rr.tensor([[1], [2]])], [[1], [2]])

    def test_one_number_stands_for_a_pair(self):
        x, w = rr.randn([1, 2, 8, 8]), rr.randn([3, 2, 3, 3])
        pairs = rr.conv2d(x, w, stride=[2, 2], padding=(1, 1), dilation=[1, 1])
        self.assertEqual(rr.conv2d(x, w, stride=2, padding=1, dilation=1).tolist(), pairs.tolist())
        self.assertEqual(rr.conv2d(x, w, stride=np.int64(2), padding=1).tolist(), pairs.tolist())
        self.assertEqual(rr.max_pool2d(x, kernel=4, stride=4).shape, (1, 2, 2, 2))
        self.assertEqual(rr.interpolate(x, scale=0.5).shape, (1, 2, 4, 4))
        self.assertEqual(rr.max_pool3d(rr.randn([1, 2, 4, 4, 4]), kernel=4, stride=4).shape, (1, 2, 1, 1, 1))
        self.assertEqual(nn.Conv2d(2, 3, kernel=(1, 3), padding=(0, 1))(x).shape, (1, 3, 8, 8))
        self.assertEqual(nn.MaxPool2d((2, 4), stride=(2, 4))(x).shape, (1, 2, 4, 2))
        for stride in ([2], [2, 2, 2], 2.5, '2', None):
            with self.subTest(stride=stride), self.assertRaises(TypeError):
                rr.conv2d(x, w, stride=stride)

    def test_arguments_that_fit_no_signature_are_named_in_one_line(self):
        x = rr.ones([1, 2, 4, 4])
        for must, call in (
                (r'conv2d: keywords must be among x, weight, .*, groups; got strid, nearest to stride',
                 lambda: rr.conv2d(x, x, strid=2)),
                (r'Linear: keywords must be among in_features, out_features, with_bias; got bias.*', lambda: nn.Linear(2, 3, bias=True)),
                (r'sum: keywords must be among axes, keepdim; got axis, nearest to axes', lambda: x.sum(axis=1)),
                (r'SGD: keywords must be among .*; got learning_rat, nearest to learning_rate',
                 lambda: nn.SGD([x], learning_rat=0.1)),
                (r'relu: keywords must be among x; got inplace', lambda: rr.relu(x, inplace=True)),
                (r'exp: there must be no keywords; got out', lambda: x.exp(out=x)),
                (r'sum: argument x must be Tensor; got str', lambda: rr.sum('a')),
                (r'Linear: argument out_features must be given; got 2 arguments', lambda: nn.Linear(2)),
                (r'Linear: argument out_features must be int; got str', lambda: nn.Linear(2, 'a')),
                (r'conv2d: argument stride must be Sequence\[int\] \| int; got str', lambda: rr.conv2d(x, x, stride='2')),
                (r'conv2d: arguments must fit \(x: Tensor, .*\); got \(Tensor, Tensor, stride: list\)',
                 lambda: rr.conv2d(x, x, stride=[2])),
                (r'maximum: argument b must be .*; got list', lambda: rr.maximum(x, [1])),
                (r'relu: there must be at most 1 arguments without a name; got 2', lambda: rr.relu(x, x)),
                (r'concatenate: argument list must be Sequence\[Tensor\]; got list', lambda: rr.concatenate([x, 'a'])),
                (r'zeros: argument dtype must be DType; got int', lambda: rr.zeros([2], dtype=1)),
                (r'to: argument dtype must be DType; got bool', lambda: x.to(False)),
                (r'inv: argument x must be Tensor; got NoneType', lambda: rr.linalg.inv(None)),
                (r'make_plan: .*', lambda: rr.plan.make_plan('ring'))):
            with self.subTest(must), self.assertRaises(TypeError) as caught:
                call()
            self.assertRegex(str(caught.exception), f'^{must}$')
        with self.assertRaisesRegex(TypeError, 'no number'):  # what a function of Python raises stays
            rr.jacobian(lambda x: (_ for _ in ()).throw(TypeError('no number')), x)

    def test_a_guard_is_open_once(self):
        guard = rr.no_grad()
        with guard, self.assertRaises(rr.ValueError):
            guard.__enter__()
        with guard:
            self.assertFalse((rr.ones([1], requires_grad=True) * 2).requires_grad)
        self.assertTrue((rr.ones([1], requires_grad=True) * 2).requires_grad)

    def test_a_tensor_knows_the_line_of_python_that_made_it(self):
        here = sys._getframe().f_lineno
        self.assertEqual((rr.zeros([1]) + 1).made_at, f'test_tensor.py:{here + 1}')


class Gradients(unittest.TestCase):
    def test_backward_and_grad_agree_with_formulas(self):
        x = rr.tensor([1.0, 2.0, 3.0], rr.float64).set_requires_grad()
        (x * x * x).sum().backward()
        self.assertEqual(x.grad.tolist(), [3, 12, 27])
        (found,) = rr.grad([(x * x).sum()], [x])
        self.assertEqual(found.tolist(), [2, 4, 6])
        self.assertEqual(x.grad.tolist(), [3, 12, 27])
        x.grad = None
        self.assertIsNone(x.grad)
        with rr.no_grad():
            self.assertFalse((x * 2).requires_grad)
        self.assertTrue((x * 2).requires_grad)

    def test_autocast_holds_within_its_scope(self):
        a = rr.ones([2, 2])
        with rr.autocast(rr.bfloat16):
            self.assertEqual((a @ a).dtype, rr.bfloat16)
        self.assertEqual((a @ a).dtype, rr.float32)
        with self.assertRaises(rr.DTypeError), rr.autocast(rr.int64):
            pass

    def test_a_hook_sees_and_replaces_the_gradient(self):
        x = rr.ones([2], requires_grad=True)
        seen = []
        watch, triple = x.register_hook(lambda grad: seen.append(grad.tolist())), x.register_hook(lambda grad: grad * 3)
        (x * 2).sum().backward()
        self.assertEqual((seen, x.grad.tolist()), ([[2, 2]], [6, 6]))
        watch.remove()
        triple.remove()
        (x * 2).sum().backward()
        self.assertEqual((seen, x.grad.tolist()), ([[2, 2]], [8, 8]))

    def test_what_a_function_of_python_returns_is_checked(self):
        x = rr.ones([2], requires_grad=True)

        def wrong(*_):
            return 'text'

        lbfgs = nn.LBFGS([x])
        for name, must, call in (
                ('register_hook', 'a Tensor or None', lambda: (x.register_hook(wrong), (x * 2).sum().backward())),
                ('activation_checkpoint', 'a Tensor', lambda: rr.activation_checkpoint(wrong, [x])),
                ('jacobian', 'a Tensor', lambda: rr.jacobian(wrong, x)), ('hessian', 'a Tensor', lambda: rr.hessian(wrong, x)),
                ('jvp', 'a Tensor', lambda: rr.jvp(wrong, x, x)), ('gradient_check', 'a Tensor', lambda: rr.gradient_check(wrong, [x.detach().to(rr.float64)])),
                ('LBFGS.step', 'a Tensor', lambda: lbfgs.step(wrong)), ('warm_up', 'a number', lambda: nn.warm_up(1, wrong)(3))):
            with self.subTest(name), self.assertRaisesRegex(
                    TypeError, rf'^{name}: what .*\.wrong returns must be {must}; got str$'):
                call()
        with self.assertRaisesRegex(rr.DTypeError, 'returns must be a Tensor; got NoneType'):
            rr.jacobian(lambda x: None, x)
        with self.assertRaises(TypeError):
            x.register_hook(None)
        with self.assertRaisesRegex(ZeroDivisionError, 'division'):  # the function's own exception stays
            rr.jacobian(lambda x: 1 / 0, x)

    def test_functions_of_python_are_checked(self):
        inputs = [rr.randn([3, 4], dtype=rr.float64), rr.randn([4, 2], dtype=rr.float64)]
        self.assertEqual(rr.gradient_check(lambda xs: rr.tanh(xs[0] @ xs[1]).sum(), inputs), '')

    def test_misuse_is_an_error(self):
        x = rr.ones([2], requires_grad=True)
        y = rr.exp(x).sum()
        y.backward()
        with self.assertRaises(rr.AutogradError):
            y.backward()
        saved = rr.exp(x)
        with self.assertRaisesRegex(rr.AutogradError, 'must not be changed'):
            saved += 1
        with rr.no_grad():
            saved += 1
        with self.assertRaisesRegex(RuntimeError, 'changed'):
            saved.sum().backward()


class Collection(unittest.TestCase):
    """What a function of Python's keeps alive ends, if only the function's own tensor keeps the function."""

    def ends(self, make):
        """True if what make() returns is collected; make also makes a cycle that contains it."""
        ended = weakref.ref(make())
        gc.collect()
        return ended() is None

    def test_a_hook_that_refers_to_its_tensor_ends_with_it(self):
        class Witness:
            pass

        def hooked(tensor_of, refer=lambda x, handle: x):
            x = tensor_of(rr.ones([3], requires_grad=True))
            witness = Witness()

            def hook(grad):
                return witness, kept

            handle = x.register_hook(hook)
            kept = refer(x, handle)
            return witness

        for name, arguments in (
                ('leaf', [lambda x: x]), ('result', [rr.exp]), ('one of several results', [lambda x: x.split(1)[1]]),
                ('view', [lambda x: (x * 2)[1:]]), ('result further down', [rr.exp, lambda x, handle: (x * 2).sum()]),
                ('in a list', [lambda x: x, lambda x, handle: [{'x': x}]]), ('handle', [lambda x: x, lambda x, handle: handle]),
                ('handle and tensor', [rr.exp, lambda x, handle: (handle, x)]),
                ('made a leaf later', [lambda x: rr.ones([3]).set_requires_grad()])):
            with self.subTest(name):
                self.assertTrue(self.ends(lambda: hooked(*arguments)))

    def test_a_checkpointed_function_that_refers_to_its_result_ends_with_it(self):
        class Net:
            def twice(self, xs):
                return xs[0] * 2

            def __init__(self):
                self.y = rr.activation_checkpoint(self.twice, [rr.ones([2], requires_grad=True)])

        self.assertTrue(self.ends(Net))

    def test_a_hook_runs_as_long_as_a_gradient_can_reach_it(self):
        seen = []
        x = rr.ones([2], requires_grad=True)
        y = x * 3
        y.register_hook(lambda grad, y=y: seen.append((y.tolist(), grad.tolist())))
        z = y.sum()
        handle = x.register_hook(lambda grad: grad * 2)
        del y
        junk = [[] for _ in range(1000)]
        gc.collect()
        z.backward()
        self.assertEqual((seen, x.grad.tolist()), ([([3, 3], [1, 1])], [6, 6]))
        handle.remove()
        handle.remove()
        (x * 1).sum().backward()
        self.assertEqual(x.grad.tolist(), [7, 7])
        del z, x, junk
        gc.collect()
        handle.remove()  # of a tensor that has ended

    def test_a_hook_may_remove_itself_and_its_tensor(self):
        seen = []
        x = rr.ones([2], requires_grad=True)

        def once(grad):
            nonlocal x
            seen.append(grad.tolist())
            handle.remove()
            x = None
            gc.collect()

        y = x
        handle = x.register_hook(once)
        for _ in range(2):
            (y * 2).sum().backward()
        self.assertEqual(seen, [[2, 2]])

    def test_collections_while_other_threads_compute(self):
        def body(comm):
            for step in range(40):
                x = rr.ones([4], requires_grad=True)
                y = rr.exp(x)
                y.register_hook(lambda grad, y=y: grad * 2)
                if step % 8 == comm.rank:
                    gc.collect()
                y.sum().backward()
                self.assertAlmostEqual(x.grad[0].item(), 2 * 2.718281828, places=4)

        rr.run_ranks(3, body)


class SharedMemory(unittest.TestCase):
    def test_dlpack_shares_both_ways_in_all_dtypes(self):
        for name, dtype in DTYPES.items():
            a = np.zeros((3, 4), dtype)[:, ::2]
            x = rr.from_dlpack(a)
            self.assertEqual((x.dtype, x.shape, x.strides), (getattr(rr, name), (3, 2), (4, 2)))
            a[1, 1] = 1
            self.assertEqual(x[1, 1].item(), 1)
            x[2, 0] = 1
            self.assertEqual(a[2, 0], 1)
            b = np.from_dlpack(x)
            self.assertEqual(b.__array_interface__['data'], a.__array_interface__['data'])

    def test_memory_lives_as_long_as_either_side_needs_it(self):
        class Owned(np.ndarray):
            pass

        a = np.arange(1000.0).view(Owned)
        ended = weakref.ref(a)
        x = rr.from_dlpack(a)[500:]
        del a
        gc.collect()
        self.assertIsNotNone(ended())
        self.assertEqual(x.sum().item(), sum(range(500, 1000)))
        del x
        gc.collect()
        self.assertIsNone(ended())
        b = rr.full([1000], 7.0).numpy()
        junk = [rr.zeros([1000]) for _ in range(50)]
        self.assertEqual((b == 7).sum(), 1000)
        del junk

    def test_a_capsule_is_used_once_and_freed_unused(self):
        x = rr.ones([4])
        capsule = x.__dlpack__(max_version=(1, 1))
        self.assertEqual(rr.from_dlpack(capsule).tolist(), [1] * 4)
        with self.assertRaisesRegex(ValueError, 'nobody has used'):
            rr.from_dlpack(capsule)
        for version in (None, (1, 0)):
            del capsule
            capsule = x.__dlpack__(max_version=version)
            flags = rr.tensor([True])
            unused = flags.__dlpack__(max_version=version)
            np.from_dlpack(flags).view(np.uint8)[0] = 7  # which from_dlpack refuses
            del unused
        with self.assertRaises(rr.AutogradError):
            rr.ones([2], requires_grad=True).__dlpack__()
        with self.assertRaises(ValueError):
            rr.from_dlpack([1, 2])

    def test_buffers_are_shared_both_ways(self):
        owner = array.array('d', [1, 2, 3])
        x = rr.from_buffer(owner)
        x += 1
        self.assertEqual(owner.tolist(), [2, 3, 4])
        for kind, dtype in (ctypes.c_float, rr.float32), (ctypes.c_int32, rr.int32), (ctypes.c_int64, rr.int64):
            rows = (kind * 2 * 2)((1, 2), (3, 4))
            x = rr.from_buffer(rows)
            self.assertEqual((x.dtype, x.tolist()), (dtype, [[1, 2], [3, 4]]))
        with self.assertRaisesRegex(rr.DTypeError, 'got >f'):
            rr.from_buffer((ctypes.c_float.__ctype_be__ * 2)(1, 2))
        x = rr.from_buffer(owner)
        view = memoryview(rr.tensor([[1, 2], [3, 4]]).transpose(0, 1))
        self.assertEqual((view.format, view.shape, view.tolist()), ('q', (2, 2), [[1, 3], [2, 4]]))
        with self.assertRaises(BufferError):
            rr.from_buffer(b'read only')
        with self.assertRaises(BufferError):
            memoryview(rr.zeros([2], dtype=rr.bfloat16))
        with self.assertRaisesRegex(BufferError, 'initialised'):
            memoryview(rr.Tensor.__new__(rr.Tensor))
        with self.assertRaises(BufferError):
            owner.append(4)  # x looks at this memory
        del x
        owner.append(4)

    def test_a_consumer_that_ignores_strides_gets_contiguous_memory_alone(self):
        rows = rr.tensor([[1.0, 2.0], [3.0, 4.0]])
        out = io.BytesIO()
        self.assertEqual(out.write(rows), 16)
        self.assertEqual(np.frombuffer(out.getvalue(), np.float32).tolist(), [1, 2, 3, 4])
        for part in (rows[:, 1], rows.transpose(0, 1), rr.ones([1]).expand([20])):
            with self.assertRaises(BufferError):
                out.write(part)
            self.assertEqual(memoryview(part).tolist(), part.tolist())

    def test_an_optimizer_leaves_shared_memory_where_it_is(self):
        x = rr.full([1 << 16], 1.0)
        array, view = x.numpy(), memoryview(x)
        x.set_requires_grad()
        nn.SGD([x], learning_rate=0.1)  # others see the parameter, so it does not move
        others = [rr.full([1 << 16], 7.0) for _ in range(4)]
        array[:] = -5
        self.assertEqual((view[0], x[0].item(), {other[0].item() for other in others}), (-5, -5, {7}))

    def test_numpy_takes_tensors_as_arrays(self):
        x = rr.ones([3])
        self.assertEqual(np.asarray(x).sum(), 3)
        self.assertEqual(x.__array__(np.float64).dtype, np.float64)
        self.assertEqual(x.__array__()[0], 1)
        with self.assertRaises(ValueError):
            x.__array__(np.float64, copy=False)
        self.assertEqual(np.concatenate([rr.ones([2]), rr.zeros([1])]).tolist(), [1, 1, 0])
        with self.assertRaises(TypeError):
            np.exp(x)  # would lose the gradient without a word; np.exp(np.asarray(x)) says that it does

    def test_numpy_gets_what_requires_a_gradient_only_after_detach(self):
        x = rr.ones([3], requires_grad=True)
        for name, call in (('asarray', lambda: np.asarray(x)), ('array', lambda: np.array([x])), ('result', lambda: np.asarray(x * 2)),
                           ('numpy', x.numpy), ('from_dlpack', lambda: np.from_dlpack(x))):
            with self.subTest(name), self.assertRaisesRegex(rr.AutogradError, r'detach\(\)'):
                call()
        shared = np.asarray(x.detach())
        shared[0] = 7
        self.assertEqual(x.tolist(), [7, 1, 1])

    def test_a_write_by_another_library_is_found_if_it_is_told(self):
        x = rr.ones([3], requires_grad=True)
        saved = rr.exp(x)
        loss = saved.sum()
        np.asarray(saved.detach())[:] = 0
        saved.mark_changed()
        with self.assertRaises(rr.AutogradError):
            loss.backward()


class LinearAlgebra(unittest.TestCase):
    a = np.random.default_rng(1).random((2, 3, 3)) + np.eye(3)

    def test_agrees_with_numpy(self):
        a, b = self.a, self.a[:, :, :2]
        symmetric = a @ a.transpose(0, 2, 1)
        x, y, s = (rr.tensor(array.copy()) for array in (a, b, symmetric))
        values, vectors = rr.linalg.eigh(s)
        q, r = rr.linalg.qr(x)
        u, singular, vh = rr.linalg.svd(x)
        for name, ours, theirs in (
                ('solve', rr.linalg.solve(x, y), np.linalg.solve(a, b)), ('inv', rr.linalg.inv(x), np.linalg.inv(a)),
                ('det', rr.linalg.det(x), np.linalg.det(a)), ('cholesky', rr.linalg.cholesky(s), np.linalg.cholesky(symmetric)),
                ('slogdet', rr.linalg.slogdet(x).logabsdet, np.linalg.slogdet(a)[1]),
                ('sign', rr.linalg.slogdet(x).sign, np.linalg.slogdet(a)[0]),
                ('lstsq', rr.linalg.lstsq(x[0, :, :2], y[0]), np.linalg.lstsq(a[0, :, :2], b[0], rcond=None)[0]),
                ('eigh', values, np.linalg.eigh(symmetric)[0]), ('vectors', s @ vectors, vectors.numpy() * values.numpy()[:, None]),
                ('qr', q @ r, a), ('svd', (u * singular.unsqueeze(1)) @ vh, a),
                ('singular values', singular, np.linalg.svd(a)[1])):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-9, atol=1e-12, err_msg=name)

    def test_is_differentiable_and_names_the_singular_matrix(self):
        x = rr.tensor([[2.0, 1.0], [1.0, 3.0]]).set_requires_grad()
        rr.linalg.slogdet(x).logabsdet.backward()
        np.testing.assert_allclose(x.grad.tolist(), [[0.6, -0.2], [-0.2, 0.4]], rtol=1e-6)
        with self.assertRaisesRegex(rr.ValueError, '^inv: '):
            rr.linalg.inv(rr.zeros([2, 2]))


if __name__ == '__main__':
    unittest.main()
