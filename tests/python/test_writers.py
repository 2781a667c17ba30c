"""Every function that writes into a tensor refuses a recorded one; the functions are found by their names."""
import array
import unittest

import numpy as np

import ringrad as rr
from ringrad import nn

# What follows the tensor that is written to, by name; a new writer needs a row.
ARGUMENTS = {
    'add_': [1], 'sub_': [1], 'mul_': [2], 'div_': [2], 'copy_': [rr.zeros([2, 2])], 'fill_': [3], 'zero_': [],
    'uniform_': [0, 1], 'normal_': [0, 1], 'exponential_': [], 'bernoulli_': [0.5],
    'kaiming_uniform_': [], 'kaiming_normal_': [], 'xavier_uniform_': [], 'xavier_normal_': [],
}


def writers():
    for module in (rr, nn, getattr(nn, 'init', None)):
        for name in dir(module):
            if name.endswith('_') and not name.endswith('__') and callable(getattr(module, name)) \
                    and not isinstance(getattr(module, name), type):
                yield name, getattr(module, name)


class Writers(unittest.TestCase):
    def test_refuse_recorded_tensors(self):
        found = dict(writers())
        self.assertLessEqual({'add_', 'uniform_', 'kaiming_uniform_'}, found.keys())
        for name, write in found.items():
            with self.subTest(name):
                x = rr.ones([2, 2], requires_grad=True)
                y = x * 2
                for tensor in (y,) if hasattr(nn, name) else (x, y):  # initialisers take leaves
                    with self.assertRaisesRegex(rr.AutogradError, 'while operations are recorded'):
                        write(tensor, *ARGUMENTS[name])
                y.sum().backward()
                self.assertEqual(x.grad.tolist(), [[2, 2], [2, 2]])
                with rr.no_grad():
                    write(x, *ARGUMENTS[name])

    def test_brackets_and_augmented_operators_refuse_recorded_tensors(self):
        y = rr.ones([2, 2], requires_grad=True) * 2
        with self.assertRaises(rr.AutogradError):
            y[0] = 1
        with self.assertRaises(rr.AutogradError):
            y[y > 0] = 1
        with self.assertRaises(rr.AutogradError):
            y += 1


class ForeignMemory(unittest.TestCase):
    def test_truth_values_are_0_and_1(self):
        bad = np.array([1, 255, 0], np.uint8).view(np.bool_)
        for take in (rr.from_dlpack, rr.tensor, rr.from_buffer):
            with self.subTest(take.__name__), self.assertRaisesRegex(rr.DataError, 'the bytes 0 and 1; got 255'):
                take(bad)
        self.assertEqual(rr.from_buffer(np.array([True, False])).tolist(), [True, False])

    def test_memory_is_aligned(self):
        memory = bytearray(9)
        with self.assertRaisesRegex(rr.ValueError, 'must be aligned to its elements of 4 bytes'):
            rr.from_buffer(memoryview(memory)[1:].cast('f'))
        self.assertEqual(rr.from_buffer(array.array('f', [1, 2])).tolist(), [1, 2])


class Numbers(unittest.TestCase):
    def test_integers_of_what_is_none(self):
        for number in (float('nan'), float('inf'), 1e30):
            with self.assertRaisesRegex(rr.ValueError, 'must be in'):
                int(rr.tensor(number))
        self.assertEqual(int(rr.tensor(-2.75)), -2)


if __name__ == '__main__':
    unittest.main()
