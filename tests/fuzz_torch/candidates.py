"""CANDIDATES says, for each operator, which dtypes it takes, and which inputs and arguments suit a tensor x.

A candidate is a function of (maker, x) that returns a list of inputs and the arguments, or None if x
does not suit. An input is X itself, the number of an earlier tensor, or a New one. Operators that
need no tensor have no dtypes, and get None for x.
"""
import math
from dataclasses import dataclass

import torch

from peer import DTYPES, brackets_of

FLOATS = ('float32', 'float64', 'float16', 'bfloat16')
NUMBERS = (*FLOATS, 'int64')
ALL = (*NUMBERS, 'bool')
WIDE = ('float32', 'float64', 'bfloat16')  # of composed losses whose intermediate steps overflow in float16
BITS = ('int64', 'bool')
LAPACK = ('float32', 'float64')
NAMES = {dtype: name for name, dtype in DTYPES.items()}
X = 'x'  # the tensor that a candidate works on, in its list of inputs


@dataclass
class New:
    """An input to be made: like x unless it says otherwise."""
    shape: list
    dtype: str = None
    low: float = None
    high: float = None
    learns: bool = None
    is_finite: bool = False


def has_squares(x):
    """True if float32 holds the squares: ours adds them there."""
    size = x[x != 0].double().abs()
    return size.numel() == 0 or not bool(((size > 1e15) & size.isfinite()).any() | (size < 1e-15).any())


# --- Each element by itself ---


def plain(m, x):
    return [X], {}


def with_axis(m, x):
    return ([X], {'axis': m.axis(x)}) if x.dim() else None


def pair(dtypes):
    def candidate(m, x):
        other = m.operand(x, dtypes)
        return [X, other] if m.flag() else [other, X], {}
    return candidate


def integer_pair(m, x):
    """A pair whose second one is not 0, if both are integers: ours gives 0, PyTorch throws."""
    other = m.operand(x, NUMBERS)
    divisor = m.tensors[other].value if isinstance(other, int) else None
    if not x.dtype.is_floating_point and (divisor is None or (divisor == 0).any()):
        return None
    return [X, other], {}


def power(m, x):
    """An integer to the power of integers that are not negative.

    Where x is negative, the derivative by the exponent is NaN, and PyTorch hides some of these.
    """
    other = m.operand(x, NUMBERS)
    if bool((x < 0).any()) and (isinstance(other, New) or m.tensors[other].learns):
        return None
    if not x.dtype.is_floating_point and (isinstance(other, New) or (m.tensors[other].value < 0).any()):
        return None
    return [X, other], {}


def with_number(m, x):
    if not x.dtype.is_floating_point:
        return [X], {'number': m.pick(1, 2, 3, 0.5)}
    return [X], {'number': m.pick(0, 1, 2, 3, -1, 0.5, -1.5, 2.25, 0.1)}


def divided_by_number(m, x):
    return [X], {'number': m.pick(1, 2, 3, -2) if not x.dtype.is_floating_point else m.pick(0.5, -1.5, 3, 0.1)}


def fill(m, x):
    return [X], {'number': m.flag() if x.dtype == torch.bool else m.pick(0, 1, 3)
                 if not x.dtype.is_floating_point else m.pick(0, 0.5, -1.5)}


def clamp(m, x):
    if not x.dtype.is_floating_point:
        return [X], {'low': m.pick(-1, 0), 'high': m.pick(0, 2)}
    return [X], {'low': m.pick(-1, -0.5, 0), 'high': m.pick(0, 0.5, 1)}


def softplus(m, x):
    return [X], {'beta': m.pick(1, 2, 0.5), 'threshold': m.pick(20, 1)}


def dropout(m, x):
    """Without chance. (With p = 1, PyTorch multiplies the gradient by 0, and ours drops it, even if it is NaN.)"""
    return [X], m.pick({'p': 0, 'training': True}, {'p': 0.5, 'training': False})


def lerp(m, x):
    return [X, m.like(x), New(m.broadcastable(x), NAMES[x.dtype])], {}


def lerp_number(m, x):
    return [X, m.like(x)], {'number': m.pick(0.25, 0.5, 0.9, -1)}


def where(m, x):
    return [m.mask(x), X, m.operand(x, ALL)], {}


def relu_gradient(m, x):
    return [X, m.like(x)], {}


# Makers

def made(m, dtypes=ALL):
    return m.rng.choice(dtypes) if m.is_mixed else m.dtype


def shaped(m, x):
    return [], {'shape': m.shape(), 'dtype': made(m)}


def full(m, x):
    dtype = made(m)
    return [], {'shape': m.shape(), 'dtype': dtype, 'number': m.pick(0, 1) if dtype in BITS else m.pick(0.5, -2, 1)}


def arange(m, x):
    return [], m.pick({'start': 0, 'end': m.rng.randint(0, 6), 'step': 1}, {'start': 5, 'end': -3, 'step': -2},
                      {'start': -1.0, 'end': 2.0, 'step': 0.4})


def linspace(m, x):
    return [], {'start': m.pick(0, -1, 0.3), 'end': m.pick(2, 1.5, -1), 'steps': m.rng.randint(0, 7),
                'dtype': made(m, FLOATS)}


def logspace(m, x):
    return [], dict(linspace(m, x)[1], base=m.pick(2, 10))


def eye(m, x):
    return [], {'n': m.rng.randint(0, 5), 'dtype': made(m)}


def one_hot(m, x):
    shape = m.shape(m.rng.randint(0, 2))
    return [], {'shape': shape, 'indices': m.indices(4, math.prod(shape)), 'classes': m.rng.randint(4, 6)}


# Views and copies

def reshape(m, x):
    shapes = [[x.numel()], [1, x.numel()], list(x.shape)[::-1], [2, -1], [-1, 2]]
    return [X], {'shape': m.rng.choice(shapes if x.numel() else shapes[:2])}


def flatten(m, x):
    if x.dim() == 0:
        return [X], {'first': 0, 'last': -1}
    first = m.rng.randrange(x.dim())
    return [X], {'first': first, 'last': m.rng.randrange(first, x.dim())}


def permute(m, x):
    return [X], {'order': m.rng.sample(range(x.dim()), x.dim())}


def two_axes(m, x):
    return ([X], {'axis0': m.axis(x), 'axis1': m.axis(x)}) if x.dim() else None


def sliced(m, x):
    if x.dim() == 0:
        return None
    axis = m.axis(x)
    size = x.shape[axis]
    return [X], {'axis': axis, 'start': m.rng.randint(-size, size), 'end': m.rng.randint(-size, size + 2),
                 'step': m.rng.randint(1, 2)}


def select(m, x):
    axis = m.axis(x) if x.dim() else None
    if axis is None or x.shape[axis] == 0:
        return None
    return [X], {'axis': axis, 'index': m.rng.randrange(-x.shape[axis], x.shape[axis])}


def bracket_list(m, x):
    """Indices of x[...] without tensors."""
    result = []
    for axis in range(m.rng.randint(0, x.dim())):
        size = x.shape[axis]
        kind = m.pick('position', 'slice', 'slice', 'new_axis', 'ellipsis')
        if kind == 'position' and size:
            result.append([kind, m.rng.randrange(-size, size)])
        elif kind == 'slice':
            result.append([kind, m.rng.randint(0, size), m.rng.randint(0, size + 1), m.rng.randint(1, 2)])
        elif kind == 'new_axis':
            result.append([kind])
            result.append(['slice', 0, size, 1])
        else:
            return result + [['ellipsis']]
    return result


def brackets(m, x):
    return [X], {'list': bracket_list(m, x)}


def unsqueeze(m, x):
    return [X], {'axis': m.rng.randrange(-x.dim() - 1, x.dim() + 1)}


def squeeze(m, x):
    return [X], {'axes': m.some(x.dim())}


def pieces(name, number_of):
    """One of several pieces along an axis."""
    def candidate(m, x):
        if x.dim() == 0:
            return None
        axis = m.axis(x)
        size = x.shape[axis]
        value = m.rng.randint(1, 3)
        count = max(1, number_of(size, value))
        return [X], {name: value, 'axis': axis, 'piece': m.rng.randrange(count)}
    return candidate


def split_sizes(m, x):
    if x.dim() == 0:
        return None
    axis = m.axis(x)
    size = x.shape[axis]
    cut = m.rng.randint(0, size)
    return [X], {'sizes': [cut, size - cut], 'axis': axis, 'piece': m.rng.randrange(2)}


def expand(m, x):
    return [X], {'shape': m.shape(m.rng.randint(0, 1)) + [3 if e == 1 else e for e in x.shape]}


def diagonal(m, x):
    if x.dim() < 2:
        return None
    axis0, axis1 = m.rng.sample(range(x.dim()), 2)
    return [X], {'offset': m.rng.randint(-2, 2), 'axis0': axis0, 'axis1': axis1}


def unfold(m, x):
    if x.dim() == 0:
        return None
    axis = m.axis(x)
    return [X], {'axis': axis, 'size': m.rng.randint(0, x.shape[axis]), 'step': m.rng.randint(1, 3)}


def meshgrid(m, x):
    if x.dim() > 1:
        return None
    others = [New(m.shape(m.rng.randint(0, 1)), NAMES[x.dtype]) for _ in range(m.rng.randint(0, 2))]
    return [X, *others], {'xy': m.flag(), 'piece': m.rng.randint(0, len(others))}


def to(m, x):
    dtype = m.rng.choice(ALL)
    small = not x.dtype.is_floating_point or bool((x.abs() < 1e6).all())
    return ([X], {'dtype': dtype}) if dtype != 'int64' or small else None


def to_layout(m, x):
    return plain(m, x) if x.dim() == 4 else None


def concatenate(m, x):
    if x.dim() == 0:
        return None
    axis, others = m.axis(x), []
    for _ in range(m.rng.randint(1, 2)):
        shape = list(x.shape)
        shape[axis] = m.rng.randint(0, 3)
        others.append(New(shape, NAMES[x.dtype]))
    return [*others, X] if m.flag() else [X, *others], {'axis': axis}


def stack(m, x):
    return [X] + [m.like(x) for _ in range(m.rng.randint(0, 2))], {'axis': m.rng.randrange(-x.dim() - 1, x.dim() + 1)}


def sum_to(m, x):
    return [X], {'shape': m.broadcastable(x)}


def brackets_backwards(m, x):
    return ([X], {'step': m.rng.randint(1, 3)}) if x.dim() else None


def triangle(m, x):
    return ([X], {'offset': m.rng.randint(-3, 3)}) if x.dim() >= 2 else None


def flip(m, x):
    return [X], {'axes': m.some(x.dim())}


def roll(m, x):
    axes = m.some(x.dim())
    return [X], {'axes': axes, 'shifts': [m.rng.randint(-6, 6) for _ in axes or [0]]}


def pad(m, x):
    mode = m.pick('constant', 'constant', 'reflect', 'replicate') if x.dtype.is_floating_point else 'constant'
    if x.dim() == 0 or (mode != 'constant' and x.numel() == 0):
        return None
    most = min(x.shape[-1] - 1 if mode == 'reflect' else 3, 3)
    return [X], {'mode': mode, 'amounts': [m.rng.randint(0, most), m.rng.randint(0, most)], **fill(m, x)[1]}


def repeat(m, x):
    return [X], {'counts': [m.pick(1, 1, 2, 3) for _ in range(x.dim() + m.rng.randint(0, 1))]}


def tile(m, x):
    return [X], {'counts': [m.pick(1, 2, 3) for _ in range(m.rng.randint(0, x.dim() + 1))]}


def repeat_interleave(m, x):
    return ([X], {'axis': m.axis(x), 'count': m.rng.randint(0, 3)}) if x.dim() else None


def repeat_interleave_each(m, x):
    if x.dim() == 0:
        return None
    axis = m.axis(x)
    return [X], {'axis': axis, 'indices': [m.rng.randint(0, 2) for _ in range(x.shape[axis])]}


# In place: other operands have no history

def in_place(m, x):
    return [X, New(m.broadcastable(x), NAMES[x.dtype], learns=False)], {}


def add_in_place(m, x):
    return in_place(m, x)[0], {'alpha': m.pick(1, 2, -1)}


def copy_in_place(m, x):
    dtype = m.rng.choice(FLOATS if x.dtype.is_floating_point else ALL) if m.is_mixed else NAMES[x.dtype]
    if dtype in FLOATS and not x.dtype.is_floating_point and m.kind == 'extreme':
        return None
    return [X, New(m.broadcastable(x), dtype, learns=False)], {}


def assign(m, x):
    where_to = bracket_list(m, x)
    shape = list(x[brackets_of({'list': where_to})].shape)
    return [X, New(shape, NAMES[x.dtype], learns=False)], {'list': where_to}


def assign_positions(m, x):
    if x.dim() == 0:
        return None
    return [X], {'indices': m.indices(x.shape[0], m.rng.randint(0, 3)), **fill(m, x)[1]}


def leading_mask(m, x):
    """A mask over one or more of the first axes."""
    return New(list(x.shape)[:m.rng.randint(1, x.dim())], 'bool')


def assign_mask(m, x):
    return ([X, leading_mask(m, x)], fill(m, x)[1]) if x.dim() else None


# By index

def brackets_positions(m, x):
    if x.dim() == 0 or x.shape[0] == 0:
        return None
    shape = [m.rng.randint(0, 3) for _ in range(m.rng.randint(0, 2))]
    return [X], {'shape': shape, 'indices': m.rng.choices(range(-x.shape[0], x.shape[0]), k=math.prod(shape))}


def brackets_mask(m, x):
    return ([X, leading_mask(m, x)], {}) if x.dim() else None


def embedding(m, x):
    if x.dim() != 2 or x.shape[0] == 0:
        return None
    shape = [m.rng.randint(0, 3) for _ in range(m.rng.randint(0, 2))]
    return [X], {'shape': shape, 'indices': m.indices(x.shape[0], math.prod(shape))}


def embedding_padding(m, x):
    found = embedding(m, x)
    return found and ([X], dict(found[1], padding=m.rng.randrange(x.shape[0])))


def index_select(m, x):
    if x.dim() == 0:
        return None
    axis = m.axis(x)
    return [X], {'axis': axis, 'indices': m.indices(x.shape[axis], m.rng.randint(0, 4))}


def gather(m, x):
    if x.dim() == 0:
        return None
    axis = m.axis(x)
    shape = list(x.shape)
    shape[axis] = m.rng.randint(0, 4) if x.shape[axis] else 0
    return [X], {'axis': axis, 'shape': shape, 'indices': m.indices(x.shape[axis], math.prod(shape))}


def scattered(several):
    """Indices of a tensor's places; PyTorch's scatter has no gradient for several elements in one place."""
    def candidate(m, x):
        if x.dim() == 0 or x.numel() == 0:
            return None
        axis = m.axis(x)
        shape = [m.rng.randint(1, extent) for extent in x.shape]
        shape[axis] = m.rng.randint(1, 4) if several else 1
        return [X, New(shape, NAMES[x.dtype])], {'axis': axis, 'shape': shape,
                                                 'indices': m.indices(x.shape[axis], math.prod(shape))}
    return candidate


def scatter_number(m, x):
    found = scattered(True)(m, x)
    return found and ([X], dict(found[1], number=fill(m, x)[1]['number']))


def index_add(m, x):
    if x.dim() == 0:
        return None
    axis = m.axis(x)
    count = m.rng.randint(0, 4) if x.shape[axis] else 0
    shape = list(x.shape)
    shape[axis] = count
    return [X, New(shape, NAMES[x.dtype])], {'axis': axis, 'indices': m.indices(x.shape[axis], count)}


def index_fill(m, x):
    if x.dim() == 0:
        return None
    axis = m.axis(x)
    size = x.shape[axis]
    indices = m.rng.choices(range(-size, size), k=m.rng.randint(0, 4)) if size else []
    return [X, New([], NAMES[x.dtype])], {'axis': axis, 'indices': indices}


def masked_fill(m, x):
    return [X, m.mask(x)], fill(m, x)[1]


def masked_select(m, x):
    return [X, m.mask(x)], {}


# By order

def has_nan(x):
    return x.dtype.is_floating_point and bool(x.isnan().any())


def is_distinct(x, axis):
    """No NaN, and no equal elements in a line: among those PyTorch's choice is its own."""
    if has_nan(x) or x.numel() == 0:
        return False
    ordered = x.sort(axis).values
    return not bool((ordered.diff(dim=axis) == 0).any())


def sort(m, x):
    return ([X], {'axis': m.axis(x), 'descending': m.flag(), 'positions': m.rng.random() < 0.2}) if x.dim() else None


def argsort(m, x):
    return ([X], {'axis': m.axis(x), 'descending': m.flag()}) if x.dim() else None


def best_with_index(m, x):
    axis = m.axis(x) if x.dim() else None
    if axis is None or x.shape[axis] == 0:
        return None
    return [X], {'axis': axis, 'keepdim': m.flag(), 'positions': m.rng.random() < 0.2}


def topk(m, x):
    axis = m.axis(x) if x.dim() else None
    if axis is None or not is_distinct(x, axis):
        return None
    return [X], {'axis': axis, 'k': m.rng.randint(0, x.shape[axis]), 'largest': m.flag()}


def searchsorted(m, x):
    if x.dim() == 0 or has_nan(x):
        return None
    shape = m.shape(1) if x.dim() == 1 else [*x.shape[:-1], m.rng.randint(0, 3)]
    return [X, New(shape, NAMES[x.dtype], learns=False)], {'right': m.flag()}


def unique(m, x):
    return None if has_nan(x) else ([X], {'piece': m.rng.randrange(3)})


def median(m, x):
    axis = m.axis(x) if x.dim() else None
    return ([X], {'axis': axis, 'keepdim': m.flag()}) if axis is not None and is_distinct(x, axis) else None


def quantile(m, x):
    """Of finite x: PyTorch interpolates between equal infinities, too, which gives NaN."""
    found = median(m, x)
    if not found or not x.isfinite().all():
        return None
    return [X], dict(found[1], q=m.pick(0, 0.25, 0.3, 0.5, 1))


# Reductions

def reduction(m, x):
    return [X], {'axes': m.some(x.dim()), 'keepdim': m.flag()}


def prod(m, x):
    """Of factors whose products do not overflow, as the products of some factors meet the 0 of others."""
    factors = x.double().abs().nan_to_num(1, 1)
    return reduction(m, x) if factors.clamp(min=1).prod() < 1e30 else None


def moments(m, x):
    if not has_squares(x):
        return None
    _, w = reduction(m, x)
    count = math.prod(x.shape[k] for k in w['axes'] or range(x.dim()))
    return [X], dict(w, correction=m.pick(0, 1) if count > 1 else 0)


def vector_norm(m, x):
    if not has_squares(x):
        return None
    w = reduction(m, x)[1]
    order = m.pick('1', '2', 'inf', '-inf', '0', '0.5', '1.5', '3', '-1')
    return ([X], dict(w, order=order)) if x.numel() or order in ('1', '2') else None


def place_of_best(m, x):
    if x.dim() == 0 or m.flag():
        return ([X], {'axis': None, 'keepdim': False}) if x.numel() else None
    axis = m.axis(x)
    return ([X], {'axis': axis, 'keepdim': m.flag()}) if x.shape[axis] else None


# Products

def matmul(m, x):
    if x.dim() == 0:
        return None
    if m.flag():
        return [X, New([x.shape[-1]] + m.shape(m.rng.randint(0, 1)), NAMES[x.dtype])], {}
    rows = [] if x.dim() == 1 else [m.rng.randint(1, 3)]
    return [New(rows + [x.shape[max(x.dim() - 2, 0)]], NAMES[x.dtype]), X], {}


def bmm(m, x):
    return ([X, New([x.shape[0], x.shape[2], m.rng.randint(1, 3)], NAMES[x.dtype])], {}) if x.dim() == 3 else None


def outer(m, x):
    return ([X, New(m.shape(1), NAMES[x.dtype])], {}) if x.dim() == 1 else None


def einsum(m, x):
    """x alone, or with one or two tensors of some of its axes and perhaps of a new one, z."""
    if x.dim() > 5:
        return None
    # Whether an infinity meets a 0 depends on the order of three factors.
    most = 1 if m.kind == 'extreme' else 2
    letters = 'abcde'[:x.dim()]
    terms, others = [letters], []
    for _ in range(m.rng.randint(0, most)):
        shared = m.some(x.dim())
        has_new = m.flag()
        terms.append(''.join(letters[k] for k in shared) + 'z' * has_new)
        others.append(New([x.shape[k] for k in shared] + [2] * has_new, NAMES[x.dtype]))
    known = sorted(set(''.join(terms)))
    result = m.rng.sample(known, m.rng.randint(0, len(known)))
    return [X, *others], {'equation': ','.join(terms) + '->' + ''.join(result)}


def tensordot(m, x):
    count = m.rng.randint(0, x.dim())
    return [X, New(list(x.shape)[x.dim() - count:] + m.shape(1), NAMES[x.dtype])], {'count': count}


def tensordot_axes(m, x):
    axes = m.some(x.dim())
    shape = [x.shape[axis] for axis in axes] + [2]
    order = m.rng.sample(range(len(shape)), len(shape))
    return [X, New([shape[k] for k in order], NAMES[x.dtype])], {
        'a_axes': axes, 'b_axes': [order.index(k) for k in range(len(axes))]}


def linear(m, x):
    if x.dim() == 0:
        return None
    n, dtype = m.rng.randint(1, 4), NAMES[x.dtype]
    return [X, New([n, x.shape[-1]], dtype), New([n], dtype)], {'relu': m.flag()}


# Linear algebra

def matrices(m, x):
    return x.dim() >= 2 and x.numel() > 0 and m.kind in ('plain', 'grid')


def square_matrices(m, x):
    return plain(m, x) if matrices(m, x) and x.shape[-1] == x.shape[-2] else None


def any_matrices(m, x):
    return plain(m, x) if matrices(m, x) else None


def tall_matrices(m, x):
    return plain(m, x) if matrices(m, x) and x.shape[-2] >= x.shape[-1] else None


def equations(m, x):
    if not square_matrices(m, x):
        return None
    return [X, New([*x.shape[:-1], m.rng.randint(1, 3)], NAMES[x.dtype])], {}


def least_squares(m, x):
    if not tall_matrices(m, x):
        return None
    return [X, New([*x.shape[:-1], m.rng.randint(1, 3)], NAMES[x.dtype])], {}


# Convolution and windows

def groups_of(m, *channels):
    return m.rng.choice([g for g in range(1, min(channels) + 1) if all(c % g == 0 for c in channels)])


def convolution(axes, is_transposed):
    def candidate(m, x):
        # A convolution of infinite elements depends on whether padding is multiplied.
        if x.dim() != axes + 2 or x.numel() == 0 or m.kind == 'extreme':
            return None
        dtype, channels, filters = NAMES[x.dtype], x.shape[1], m.rng.randint(1, 4)
        groups, stride = groups_of(m, channels, filters), m.rng.randint(1, 2)
        w = {'stride': stride, 'padding': m.rng.randint(0, 1), 'dilation': m.pick(1, 1, 2), 'groups': groups}
        first, second = (channels, filters // groups) if is_transposed else (filters, channels // groups)
        if is_transposed:
            w['output_padding'] = m.rng.randint(0, stride - 1)
        taps = [m.rng.randint(1, 3)] * axes
        return [X, New([first, second, *taps], dtype), New([filters], dtype)], w
    return candidate


def pool(axes, kind):
    def candidate(m, x):
        if x.dim() != axes + 2 or x.numel() == 0:
            return None
        kernel = m.rng.randint(1, min(3, *x.shape[2:]))
        w = {'kernel': kernel, 'stride': m.rng.randint(1, 3), 'padding': m.rng.randint(0, kernel // 2)}
        return [X], dict(w, count_include_pad=m.flag() if kind == 'avg' else True)
    return candidate


def adaptive_avg_pool2d(m, x):
    return ([X], {'size': [m.rng.randint(1, 4), m.rng.randint(1, 4)]}) if x.dim() == 4 and x.numel() else None


def interpolate(m, x):
    # Whether a neighbour of weight 0 is read decides what becomes of infinities.
    if x.dim() != 4 or x.numel() == 0 or not x.isfinite().all():
        return None
    w = {'mode': m.pick('nearest', 'bilinear'), 'align_corners': False}
    if w['mode'] == 'bilinear':
        w['align_corners'] = m.flag()
    sizes = {'size': [m.rng.randint(1, 7), m.rng.randint(1, 7)]}
    return [X], w | (sizes if m.flag() or min(x.shape[2:]) < 2 else {'scale': m.pick(0.5, 1.5, 2.0, 2.6)})


# Normalization and attention

# The elements of each group must differ: where they are equal, normalization multiplies rounding
# errors by 1 / sqrt(1e-5) = 316. Of two elements, or of one by rms_norm, the gradient is 0 but for
# rounding. Weights are finite: infinite ones meet 0 in a product or not.

def differ(rows):
    """rows (groups, elements of a group)"""
    x = rows.double()
    return x.shape[1] > 2 and has_squares(x) and not bool(
        (x.var(1, unbiased=False) < 0.01 * x.square().mean(1)).any())


def weights(x, extent, count):
    return [New([extent], NAMES[x.dtype], is_finite=True) for _ in range(count)]


def layer_norm(m, x):
    if x.dim() == 0 or x.numel() == 0 or not differ(x.reshape(-1, x.shape[-1])):
        return None
    return [X, *weights(x, x.shape[-1], 2)], {}


def rms_norm(m, x):
    if x.dim() == 0 or x.shape[-1] < 2 or not has_squares(x) or bool((x.double().square().mean(-1) < 0.01).any()):
        return None
    return [X, *weights(x, x.shape[-1], 1)], {}


def group_norm(m, x):
    if x.dim() < 2 or x.numel() == 0:
        return None
    groups = groups_of(m, x.shape[1])
    if not differ(x.reshape(x.shape[0] * groups, -1)):
        return None
    return [X, *weights(x, x.shape[1], 2)], {'groups': groups}


def instance_norm(m, x):
    if x.dim() < 3 or x.numel() == 0 or not differ(x.reshape(x.shape[0] * x.shape[1], -1)):
        return None
    return [X, *weights(x, x.shape[1], 2)], {}


def batch_norm(m, x):
    if x.dim() < 2 or x.numel() == 0 or not differ(x.transpose(0, 1).reshape(x.shape[1], -1)):
        return None
    return [X, *weights(x, x.shape[1], 2)], {}


def batch_norm_relu(m, x):
    found = batch_norm(m, x)
    return found and (found[0] + [m.like(x)], {})


def batch_norm_evaluation(m, x):
    return ([X, *weights(x, x.shape[1], 2)], {}) if x.dim() >= 2 and x.numel() else None


def attention(m, x):
    # Scores of 1e6 lose the digits that probabilities need, and a masked key that is infinite gives NaN there.
    if x.dim() != 4 or 0 in x.shape or m.kind in ('extreme', 'offset'):
        return None
    B, H, T, D = x.shape
    heads, S, dtype = groups_of(m, H), m.rng.randint(1, 4), NAMES[x.dtype]
    causal = m.flag()
    mask = [New([T, S], dtype)] if not causal and m.flag() else []
    return [X, New([B, heads, S, D], dtype), New([B, heads, S, 2], dtype), *mask], {
        'causal': causal, 'scale': m.pick(0.3, 1, -1)}


def rotary_embedding(m, x):
    if x.dim() < 2 or x.shape[-1] % 2 or x.numel() == 0:
        return None
    return [X], {'offset': m.pick(0, 3, 100), 'interleaved': m.flag()}


# Losses

def reductions(m):
    return {'reduction': m.pick('none', 'mean', 'sum')}


def pointwise_loss(m, x):
    return [X, m.like(x)], reductions(m)


def kl_div(m, x):
    """Of logarithms below 5: larger exponentials would hide the digits of others."""
    target = New(list(x.shape), NAMES[x.dtype], -2, 1)
    return ([X, target], reductions(m)) if not bool((x > 5).any()) else None


def bce(m, x):
    return [X, m.like(x), New(m.broadcastable(x), NAMES[x.dtype])], reductions(m)


def classes(m, count, number):
    """Targets, of which some may be ignored."""
    return {'indices': m.indices(count, number), 'ignore': m.pick(-100, -100, 0)}


def cross_entropy(smoothing):
    def candidate(m, x):
        if x.dim() < 2 or x.numel() == 0:
            return None
        shape = [x.shape[0], *x.shape[2:]]
        weight = [New([x.shape[1]], NAMES[x.dtype], 0.2, 2, False, True)] if m.flag() else []
        w = {'shape': shape, **classes(m, x.shape[1], math.prod(shape)), **reductions(m)}
        return [X, *weight], w | ({'label_smoothing': m.pick(0, 0.1)} if smoothing else {})
    return candidate


def linear_cross_entropy(m, x):
    if x.dim() != 2 or x.numel() == 0:
        return None
    n, dtype = m.rng.randint(1, 6), NAMES[x.dtype]
    weight = [New([n], dtype, 0.2, 2, False, True)] if m.flag() else []
    return [X, New([n, x.shape[1]], dtype), New([n], dtype), *weight], {
        **classes(m, n, x.shape[0]), **reductions(m), 'label_smoothing': m.pick(0, 0.1)}


def cosine_embedding_loss(m, x):
    """Of rows that are not 0: the direction of 0 is all rounding."""
    if x.dim() != 2 or x.numel() == 0 or m.kind != 'plain' or bool((x.double().square().sum(1) < 0.01).any()):
        return None
    other = New(list(x.shape), NAMES[x.dtype], 0.5, 2)
    return [X, other], reductions(m) | {'indices': m.indices(2, x.shape[0])}


def triplet_margin_loss(m, x):
    """Of new rows, as the distance of equal ones is all rounding."""
    others = [New(list(x.shape), NAMES[x.dtype]), New(list(x.shape), NAMES[x.dtype])]
    return ([X, *others], reductions(m) | {'swap': m.flag()}) if x.dim() and m.kind == 'plain' else None


# Derivatives

def derivative(m, x):
    return plain(m, x) if 0 < x.numel() <= 16 and x.dim() <= 3 and m.kind != 'extreme' else None


def jvp(m, x):
    return ([X, m.like(x)], {}) if x.numel() and m.kind != 'extreme' else None


# Training

def hook(m, x):
    return [X], {'factor': m.pick(2, -0.5, 0.25)}


def hook_on_input(m, x):
    """On a step's result in memory of its own, as the result of, say, to() is x itself in one of the libraries only.

    Whether grad() runs hooks of leaves differs among PyTorch's versions.
    """
    made = m.made_of(x)
    return hook(m, x) if made.learns and not made.is_leaf and m.tensors[made.memory.members[0]] is made else None


def checkpoint(m, x):
    """The segment captures the third tensor, a leaf. If x wants no gradient, only that leaf does."""
    shape, dtype = list(x.shape), NAMES[x.dtype]
    return [X, m.like(x) if m.made_of(x).learns else New(shape, dtype, learns=False), New(shape, dtype, learns=True)], {}


def ranks(m, **more):
    count = m.rng.randint(1, 4)
    return dict(more, ranks=count, rank=m.rng.randrange(count))


def reduce_on_ranks(m, x):
    """Of finite x: which NaN or infinity min and max keep is a choice."""
    if not x.isfinite().all():
        return None
    choices = ['sum', 'product', 'min', 'max'] + ['mean'] * x.dtype.is_floating_point
    return [X], ranks(m, reduce=m.pick(*choices))


def broadcast_on_ranks(m, x):
    w = ranks(m)
    return [X], dict(w, root=m.rng.randrange(w['ranks']))


def gather_on_ranks(m, x):
    return ([X], ranks(m)) if x.dim() else None


def scatter_on_ranks(m, x):
    return reduce_on_ranks(m, x) if x.dim() else None


CANDIDATES = {
    # Each element of one tensor by itself
    'neg': (NUMBERS, plain), 'abs': (NUMBERS, plain), 'sign': (NUMBERS, plain), 'square': (NUMBERS, plain),
    'relu': (NUMBERS, plain), 'floor': (NUMBERS, plain), 'ceil': (NUMBERS, plain), 'round': (NUMBERS, plain),
    'trunc': (NUMBERS, plain), 'nan_to_num': (NUMBERS, plain), 'clamp': (NUMBERS, clamp), 'exp': (ALL, plain),
    'expm1': (ALL, plain), 'log': (ALL, plain), 'log1p': (ALL, plain), 'sqrt': (ALL, plain), 'rsqrt': (ALL, plain),
    'reciprocal': (ALL, plain), 'sin': (ALL, plain), 'cos': (ALL, plain), 'tan': (ALL, plain), 'asin': (ALL, plain),
    'acos': (ALL, plain), 'atan': (ALL, plain), 'sinh': (ALL, plain), 'cosh': (ALL, plain), 'tanh': (ALL, plain),
    'asinh': (ALL, plain), 'acosh': (ALL, plain), 'atanh': (ALL, plain), 'sigmoid': (ALL, plain), 'erf': (ALL, plain),
    'gelu': (FLOATS, plain), 'gelu_tanh': (FLOATS, plain), 'silu': (FLOATS, plain), 'softplus': (FLOATS, softplus),
    'leaky_relu': (FLOATS, plain), 'elu': (FLOATS, plain), 'dropout': (FLOATS, dropout), 'bitwise_not': (BITS, plain),
    'logical_not': (ALL, plain), 'isnan': (ALL, plain), 'isfinite': (ALL, plain),
    # Of several tensors
    'add': (NUMBERS, pair(NUMBERS)), 'add_relu': (NUMBERS, pair(NUMBERS)), 'sub': (NUMBERS, pair(NUMBERS)),
    'mul': (NUMBERS, pair(NUMBERS)), 'div': (ALL, pair(ALL)), 'pow': (NUMBERS, power),
    'floor_divide': (NUMBERS, integer_pair), 'remainder': (NUMBERS, integer_pair), 'atan2': (NUMBERS, pair(NUMBERS)),
    'maximum': (NUMBERS, pair(NUMBERS)), 'minimum': (NUMBERS, pair(NUMBERS)), 'relu_gradient': (FLOATS, relu_gradient),
    'bitwise_and': (BITS, pair(BITS)), 'bitwise_or': (BITS, pair(BITS)), 'bitwise_xor': (BITS, pair(BITS)),
    'eq': (ALL, pair(ALL)), 'ne': (ALL, pair(ALL)), 'lt': (ALL, pair(ALL)), 'le': (ALL, pair(ALL)),
    'gt': (ALL, pair(ALL)), 'ge': (ALL, pair(ALL)), 'logical_and': (ALL, pair(ALL)), 'logical_or': (ALL, pair(ALL)),
    'lerp': (FLOATS, lerp), 'where': (ALL, where),
    # Of a tensor and a number
    'add_number': (NUMBERS, with_number), 'sub_number': (NUMBERS, with_number), 'mul_number': (NUMBERS, with_number),
    'div_number': (NUMBERS, divided_by_number), 'pow_number': (NUMBERS, with_number),
    'floor_divide_number': (NUMBERS, divided_by_number), 'remainder_number': (NUMBERS, divided_by_number),
    'maximum_number': (NUMBERS, with_number), 'minimum_number': (NUMBERS, with_number),
    'eq_number': (NUMBERS, with_number), 'lt_number': (NUMBERS, with_number), 'ge_number': (NUMBERS, with_number),
    'number_sub': (NUMBERS, with_number), 'number_div': (NUMBERS, with_number), 'number_pow': (FLOATS, with_number),
    'lerp_number': (FLOATS, lerp_number),
    # Tensors from nothing
    'zeros': (None, shaped), 'ones': (None, shaped), 'full': (None, full), 'zeros_like': (ALL, plain),
    'ones_like': (ALL, plain), 'full_like': (ALL, fill), 'arange': (None, arange), 'linspace': (None, linspace),
    'logspace': (None, logspace), 'eye': (None, eye), 'one_hot': (None, one_hot),
    # Views
    'reshape': (ALL, reshape), 'flatten': (ALL, flatten), 'permute': (ALL, permute), 'transpose': (ALL, two_axes),
    'slice': (ALL, sliced), 'select': (ALL, select), 'brackets': (ALL, brackets), 'squeeze': (ALL, squeeze),
    'unsqueeze': (ALL, unsqueeze), 'split': (ALL, pieces('size', lambda size, value: -(-size // value))),
    'split_sizes': (ALL, split_sizes), 'chunk': (ALL, pieces('count', lambda size, value: -(-size // max(1, -(-size // value))))),
    'expand': (ALL, expand), 'diagonal': (ALL, diagonal), 'unfold': (ALL, unfold), 'meshgrid': (ALL, meshgrid),
    'detach': (ALL, plain),
    # Copies
    'clone': (ALL, plain), 'contiguous': (ALL, plain), 'to_layout': (ALL, to_layout), 'to': (ALL, to),
    'concatenate': (ALL, concatenate), 'stack': (ALL, stack), 'sum_to': (NUMBERS, sum_to), 'brackets_backwards': (ALL, brackets_backwards), 'tril': (ALL, triangle),
    'triu': (ALL, triangle), 'flip': (ALL, flip), 'roll': (ALL, roll), 'pad': (ALL, pad), 'repeat': (ALL, repeat),
    'tile': (ALL, tile), 'repeat_interleave': (ALL, repeat_interleave),
    'repeat_interleave_each': (ALL, repeat_interleave_each),
    # In place
    'add_': (NUMBERS, add_in_place), 'sub_': (NUMBERS, in_place), 'mul_': (NUMBERS, in_place),
    'div_': (FLOATS, in_place), 'copy_': (ALL, copy_in_place), 'add_number_': (NUMBERS, fill),
    'mul_number_': (NUMBERS, fill), 'fill_': (ALL, fill), 'zero_': (ALL, plain), 'assign': (ALL, assign),
    'assign_positions': (ALL, assign_positions), 'assign_mask': (ALL, assign_mask),
    # By index
    'brackets_positions': (ALL, brackets_positions), 'brackets_mask': (ALL, brackets_mask),
    'embedding': (FLOATS, embedding), 'embedding_padding': (FLOATS, embedding_padding),
    'index_select': (ALL, index_select), 'gather': (ALL, gather), 'scatter_add': (FLOATS, scattered(True)),
    'scatter': (ALL, scattered(False)), 'scatter_number': (ALL, scatter_number), 'index_add': (FLOATS, index_add),
    'index_fill': (FLOATS, index_fill), 'masked_fill': (ALL, masked_fill), 'masked_select': (ALL, masked_select), 'nonzero': (ALL, plain),
    # By order
    'cumsum': (ALL, with_axis), 'cumprod': (ALL, with_axis), 'sort': (ALL, sort),
    'max_with_indices': (ALL, best_with_index), 'min_with_indices': (ALL, best_with_index), 'argsort': (ALL, argsort),
    'topk': (NUMBERS, topk), 'searchsorted': (NUMBERS, searchsorted), 'unique': (ALL, unique),
    'median': (NUMBERS, median), 'quantile': (FLOATS, quantile),
    # Many to one
    'sum': (ALL, reduction), 'mean': (FLOATS, reduction), 'prod': (ALL, prod), 'logsumexp': (FLOATS, reduction),
    'any': (ALL, reduction), 'all': (ALL, reduction), 'max': (ALL, reduction), 'min': (ALL, reduction),
    'vector_norm': (FLOATS, vector_norm), 'var': (FLOATS, moments), 'stddev': (FLOATS, moments),
    'argmax': (ALL, place_of_best), 'argmin': (ALL, place_of_best),
    # Products
    'matmul': (FLOATS, matmul), 'bmm': (FLOATS, bmm), 'outer': (NUMBERS, outer), 'einsum': (FLOATS, einsum),
    'tensordot': (FLOATS, tensordot), 'tensordot_axes': (FLOATS, tensordot_axes), 'linear': (FLOATS, linear),
    # Linear algebra
    'cholesky': (LAPACK, square_matrices), 'qr': (LAPACK, tall_matrices), 'svd': (LAPACK, any_matrices),
    'eigh': (LAPACK, square_matrices), 'solve': (LAPACK, equations), 'inv': (LAPACK, square_matrices),
    'det': (LAPACK, square_matrices), 'slogdet': (LAPACK, square_matrices), 'lstsq': (LAPACK, least_squares),
    # Convolution and windows
    'conv1d': (FLOATS, convolution(1, False)), 'conv2d': (FLOATS, convolution(2, False)),
    'conv3d': (FLOATS, convolution(3, False)), 'conv_transpose1d': (FLOATS, convolution(1, True)),
    'conv_transpose2d': (FLOATS, convolution(2, True)), 'conv_transpose3d': (FLOATS, convolution(3, True)),
    'max_pool1d': (FLOATS, pool(1, 'max')), 'max_pool2d': (FLOATS, pool(2, 'max')),
    'max_pool3d': (FLOATS, pool(3, 'max')), 'avg_pool1d': (FLOATS, pool(1, 'avg')),
    'avg_pool2d': (FLOATS, pool(2, 'avg')), 'avg_pool3d': (FLOATS, pool(3, 'avg')),
    'adaptive_avg_pool2d': (FLOATS, adaptive_avg_pool2d), 'interpolate': (FLOATS, interpolate),
    # Normalization and attention
    'layer_norm': (FLOATS, layer_norm), 'rms_norm': (FLOATS, rms_norm), 'group_norm': (FLOATS, group_norm),
    'instance_norm': (FLOATS, instance_norm), 'batch_norm': (FLOATS, batch_norm),
    'batch_norm_relu': (FLOATS, batch_norm_relu), 'batch_norm_evaluation': (FLOATS, batch_norm_evaluation),
    'scaled_dot_product_attention': (FLOATS, attention), 'rotary_embedding': (FLOATS, rotary_embedding),
    # Losses
    'softmax': (FLOATS, with_axis), 'log_softmax': (FLOATS, with_axis), 'cross_entropy': (FLOATS, cross_entropy(True)),
    'nll_loss': (FLOATS, cross_entropy(False)), 'linear_cross_entropy': (FLOATS, linear_cross_entropy),
    'cosine_embedding_loss': (WIDE, cosine_embedding_loss), 'triplet_margin_loss': (FLOATS, triplet_margin_loss),
    'huber_loss': (FLOATS, pointwise_loss), 'smooth_l1_loss': (FLOATS, pointwise_loss),
    'kl_div': (FLOATS, kl_div), 'mse_loss': (FLOATS, pointwise_loss), 'l1_loss': (FLOATS, pointwise_loss),
    'bce_with_logits': (FLOATS, bce),
    # Training
    'hook_on_result': (FLOATS, hook), 'hook_on_input': (FLOATS, hook_on_input), 'checkpoint': (FLOATS, checkpoint),
    'all_reduce': (NUMBERS, reduce_on_ranks), 'broadcast': (NUMBERS, broadcast_on_ranks),
    'all_gather': (NUMBERS, gather_on_ranks), 'reduce_scatter': (NUMBERS, scatter_on_ranks),
    'all_to_all': (NUMBERS, gather_on_ranks),
    'uniform_': (FLOATS, plain), 'normal_': (FLOATS, plain), 'exponential_': (FLOATS, plain),
    'bernoulli_': (FLOATS, plain),
    # Derivatives
    'jacobian': (FLOATS, derivative), 'hessian': (FLOATS, derivative), 'jvp': (FLOATS, jvp),
}
