#!/usr/bin/env python3
"""Functions whose gradient is written in Python."""
import gc
import unittest
import weakref

import ringrad as rr


def cube(x):
    with rr.no_grad():
        y = x * x * x
    return rr.record('cube', y, [x], lambda grad, x: grad * 3 * x * x, saved=[x])


class FunctionTest(unittest.TestCase):
    def test_the_gradient_is_what_backward_returns(self):
        x = rr.tensor([1.0, -2.0], requires_grad=True)
        cube(x).sum().backward()
        self.assertEqual(x.grad.tolist(), [3, 12])
        self.assertFalse(cube(x.detach()).requires_grad)
        self.assertEqual(rr.gradient_check(lambda inputs: cube(inputs[0]), [rr.tensor([1.0, -2.0], rr.float64, requires_grad=True)]),
                         '')

    def test_it_can_be_differentiated_again(self):
        x = rr.tensor([1.0, -2.0], rr.float64, requires_grad=True)
        self.assertEqual(rr.gradient_gradient_check(lambda inputs: cube(inputs[0]), [x]), '')

    def test_several_inputs_get_a_gradient_each_or_none(self):
        def scaled(x, factor, unused):
            with rr.no_grad():
                y = x * factor
            return rr.record('scaled', y, [x, factor, unused], lambda grad, x, f: (grad * f, grad * x, None), [x, factor])

        x, factor, unused = (rr.tensor([value], requires_grad=True) for value in (2.0, 5.0, 7.0))
        scaled(x, factor, unused).backward()
        self.assertEqual([x.grad.item(), factor.grad.item(), unused.grad], [5, 2, None])

    def test_the_result_may_be_saved(self):
        x = rr.tensor([0.5], requires_grad=True)
        with rr.no_grad():
            y = rr.exp(x)
        y = rr.record('exp', y, [x], lambda grad, y: grad * y, saved=[y])
        y.backward()
        self.assertEqual(x.grad.tolist(), y.tolist())

    def test_mistakes_are_named(self):
        x = rr.tensor([1.0, 2.0], requires_grad=True)
        with self.assertRaisesRegex(rr.AutogradError, 'under no_grad'):
            rr.record('twice', x * 2, [x], lambda grad: grad * 2)
        with rr.no_grad():
            plain = x * 2
        with self.assertRaisesRegex(rr.ValueError, 'got an input'):
            rr.record('same', plain, [x, plain], lambda grad: grad)
        for backward, error, text in (
                (lambda grad: 'grad', rr.DTypeError, 'record: what .* returns must be a Tensor or None; got str'),
                (lambda grad: [grad, grad], rr.ValueError, 'each of 1 inputs; got 2'),
                (lambda grad: rr.zeros(3), rr.ShapeError, 'twice: the gradient of input 0'),
                (lambda grad, more: grad, TypeError, "missing 1 required positional argument: 'more'"),
                (lambda grad: 1 / 0, ZeroDivisionError, 'division')):
            with self.assertRaisesRegex(error, text):
                rr.record('twice', plain.clone(), [x], backward).sum().backward()

        two = rr.record('product', (x.detach() * 2).clone(), [x, rr.ones(2, requires_grad=True)], lambda grad: grad)
        with self.assertRaisesRegex(rr.DTypeError, 'a list of Tensors and None, one per input; got ringrad.Tensor'):
            two.sum().backward()
        with self.assertRaisesRegex(rr.DTypeError, 'floating dtype; got int64'):
            rr.record('count', rr.tensor([1, 2]), [x], lambda grad: grad)

    def test_what_is_saved_must_not_change(self):
        x = rr.tensor([1.0], requires_grad=True)
        kept = x.detach().clone()
        with rr.no_grad():
            y = x * kept
        y = rr.record('times', y, [x], lambda grad, kept: grad * kept, saved=[kept])
        kept += 1
        with self.assertRaisesRegex(rr.AutogradError, 'must not change before backward'):
            y.backward()

    def test_a_function_that_holds_its_result_ends_with_it(self):
        class Note:
            pass

        def result():
            note = Note()
            x = rr.tensor([1.0], requires_grad=True)
            with rr.no_grad():
                y = x * 2
            y = rr.record('twice', y, [x], lambda grad: (note, y, grad * 2)[-1])
            y.backward(retain_graph=True)
            return weakref.ref(note)

        note = result()
        gc.collect()
        self.assertIsNone(note())


if __name__ == '__main__':
    unittest.main()
