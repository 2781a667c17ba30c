"""Makes random programs.

A dry run by PyTorch tells shapes and dtypes. So the same seed and number make the same program only with the same
version of PyTorch and the same list of operators; a program that is to be kept is kept as JSON.
"""
import math
import random
from dataclasses import dataclass, field

import torch

from candidates import ALL, CANDIDATES, FLOATS, LAPACK, NAMES, New, X
from peer import DTYPES, IN_PLACE, IS_OLD, OLD, apply

EXTREMES = [0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan, 1e25, -1e25, 1e-25, 1e38, 1e-38, 300.0, -300.0,
            6e4, 1e-7]
# Largest absolute value in a program of each kind: larger ones would hide the digits of others.
MOST = {'plain': 1e3, 'grid': 1e3, 'offset': 1e7, 'extreme': math.inf}
MOST_ELEMENTS = 400
MOST_DIMS = 6

# In which range new inputs of an operator lie.
DOMAINS = {'log': (0.1, 3), 'sqrt': (0.1, 3), 'rsqrt': (0.1, 3), 'reciprocal': (0.5, 3), 'acos': (-0.9, 0.9),
           'asin': (-0.9, 0.9), 'atanh': (-0.9, 0.9), 'acosh': (1.1, 3), 'log1p': (-0.9, 3), 'tan': (-1.2, 1.2),
           'pow': (0.1, 2), 'pow_number': (0.1, 2), 'number_div': (0.5, 3)}

# Results share memory with the first input: always, or depending on strides, dtype or options.
VIEWS = {'permute', 'transpose', 'slice', 'select', 'brackets', 'unsqueeze', 'split', 'split_sizes', 'chunk', 'expand',
         'diagonal', 'unfold', 'detach'}
PERHAPS_VIEWS = {'reshape', 'flatten', 'squeeze', 'contiguous', 'to', 'to_layout', 'sum_to', 'dropout', 'meshgrid',
                 'einsum', 'brackets_positions'}
# Of a tensor and itself, their derivatives are 0, or what is left by rounding.
CANCELLING = {'div', 'atan2'}
COLLECTIVES = {'all_reduce', 'broadcast', 'all_gather', 'reduce_scatter', 'all_to_all'}
OVERLAPPING = {'expand', 'unfold', 'meshgrid'}


@dataclass
class Memory:
    """What tensors that share memory have in common."""
    perhaps_shared: bool = False  # a view or a copy: nothing is written to it
    recorded: bool = False  # a recorded step read it: later changes would falsify its gradient
    members: list = field(default_factory=list)


@dataclass
class Made:
    value: torch.Tensor
    learns: bool  # has a history or wants a gradient
    is_leaf: bool
    memory: Memory
    overlaps: bool = False


class Maker:
    def __init__(self, seed, number, devices='cpu'):
        self.rng = random.Random(f'{seed} {number}')
        self.number = number
        torch.manual_seed(self.rng.getrandbits(32))  # of random fills in the dry run
        self.on_cpu = devices == 'cpu'
        rng = self.rng
        self.kind = rng.choices(['plain', 'grid', 'extreme', 'offset'], [6, 2, 1, 1])[0]
        self.dtype = rng.choices(FLOATS, [5, 4, 2, 2])[0]
        self.is_mixed = rng.random() < 0.25
        if self.kind == 'offset':  # products of 1000 overflow in float16, and have no digits in bfloat16
            self.dtype, self.is_mixed = rng.choice(('float32', 'float64')), False
        self.inputs, self.steps, self.tensors, self.step_numbers = [], [], [], []

    # -- Inputs --

    def value(self, dtype, low, high, is_finite):
        rng = self.rng
        if dtype == 'bool':
            return float(rng.random() < 0.6)
        if dtype == 'int64':
            return float(rng.randint(-3, 5))
        if self.kind == 'extreme' and not is_finite and rng.random() < 0.2:
            return rng.choice(EXTREMES)
        if self.kind == 'grid':
            return rng.choice([v for v in (-2, -1, -0.5, 0, 0, 0.5, 1, 2) if low is None or low <= v <= high] or [high])
        if low is not None:
            return rng.uniform(low, high)
        return rng.uniform(-2, 2) + (rng.choice([0, 1e3]) if self.kind == 'offset' else 0)

    def shape(self, dims=None):
        rng = self.rng
        dims = rng.choices(range(6), [4, 4, 4, 4, 4, 1])[0] if dims is None else dims
        return [rng.choice([0] + [1, 2, 3, 4 if dims < 5 else 3] * 10) for _ in range(dims)]

    def input(self, new):
        rng = self.rng
        dtype = new.dtype or (rng.choice(ALL) if self.is_mixed else self.dtype)
        values = [self.value(dtype, new.low, new.high, new.is_finite) for _ in range(math.prod(new.shape))]
        x = torch.tensor(values, dtype=torch.float64).reshape(new.shape).to(DTYPES[dtype])
        learns = dtype in FLOATS and (rng.random() < 0.8 if new.learns is None else new.learns)
        order = rng.sample(range(len(new.shape)), len(new.shape)) if rng.random() < 0.4 else list(range(len(new.shape)))
        self.inputs.append({'shape': new.shape, 'dtype': dtype, 'learns': learns,
                            'values': [repr(v) for v in x.double().flatten().tolist()], 'order': order,
                            'gap': rng.choice([1, 1, 1, 2])})
        return self.keep(Made(x, learns, True, Memory()))

    def keep(self, made):
        number = len(self.tensors)
        made.memory.members.append(number)
        self.tensors.append(made)
        return number

    # -- Choices of candidates --

    def made_of(self, x):
        return next(made for made in self.tensors if made.value is x)

    def broadcastable(self, x):
        shape = list(x.shape)[self.rng.randint(0, x.dim()):] if self.rng.random() < 0.3 else list(x.shape)
        return [1 if self.rng.random() < 0.15 else extent for extent in shape]

    def like(self, x):
        """An earlier tensor of x's shape and dtype, or a new one."""
        same = [n for n, t in enumerate(self.tensors) if t.value.shape == x.shape and t.value.dtype == x.dtype]
        return self.rng.choice(same) if same and self.rng.random() < 0.4 else New(list(x.shape), NAMES[x.dtype])

    def operand(self, x, dtypes):
        """An operand of an elementwise operator, of any dtype if this program mixes them."""
        rng = self.rng
        fitting = [n for n, t in enumerate(self.tensors) if NAMES[t.value.dtype] in dtypes
                   and (self.is_mixed or t.value.dtype == x.dtype) and broadcasts(t.value.shape, x.shape)]
        if fitting and rng.random() < 0.5:
            return rng.choice(fitting)
        shape = [] if self.is_mixed and rng.random() < 0.2 else self.broadcastable(x)
        return New(shape, rng.choice(dtypes) if self.is_mixed else NAMES[x.dtype])

    def mask(self, x):
        fitting = [n for n, t in enumerate(self.tensors) if t.value.dtype == torch.bool
                   and broadcasts(t.value.shape, x.shape)]
        return self.rng.choice(fitting) if fitting and self.rng.random() < 0.6 else New(self.broadcastable(x), 'bool')

    def some(self, count):
        return self.rng.sample(range(count), self.rng.randint(0, count)) if count else []

    def axis(self, x):
        return self.rng.randrange(-x.dim(), x.dim())

    def flag(self):
        return self.rng.random() < 0.5

    def pick(self, *choices):
        return self.rng.choice(choices)

    def indices(self, size, count):
        return self.rng.choices(range(size), k=count) if size else []

    # -- Steps --

    def target(self, i):
        """True if an operator in place may change tensor i; None if only without being recorded."""
        made = self.tensors[i]
        if made.memory.perhaps_shared or made.memory.recorded or made.overlaps:
            return False
        return None if made.learns and made.is_leaf else not made.learns

    def add_step(self, name, i):
        """Adds a step on tensor i, unless its result would not suit this program."""
        dtypes, candidate = CANDIDATES[name]
        x = None if i is None else self.tensors[i].value
        if (x is None) != (dtypes is None) or (x is not None and NAMES[x.dtype] not in dtypes):
            return False
        is_recorded = True
        if name in IN_PLACE:
            may = self.target(i)
            if may is False:
                return False
            is_recorded = may is not None
        found = candidate(self, x)
        if not found:
            return False
        given, arguments = found
        kept = len(self.inputs), len(self.tensors)
        domain = DOMAINS.get(name, (None, None))
        numbers = []
        for g in given:
            if isinstance(g, New):
                g = self.input(New(g.shape, g.dtype, *domain, g.learns, g.is_finite) if g.low is None else g)
            numbers.append(i if g is X else g)
        if name in CANCELLING and numbers[0] == numbers[1]:
            return self.undo(kept)
        step = {'op': name, 'in': numbers, 'with': arguments, 'recorded': is_recorded}
        if name in IN_PLACE and any(self.tensors[n].learns for n in numbers[1:]):
            return self.undo(kept)
        values = [self.tensors[n].value for n in numbers]
        before = x.clone() if name in IN_PLACE else None
        try:
            y = apply(step, values)
        except (RuntimeError, IndexError, ValueError, TypeError):
            y = None
        if y is None or not self.suits(y):
            if before is not None:
                x.copy_(before)
            return self.undo(kept)
        self.record(step, numbers, y)
        return True

    def undo(self, kept):
        for made in self.tensors[kept[1]:]:
            made.memory.members.pop()
        del self.inputs[kept[0]:], self.tensors[kept[1]:]
        return False

    def suits(self, y):
        if y.numel() > MOST_ELEMENTS or y.dim() > MOST_DIMS or y.dtype not in NAMES:
            return False
        if self.kind == 'extreme' or not y.dtype.is_floating_point:
            return True
        return bool(y.isfinite().all()) and (y.numel() == 0 or y.abs().max().item() <= MOST[self.kind])

    def record(self, step, numbers, y):
        name = step['op']
        first = self.tensors[numbers[0]] if numbers else None
        read = [self.tensors[n] for n in numbers]
        learns = step['recorded'] and y.dtype.is_floating_point and any(t.learns for t in read) and name not in (
            'detach', 'jacobian', 'hessian', 'jvp', 'zeros_like', 'ones_like', 'full_like', *COLLECTIVES)
        if any(t.learns for t in read) and name not in IN_PLACE:
            for t in read:
                t.memory.recorded = True
        shares = name in VIEWS or name in PERHAPS_VIEWS or name in IN_PLACE
        made = Made(y, learns, False, first.memory if shares else Memory())
        if shares:
            made.overlaps = first.overlaps or name in OVERLAPPING
            if name in PERHAPS_VIEWS:
                for t in read:
                    t.memory.perhaps_shared = True
            if name in IN_PLACE:
                made.learns, made.is_leaf = first.learns, first.is_leaf
        self.steps.append(step)
        self.step_numbers.append(self.keep(made))

    def fresh(self, name, shape):
        """A new input for an operator."""
        dtypes = CANDIDATES[name][0]
        dtype = self.dtype if self.dtype in dtypes and not self.is_mixed else self.rng.choice(dtypes)
        learns = False if name in IN_PLACE and self.flag() else None
        return self.input(New(shape, dtype, *DOMAINS.get(name, (None, None)), learns))

    def start(self, name):
        """A first step by the wanted operator, on an input that suits it."""
        for attempt in range(300):
            if attempt == 200:  # some operators leave out other kinds
                self.kind = 'plain'
            kept = len(self.inputs), len(self.tensors)
            if self.add_step(name, None if CANDIDATES[name][0] is None else self.fresh(name, self.shape(attempt % 6))):
                return True
            self.undo(kept)
        return False

    def program(self):
        names = [name for name in CANDIDATES if not (IS_OLD and name in OLD)]
        if not self.on_cpu:
            names = [name for name in names if CANDIDATES[name][0] != LAPACK and name not in COLLECTIVES]
        rng = self.rng
        length = rng.randint(3, 8 if self.kind == 'extreme' else 30)
        self.start(names[self.number % len(names)])
        if not self.steps:
            self.input(New(self.shape(), self.dtype, learns=True))
        for _ in range(40 * length):
            if len(self.steps) >= length:
                break
            name = rng.choice(names)
            last = len(self.tensors) - 1
            i = last if rng.random() < 0.5 else rng.randint(0, last)
            if CANDIDATES[name][0] is None:
                if rng.random() < 0.8:
                    continue
                i = None
            elif rng.random() < 0.15:
                i = self.fresh(name, self.shape())
            kept = len(self.inputs), len(self.tensors)
            if self.add_step(name, i):
                self.look_at_relatives()
            elif i == kept[1] - 1 and i > last:
                self.undo((kept[0] - 1, kept[1] - 1))
        return self.written()

    def look_at_relatives(self):
        """After a change in place, a step often reads another tensor in the same memory."""
        if self.steps[-1]['op'] not in IN_PLACE or self.rng.random() < 0.3:
            return
        members = self.tensors[-1].memory.members
        self.add_step('clone', self.rng.choice(members))

    def written(self):
        """The program with all inputs before all steps, and the results that no step takes as sinks."""
        order = [n for n in range(len(self.tensors)) if n not in set(self.step_numbers)] + self.step_numbers
        place = {n: p for p, n in enumerate(order)}
        steps = [dict(step, **{'in': [place[n] for n in step['in']]}) for step in self.steps]
        used = {n for step in self.steps for n in step['in']}
        sinks = [place[n] for n in self.step_numbers if self.tensors[n].learns and n not in used]
        has_checkpoint = any(step['op'] == 'checkpoint' for step in steps)
        return {'kind': self.kind, 'inputs': self.inputs, 'steps': steps, 'sinks': sinks, 'checkpoint': has_checkpoint}


def broadcasts(shape, to):
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(to)))
