"""Modules in Python: their state, modules of one's own, optimizers and files."""
import gc
import tempfile
import unittest
import weakref
from pathlib import Path

import numpy as np

import ringrad as rr
from ringrad import nn

try:
    from safetensors import numpy as safetensors
except ImportError:
    safetensors = None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(2, 8)
        self.output = nn.Linear(8, 1)
        self.scale = self.parameter('scale', rr.ones([1]))

    def forward(self, x):
        return self.output(rr.tanh(self.hidden(x))) * self.scale

    def describe(self):
        return 'Net of two layers'


def train(net, steps, optimizer=None):
    rr.manual_seed(3)
    optimizer = optimizer or nn.Adam(net.parameters(), learning_rate=0.02)
    x = rr.randn([64, 2])
    y = x[:, :1] * x[:, 1:]
    for _ in range(steps):
        optimizer.zero_grad()
        loss = rr.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


class Modules(unittest.TestCase):
    def test_a_module_of_ones_own_has_its_members_parameters_and_trains(self):
        net = Net()
        self.assertEqual([name for name, _ in net.named_parameters()],
                         ['scale', 'hidden.weight', 'hidden.bias', 'output.weight', 'output.bias'])
        self.assertEqual(net.num_parameters(), 2 * 8 + 8 + 8 + 1 + 1)
        self.assertEqual(str(net).splitlines()[0], 'Net of two layers')
        first = train(net, 1)
        self.assertLess(train(net, 300), first / 10)

    def test_a_module_of_ones_own_is_a_layer(self):
        net = nn.Sequential(nn.Linear(2, 2), Net())
        gc.collect()
        self.assertEqual(net(rr.ones([5, 2])).shape, (5, 1))
        self.assertIsInstance(net[1], Net)
        self.assertEqual(len(net), 2)
        with self.assertRaises(IndexError):
            net[2]

    def test_a_layer_that_is_in_no_list_is_an_error(self):
        class Hidden(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(2, 2)]

            def forward(self, x):
                return self.layers[0](x)

        with self.assertRaisesRegex(rr.ValueError, 'regist.* in Python as self.fc = '):
            Hidden()(rr.ones([1, 2]))

    def test_a_list_or_a_dictionary_of_modules_registers_them(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))
                self.heads = nn.ModuleDict({'mean': nn.Linear(2, 1)})
                self.heads['deviation'] = nn.Linear(2, 1)

            def forward(self, x):
                for block in self.blocks:
                    x = rr.relu(block(x))
                return rr.concatenate([head(x) for _, head in self.heads.items()], 1)

        net = Net()
        self.assertEqual([name for name, _ in net.named_parameters()],
                         [f'{module}.{name}' for module in ('blocks.0', 'blocks.1', 'heads.mean', 'heads.deviation')
                          for name in ('weight', 'bias')])
        net(rr.ones(3, 2)).sum().backward()
        added = nn.Linear(2, 2)
        net.blocks.append(added)
        self.assertIs(net.blocks[-1], added)
        self.assertEqual([len(net.blocks), len(net.heads), list(net.heads), 'mean' in net.heads, 'scale' in net.heads],
                         [3, 2, ['mean', 'deviation'], True, False])
        for error, text, call in ((rr.IndexError, 'below 3; got 3', lambda: net.blocks[3]),
                                  (rr.ValueError, 'got "scale"', lambda: net.heads['scale']),
                                  (rr.ValueError, 'mean', lambda: net.heads.__setitem__('mean', nn.Linear(2, 1))),
                                  (rr.DTypeError, 'ModuleList: .* got int', lambda: nn.ModuleList([1])),
                                  (rr.DTypeError, 'ModuleDict: .* got NoneType', lambda: nn.ModuleDict({'a': None})),
                                  (rr.DTypeError, 'a name must be a str; got int', lambda: nn.ModuleDict({1: added})),
                                  (rr.ValueError, 'ModuleList', lambda: net.blocks(rr.ones(2)))):
            with self.assertRaisesRegex(error, text):
                call()

    def test_what_would_train_or_save_something_else_is_an_error(self):
        net = Net()
        for call, text in ((lambda: setattr(net, 'me', net), 'circle'), (lambda: setattr(net, 'hidden', None), 'must stay'),
                           (lambda: setattr(net, 'hidden', nn.Linear(1, 1)), 'must stay'), (lambda: delattr(net, 'hidden'), 'must stay'),
                           (lambda: setattr(net, 'gain', rr.ones([2], requires_grad=True)), r'self.parameter\("gain"')):
            with self.assertRaisesRegex(rr.ValueError, text):
                call()
        net.gain = net.parameter('gain', rr.ones([2]))
        net.cache = None
        self.assertIn('gain', dict(net.named_parameters()))
        for base in (nn.Linear, nn.Sequential):
            with self.assertRaises(TypeError):
                type('Derived', (base,), {})
        for layer in (None, 1, [nn.ReLU()]):
            with self.assertRaisesRegex(rr.DTypeError, 'must be a Module'):
                nn.Sequential(layer)

    def test_forward_may_call_its_module_and_must_be_there(self):
        class Halves(nn.Module):
            def forward(self, x):
                return x if x.numel() == 1 else self(x[:x.size(0) // 2])

        class Without(nn.Module):
            pass

        class Above(nn.Module):
            def forward(self, x):
                return super().forward(x)

        class Wrong(nn.Module):
            def forward(self, x):
                return 1.0

        class Early(nn.Module):
            def __init__(self):
                self.layer = nn.ReLU()

        self.assertEqual(Halves()(rr.arange(8)).tolist(), [0])
        for make, error, text in ((Without, rr.ValueError, 'must define forward'), (Above, rr.ValueError, 'must define forward'),
                                  (Wrong, rr.DTypeError, 'Wrong.forward: it must return a Tensor; got float'),
                                  (Early, rr.ValueError, 'super')):
            with self.assertRaisesRegex(error, text):
                make()(rr.ones([1]))

    def test_an_exception_of_forward_comes_through_cpp(self):
        class Failing(nn.Module):
            def forward(self, x):
                raise KeyError('mine')

        with self.assertRaisesRegex(KeyError, 'mine'):
            nn.Sequential(nn.ReLU(), Failing())(rr.ones([1]))
        with self.assertRaisesRegex(rr.ShapeError, 'in layer 1 '):
            nn.Sequential(nn.ReLU(), nn.Linear(3, 1))(rr.ones([1, 2]))

    def test_state_goes_from_one_module_to_another(self):
        one, two = Net(), Net()
        train(one, 5)
        two.load_state_dict(one.state_dict())
        x = rr.randn([4, 2])
        self.assertEqual(one(x).tolist(), two(x).tolist())
        with self.assertRaisesRegex(ValueError, 'hidden.weight'):
            two.load_state_dict({})

    def test_batch_norm_and_dropout_have_modes(self):
        net = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
        x = rr.randn([100, 3])
        self.assertNotEqual(net(x).tolist(), net(x).tolist())
        net.eval()
        self.assertFalse(net.training)
        self.assertEqual(net(x).tolist(), net(x).tolist())
        self.assertEqual(len(net.named_buffers()), 2)

    def test_an_optimizer_continues_from_its_state(self):
        one, two = Net(), Net()
        two.load_state_dict(one.state_dict())
        first, second = (nn.AdamW(net.parameters(), learning_rate=0.1) for net in (one, two))
        train(one, 5, first)
        two.load_state_dict(one.state_dict())
        second.load_state_dict({name: value.clone() for name, value in first.state_dict().items()})
        self.assertEqual(train(one, 5, first), train(two, 5, second))
        first.learning_rate = 0.5
        self.assertEqual(first.learning_rate, 0.5)
        with self.assertRaises(ValueError):
            first.learning_rate = -1

    def test_arrays_of_parameters_see_training(self):
        net = Net()
        weight = net.parameters()[0]
        before, view = weight.detach().numpy(), weight.detach()
        theirs = np.ones((1, 2), np.float32)
        shared = rr.from_dlpack(theirs).set_requires_grad()
        optimizer = nn.SGD([*net.parameters(), shared], learning_rate=0.1)
        head = nn.SGD(net.parameters()[-1:], learning_rate=0.1)  # a second one of the same memory
        old = before.copy()
        train(net, 2, optimizer)
        (shared * shared).sum().backward()
        optimizer.step()
        head.step()
        self.assertFalse(np.array_equal(before, old))
        np.testing.assert_array_equal(before, weight.detach().numpy())
        np.testing.assert_array_equal(view.numpy(), before)
        np.testing.assert_array_equal(theirs, shared.detach().numpy())
        self.assertLess(theirs[0, 0], 1)

    def test_gradients_are_clipped(self):
        net = Net()
        optimizer = nn.SGD(net.parameters(), learning_rate=0)
        train(net, 1, optimizer)
        norm = optimizer.clip_grad_norm(0.01)
        self.assertGreater(norm, 0.01)
        self.assertAlmostEqual(sum((p.grad * p.grad).sum().item() for p in net.parameters()) ** 0.5, 0.01, places=6)

    @unittest.skipUnless(safetensors, 'the reference reader, safetensors, is not installed')
    def test_files_are_those_of_the_reference(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, 'net.safetensors'))
            net = Net()
            nn.write_tensors(path, net.state_dict())
            theirs = safetensors.load_file(path)
            self.assertEqual(theirs.keys(), net.state_dict().keys())
            for name, value in net.state_dict().items():
                np.testing.assert_array_equal(theirs[name], np.asarray(value.detach()))
            safetensors.save_file({'a': np.arange(6, dtype=np.int64).reshape(2, 3)}, path)
            self.assertEqual(nn.read_safetensors(path)['a'].tolist(), [[0, 1, 2], [3, 4, 5]])

    def test_a_generator_keeps_its_model(self):
        class Same(nn.Module):
            def forward(self, x):
                return x

        net = nn.gpt(vocabulary=5, context=8, width=8, heads=2, layers=1)
        net.append(Same())
        tokens = rr.tensor([[1, 2, 3]])
        net.eval()
        logits = net(tokens)[:, -1].tolist()
        ended = weakref.ref(net[len(net) - 1])
        generator = nn.GPTGenerator(net)
        del net
        gc.collect()
        self.assertIsNotNone(ended())
        np.testing.assert_allclose(generator.next(tokens).tolist(), logits, atol=1e-5)
        del generator
        self.assertIsNone(ended())

    def test_a_hook_of_a_parameter_that_refers_to_the_module_ends_with_it(self):
        class Logged(nn.Module):
            def __init__(self):
                super().__init__()
                self.seen = []
                self.scale = self.parameter('scale', rr.ones([1]))
                self.scale.register_hook(lambda grad: self.seen.append(grad.item()))

            def forward(self, x):
                return x * self.scale

        for hold in (lambda net: net.scale, lambda net: net.parameters()[0], lambda net: net(rr.ones([1]))):
            net = Logged()
            net(rr.full([1], 2.0)).backward()
            self.assertEqual(net.seen, [2])
            held, ended = hold(net), weakref.ref(net)
            del net
            gc.collect()
            self.assertIsNotNone(ended())  # the hook can still be called
            (held * 3).backward()
            self.assertEqual(ended().seen, [2, 3])
            del held
            gc.collect()
            self.assertIsNone(ended())

    def test_models_and_schedules_are_there(self):
        net = nn.make_model('mlp', nn.ImageTask(height=4, width=4, classes=3))
        self.assertEqual(net(rr.zeros([2, 1, 4, 4])).shape, (2, 3))
        rate = nn.cosine(1.0, 10)
        self.assertEqual((rate(0), round(rate(10), 9)), (1, 0))
        with self.assertRaises(rr.ValueError):
            nn.make_model('unknown')



class Training(unittest.TestCase):
    def test_lbfgs_calls_a_function_of_python_until_the_loss_is_least(self):
        w = rr.tensor([-1.2, 1.0]).set_requires_grad()

        def rosenbrock():
            return rr.square(1 - w[0]) + 100 * rr.square(w[1] - rr.square(w[0]))

        optimizer = nn.LBFGS([w])
        for _ in range(5):
            optimizer.step(rosenbrock)
        np.testing.assert_allclose(w.detach().numpy(), [1, 1], atol=1e-3)

    def test_an_exception_in_the_loss_of_lbfgs_is_the_callers(self):
        with self.assertRaisesRegex(KeyError, 'mine'):
            nn.LBFGS([rr.ones([1], requires_grad=True)]).step(lambda: {}['mine'])

    def test_averaged_weights_are_the_modules_within_a_with_block(self):
        net = nn.Linear(1, 1)
        net.load_state_dict({'weight': rr.zeros([1, 1]), 'bias': rr.zeros([1])})
        average = nn.ExponentialMovingAverage(net, decay=0.5)
        net.load_state_dict({'weight': rr.ones([1, 1]), 'bias': rr.zeros([1])})
        average.update()
        with average.applied():
            self.assertEqual(net.weight.item(), 0.5)
        self.assertEqual(net.weight.item(), 1)

    def test_a_plateau_is_called_with_each_epochs_loss(self):
        rate = nn.Plateau(0.1, patience=1, factor=0.5)
        self.assertEqual([rate(loss) for loss in (1.0, 1.0, 1.0)], [0.1, 0.1, 0.05])

    def test_a_scaler_skips_a_step_whose_gradients_overflow(self):
        w = rr.ones([1], requires_grad=True)
        optimizer, scaler = nn.SGD([w], learning_rate=1.0), nn.GradScaler(initial_scale=4.0)
        scaler.scale(rr.sum(w)).backward()
        self.assertTrue(scaler.step(optimizer))
        self.assertEqual(w.item(), 0)
        scaler.scale(rr.sum(w * float('inf'))).backward()
        self.assertFalse(scaler.step(optimizer))
        scaler.update()
        self.assertEqual((w.item(), scaler.scale()), (0, 2))

    def test_a_notebook_shows_a_loss_curve(self):
        curve = nn.LossCurve('Spirals')
        for step in range(10):
            curve.add('training', step, 1 / (step + 1))
        self.assertIn('<svg', curve._repr_svg_())
        self.assertEqual(curve.svg(), curve._repr_svg_())


if __name__ == '__main__':
    unittest.main()
