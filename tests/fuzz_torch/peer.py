"""PyTorch's side of random programs: its operators, and a run of a program in which every step begins with our values.

OPERATORS has the names of operators_*.cc, and functions of (tensors, arguments). OLD lists what PyTorch before 2.0
computes differently.
"""
import math

import torch
import torch.nn.functional as F

DTYPES = {'float32': torch.float32, 'float64': torch.float64, 'float16': torch.float16, 'bfloat16': torch.bfloat16,
          'int64': torch.int64, 'bool': torch.bool}
IN_PLACE = {'add_', 'sub_', 'mul_', 'div_', 'copy_', 'add_number_', 'mul_number_', 'fill_', 'zero_', 'assign',
            'assign_positions', 'assign_mask', 'uniform_', 'normal_', 'exponential_', 'bernoulli_'}
# Random fills: what holds for each value. The two libraries draw different numbers.
RANDOM = {'uniform_': lambda x: (x >= 0) & (x <= 1), 'normal_': torch.isfinite, 'exponential_': lambda x: x >= 0,
          'bernoulli_': lambda x: (x == 0) | (x == 1)}
NARROW = (torch.float16, torch.bfloat16)
IS_OLD = int(torch.__version__.split('.')[0]) < 2

# What PyTorch before 2.0 does not have or computes differently; Debian 12 has 1.13. Random programs
# leave these operators out:
OLD = {
    'atan2': 'the gradient at (0, 0) is NaN',
    'clamp': 'the gradient at the bounds is 1; PyTorch 2.15 gives 0',
}
# and for these, float32 stands in for 16-bit dtypes:
OLD_IN_FLOAT32 = {
    'conv_transpose1d': 'dilation is ignored in bfloat16',
    'conv_transpose2d': 'dilation is ignored in bfloat16',
    'conv_transpose3d': 'dilation is ignored in bfloat16',
    'unique': '0 and -0 differ in bfloat16',
}
# Other forms stand below: squeezed(), rms_norm(), lerp(), masked_select().

# --- Forms that PyTorch lacks, or has in some versions only ---


def indices_of(w):
    indices = torch.tensor(w['indices'], dtype=torch.int64)
    return indices.reshape(w['shape']) if 'shape' in w else indices


def brackets_of(w):
    """The list that operators_movement.cc reads, as an index."""
    kinds = {'position': lambda i: i, 'slice': lambda a, b, c: slice(a, b, c), 'new_axis': lambda: None,
             'ellipsis': lambda: Ellipsis}
    return tuple(kinds[kind](*rest) for kind, *rest in w['list'])


def assigned(x, index, value):
    x[index] = value
    return x


def padded(x, w):
    """Pads the last axis; reflect and replicate need one or two axes before it."""
    if w['mode'] == 'constant':
        return F.pad(x, w['amounts'], value=w['number'])
    return F.pad(x.reshape(1, -1, x.shape[-1]), w['amounts'], mode=w['mode']).reshape(*x.shape[:-1], -1)


def axes_of(x, w):
    return w['axes'] or list(range(x.dim()))


class ZeroOf(torch.autograd.Function):
    """x - x, even where x is infinite."""

    @staticmethod
    def forward(ctx, x):
        return torch.zeros_like(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


def chosen(choose, x, w):
    """amax or amin with the gradient of max(): NaNs that became the result share it, as ties do."""
    axes = axes_of(x, w)
    y = choose(x.detach(), axes, True)
    if x.dtype.is_floating_point:
        ties = (x == y) | x.isnan()
        y = y + torch.where(ties, ZeroOf.apply(x), torch.zeros_like(x)).sum(axes, True) / ties.sum(axes, True)
    return y if w['keepdim'] or not axes else y.squeeze(axes) if not IS_OLD else squeezed(y, axes)


def squeezed(x, axes):
    """squeeze of several axes, which PyTorch 1.13 lacks; without axes, of all."""
    for axis in sorted((a % x.dim() for a in axes), reverse=True):
        x = x.squeeze(axis)
    return x if axes else x.squeeze()


def over_axes(reduce, x, w):
    """Of several axes, which prod, any and all lack."""
    for axis in sorted((a % x.dim() for a in axes_of(x, w)), reverse=True):
        x = reduce(x, axis, w['keepdim'])
    return reduce(x) if x.dim() == 0 and not axes_of(x, w) else x


def attention(x, w):
    """Composed, as not every version has groups of heads, nor second derivatives of fused kernels."""
    q, k, v = x[:3]
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * w['scale']
    if len(x) > 3:
        scores = scores + x[3]
    if w['causal']:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -math.inf)
    return scores.softmax(-1) @ v


def rms_norm(x, weight):
    if hasattr(F, 'rms_norm'):
        return F.rms_norm(x, weight.shape, weight, 1e-5)
    return x * torch.rsqrt((x * x).mean(-1, True) + 1e-5) * weight


def rotated(x, w):
    """Pairs turned by position / 10000^(2 i / D)."""
    T, D = x.shape[-2:]
    angles = (torch.arange(T, dtype=torch.float64)[:, None] + w['offset']) / 10000**(
        torch.arange(0, D, 2, dtype=torch.float64) / D)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = (x[..., ::2], x[..., 1::2]) if w['interleaved'] else (x[..., :D // 2], x[..., D // 2:])
    turned = a * cos - b * sin, a * sin + b * cos
    return torch.stack(turned, -1).flatten(-2) if w['interleaved'] else torch.cat(turned, -1)


def interpolated(x, w):
    corners = {} if w['mode'] == 'nearest' else {'align_corners': w['align_corners']}
    return F.interpolate(x, w.get('size'), w.get('scale'), w['mode'], **corners)


class ContiguousGradient(torch.autograd.Function):
    """x, whose gradient is made contiguous."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.contiguous()


def batch_norm(x, mean=None, var=None):
    """Contiguous everywhere: PyTorch's gradients misread other strides of x, weight and the result's gradient."""
    y = F.batch_norm(x[0].contiguous(), mean, var, x[1].contiguous(), x[2], training=mean is None)
    return ContiguousGradient.apply(y)


def batch_norm_evaluation(x):
    return batch_norm(x, torch.full(x[1].shape, 0.5, dtype=x[1].dtype), torch.full(x[1].shape, 2., dtype=x[1].dtype))


# Matrices with the properties that operators of linear algebra want, and functions of factors that
# do not depend on signs: as in operators_reduction.cc.


def positive_definite(x):
    return x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype) * x.shape[-1]


def of_full_rank(x):
    return x.tanh() + torch.eye(*x.shape[-2:], dtype=x.dtype) * 5


def with_distances(x):
    far = torch.arange(1, max(x.shape[-2:]) + 1, dtype=x.dtype) * 4
    return x.tanh() + (torch.eye(max(x.shape[-2:]), dtype=x.dtype) * far)[:x.shape[-2], :x.shape[-1]]


def of_qr(x):
    q, r = torch.linalg.qr(of_full_rank(x))
    return q @ (r.abs() * r)


def of_svd(x):
    u, s, vh = torch.linalg.svd(with_distances(x), full_matrices=False)
    return (u * s.square().unsqueeze(-2)) @ vh


def of_eigh(x):
    x = with_distances(x)
    values, vectors = torch.linalg.eigh(x + x.mT)
    return (vectors * values.square().unsqueeze(-2)) @ vectors.mT


def wave(x):
    return x.sin() * x.square().sum()


# --- The operators ---


def index_fill(x, value, w):
    """With positions from 0: PyTorch's gradient throws for negative ones."""
    return x.index_fill(w['axis'], indices_of(w) % max(x.shape[w['axis']], 1), value)


def lerp(a, b, weight):
    """Before 2.0 weights below -0.5 take the formula of small ones, which is of other infinities."""
    if not IS_OLD:
        return torch.lerp(a, b, weight)
    is_small = abs(torch.as_tensor(weight)) < 0.5
    return torch.where(is_small, a + weight * (b - a), b - (b - a) * (1 - weight))


def masked_select(x, mask):
    """Of contiguous x: before 2.0 the gradient misreads other strides."""
    return x.contiguous().masked_select(mask)


def scale_gradient(x, factor):
    """In a second derivative before 2.0 the gradient may be None."""
    if x.requires_grad:
        x.register_hook(lambda grad: None if grad is None else grad * factor)


def hook_on_result(x, w):
    y = x[0].clone()
    scale_gradient(y, w['factor'])
    return y


def hook_on_input(x, w):
    scale_gradient(x[0], w['factor'])
    return x[0].clone()


def of_ranks(x, w):
    return [x.detach() * (rank + 1) for rank in range(w['ranks'])]


def reduced(parts, w):
    """16-bit sums are added in float32 and rounded once."""
    narrow = parts[0].dtype in NARROW and w['reduce'] in ('sum', 'mean')
    wide = torch.stack([part.float() if narrow else part for part in parts])
    y = {'sum': lambda: wide.sum(0), 'mean': lambda: wide.mean(0), 'product': lambda: wide.prod(0),
         'min': lambda: wide.amin(0), 'max': lambda: wide.amax(0)}[w['reduce']]()
    return y.to(parts[0].dtype)


def as_tensor(value, x):
    return torch.tensor(value, dtype=x.dtype if x.dtype.is_floating_point else None)


def one(f):
    return lambda x, w: f(x[0])


def two(f):
    return lambda x, w: f(x[0], x[1])


def number(f):
    return lambda x, w: f(x[0], w['number'])


def nll_loss(x, w):
    """Of contiguous x, because PyTorch's gradient of images with other strides is an error."""
    return F.nll_loss(x[0].contiguous(), indices_of(w), classes_weight(x, 1), ignore_index=w['ignore'],
                      reduction=w['reduction'])


def classes_weight(x, place):
    return x[place].detach() if len(x) > place else None


OPERATORS = {
    # Of one tensor, each element by itself
    'neg': one(torch.neg), 'abs': one(torch.abs), 'sign': one(torch.sign), 'square': one(torch.square),
    'exp': one(torch.exp), 'expm1': one(torch.expm1), 'log': one(torch.log), 'log1p': one(torch.log1p),
    'sqrt': one(torch.sqrt), 'rsqrt': one(torch.rsqrt), 'reciprocal': one(torch.reciprocal), 'sin': one(torch.sin),
    'cos': one(torch.cos), 'tan': one(torch.tan), 'asin': one(torch.asin), 'acos': one(torch.acos),
    'atan': one(torch.atan), 'sinh': one(torch.sinh), 'cosh': one(torch.cosh), 'tanh': one(torch.tanh),
    'asinh': one(torch.asinh), 'acosh': one(torch.acosh), 'atanh': one(torch.atanh), 'sigmoid': one(torch.sigmoid),
    'erf': one(torch.erf), 'relu': one(torch.relu), 'gelu': one(F.gelu),
    'gelu_tanh': lambda x, w: F.gelu(x[0], approximate='tanh'), 'silu': one(F.silu),
    'softplus': lambda x, w: F.softplus(x[0], w['beta'], w['threshold']),
    'leaky_relu': lambda x, w: F.leaky_relu(x[0], 0.2), 'elu': lambda x, w: F.elu(x[0], 1.5),
    'floor': one(torch.floor), 'ceil': one(torch.ceil), 'round': one(torch.round), 'trunc': one(torch.trunc),
    'nan_to_num': lambda x, w: x[0].nan_to_num(2, 3, -3), 'clamp': lambda x, w: x[0].clamp(w['low'], w['high']),
    'dropout': lambda x, w: F.dropout(x[0], w['p'], w['training']), 'bitwise_not': one(torch.bitwise_not),
    'logical_not': one(torch.logical_not), 'isnan': one(torch.isnan), 'isfinite': one(torch.isfinite),
    # Of several tensors
    'add': two(torch.add), 'add_relu': lambda x, w: torch.relu(x[0] + x[1]), 'sub': two(torch.sub),
    'mul': two(torch.mul), 'div': two(torch.div), 'pow': two(torch.pow),
    'floor_divide': lambda x, w: torch.div(x[0], x[1], rounding_mode='floor'), 'remainder': two(torch.remainder),
    'atan2': two(torch.atan2), 'maximum': two(torch.maximum), 'minimum': two(torch.minimum),
    'relu_gradient': lambda x, w: x[0].masked_fill(x[1] <= 0, 0), 'bitwise_and': two(torch.bitwise_and),
    'bitwise_or': two(torch.bitwise_or), 'bitwise_xor': two(torch.bitwise_xor), 'eq': two(torch.eq),
    'ne': two(torch.ne), 'lt': two(torch.lt), 'le': two(torch.le), 'gt': two(torch.gt), 'ge': two(torch.ge),
    'logical_and': two(torch.logical_and), 'logical_or': two(torch.logical_or),
    'lerp': lambda x, w: lerp(*x), 'where': lambda x, w: torch.where(*x),
    # Of a tensor and a number
    'add_number': number(torch.add), 'sub_number': number(torch.sub), 'mul_number': number(torch.mul),
    'div_number': number(torch.div), 'pow_number': number(torch.pow),
    'floor_divide_number': lambda x, w: torch.div(x[0], w['number'], rounding_mode='floor'),
    'remainder_number': number(torch.remainder),
    'maximum_number': lambda x, w: torch.maximum(x[0], as_tensor(w['number'], x[0])),
    'minimum_number': lambda x, w: torch.minimum(x[0], as_tensor(w['number'], x[0])),
    'eq_number': number(torch.eq), 'lt_number': number(torch.lt), 'ge_number': number(torch.ge),
    'number_sub': lambda x, w: w['number'] - x[0], 'number_div': lambda x, w: w['number'] / x[0],
    'number_pow': lambda x, w: torch.pow(w['number'], x[0]),
    'lerp_number': lambda x, w: lerp(x[0], x[1], w['number']),
    # Tensors from nothing
    'zeros': lambda x, w: torch.zeros(w['shape'], dtype=w['dtype']),
    'ones': lambda x, w: torch.ones(w['shape'], dtype=w['dtype']),
    'full': lambda x, w: torch.full(w['shape'], w['number'], dtype=w['dtype']),
    'zeros_like': one(torch.zeros_like), 'ones_like': one(torch.ones_like), 'full_like': number(torch.full_like),
    'arange': lambda x, w: torch.arange(w['start'], w['end'], w['step']),
    'linspace': lambda x, w: torch.linspace(w['start'], w['end'], w['steps'], dtype=w['dtype']),
    'logspace': lambda x, w: torch.logspace(w['start'], w['end'], w['steps'], w['base'], dtype=w['dtype']),
    'eye': lambda x, w: torch.eye(w['n'], dtype=w['dtype']),
    'one_hot': lambda x, w: F.one_hot(indices_of(w), w['classes']),
    # Views
    'reshape': lambda x, w: x[0].reshape(w['shape']), 'flatten': lambda x, w: x[0].flatten(w['first'], w['last']),
    'permute': lambda x, w: x[0].permute(w['order']),
    'transpose': lambda x, w: x[0].transpose(w['axis0'], w['axis1']),
    'slice': lambda x, w: x[0][(slice(None),) * (w['axis'] % x[0].dim()) + (slice(w['start'], w['end'], w['step']),)],
    'select': lambda x, w: x[0].select(w['axis'], w['index']), 'brackets': lambda x, w: x[0][brackets_of(w)],
    'squeeze': lambda x, w: squeezed(x[0], w['axes']), 'unsqueeze': lambda x, w: x[0].unsqueeze(w['axis']),
    'split': lambda x, w: x[0].split(w['size'], w['axis'])[w['piece']],
    'split_sizes': lambda x, w: x[0].split(w['sizes'], w['axis'])[w['piece']],
    'chunk': lambda x, w: x[0].chunk(w['count'], w['axis'])[w['piece']],
    'expand': lambda x, w: x[0].expand(w['shape']),
    'diagonal': lambda x, w: x[0].diagonal(w['offset'], w['axis0'], w['axis1']),
    'unfold': lambda x, w: x[0].unfold(w['axis'], w['size'], w['step']),
    'meshgrid': lambda x, w: torch.meshgrid(*x, indexing='xy' if w['xy'] else 'ij')[w['piece']],
    'detach': lambda x, w: x[0].detach(),
    # Copies
    'clone': one(torch.clone), 'contiguous': lambda x, w: x[0].contiguous(),
    'to_layout': lambda x, w: x[0].contiguous(memory_format=torch.channels_last),
    'to': lambda x, w: x[0].to(w['dtype']), 'concatenate': lambda x, w: torch.cat(x, w['axis']),
    'stack': lambda x, w: torch.stack(x, w['axis']), 'sum_to': lambda x, w: x[0].sum_to_size(w['shape']),
    'brackets_backwards': lambda x, w: x[0].flip(0)[::w['step']],
    'tril': lambda x, w: x[0].tril(w['offset']), 'triu': lambda x, w: x[0].triu(w['offset']),
    'flip': lambda x, w: x[0].flip(w['axes']), 'roll': lambda x, w: x[0].roll(w['shifts'], w['axes']),
    'pad': lambda x, w: padded(x[0], w), 'repeat': lambda x, w: x[0].repeat(w['counts']),
    'tile': lambda x, w: x[0].tile(w['counts']),
    'repeat_interleave': lambda x, w: x[0].repeat_interleave(w['count'], w['axis']),
    'repeat_interleave_each': lambda x, w: x[0].repeat_interleave(indices_of(w), w['axis']),
    # In place
    'add_': lambda x, w: x[0].add_(x[1], alpha=w['alpha']), 'sub_': lambda x, w: x[0].sub_(x[1]),
    'mul_': lambda x, w: x[0].mul_(x[1]), 'div_': lambda x, w: x[0].div_(x[1]),
    'copy_': lambda x, w: x[0].copy_(x[1]), 'add_number_': lambda x, w: x[0].add_(w['number']),
    'mul_number_': lambda x, w: x[0].mul_(w['number']), 'fill_': lambda x, w: x[0].fill_(w['number']),
    'zero_': lambda x, w: x[0].zero_(), 'assign': lambda x, w: assigned(x[0], brackets_of(w), x[1]),
    'assign_positions': lambda x, w: assigned(x[0], indices_of(w), w['number']),
    'assign_mask': lambda x, w: assigned(x[0], x[1], w['number']),
    # By index
    'brackets_positions': lambda x, w: x[0][indices_of(w)], 'brackets_mask': lambda x, w: x[0][x[1]],
    'embedding': lambda x, w: F.embedding(indices_of(w), x[0]),
    'embedding_padding': lambda x, w: F.embedding(indices_of(w), x[0], w['padding']),
    'index_select': lambda x, w: x[0].index_select(w['axis'], indices_of(w)),
    'gather': lambda x, w: x[0].gather(w['axis'], indices_of(w)),
    'scatter_add': lambda x, w: x[0].scatter_add(w['axis'], indices_of(w), x[1]),
    'scatter': lambda x, w: x[0].scatter(w['axis'], indices_of(w), x[1]),
    'scatter_number': lambda x, w: x[0].scatter(w['axis'], indices_of(w), w['number']),
    'index_add': lambda x, w: x[0].index_add(w['axis'], indices_of(w), x[1], alpha=0.5),
    'index_fill': lambda x, w: index_fill(*x, w),
    'masked_fill': lambda x, w: x[0].masked_fill(x[1], w['number']),
    'masked_select': two(masked_select), 'nonzero': one(torch.nonzero),
    # By order
    'cumsum': lambda x, w: x[0].cumsum(w['axis']), 'cumprod': lambda x, w: x[0].cumprod(w['axis']),
    'sort': lambda x, w: x[0].sort(stable=True, dim=w['axis'], descending=w['descending'])[w['positions']],
    'max_with_indices': lambda x, w: x[0].max(w['axis'], w['keepdim'])[w['positions']],
    'min_with_indices': lambda x, w: x[0].min(w['axis'], w['keepdim'])[w['positions']],
    'argsort': lambda x, w: x[0].sort(stable=True, dim=w['axis'], descending=w['descending']).indices,
    'topk': lambda x, w: x[0].topk(w['k'], w['axis'], w['largest']).values,
    'searchsorted': lambda x, w: torch.searchsorted(x[0].sort(-1).values, x[1].contiguous(), right=w['right']),
    'unique': lambda x, w: torch.unique(x[0].detach(), return_inverse=True, return_counts=True)[w['piece']],
    'median': lambda x, w: x[0].median(w['axis'], w['keepdim']).values,
    'quantile': lambda x, w: torch.quantile(x[0], w['q'], w['axis'], w['keepdim']),
    # Many to one
    'sum': lambda x, w: x[0].sum(axes_of(x[0], w), w['keepdim']),
    'mean': lambda x, w: x[0].mean(axes_of(x[0], w), w['keepdim']),
    'prod': lambda x, w: over_axes(torch.prod, x[0], w),
    'logsumexp': lambda x, w: x[0].logsumexp(axes_of(x[0], w), w['keepdim']),
    'any': lambda x, w: over_axes(torch.any, x[0], w), 'all': lambda x, w: over_axes(torch.all, x[0], w),
    'max': lambda x, w: chosen(torch.amax, x[0], w), 'min': lambda x, w: chosen(torch.amin, x[0], w),
    'vector_norm': lambda x, w: torch.linalg.vector_norm(x[0], float(w['order']), axes_of(x[0], w), w['keepdim']),
    'var': lambda x, w: x[0].var(axes_of(x[0], w), correction=w['correction'], keepdim=w['keepdim']),
    'stddev': lambda x, w: x[0].std(axes_of(x[0], w), correction=w['correction'], keepdim=w['keepdim']),
    'argmax': lambda x, w: x[0].argmax(w['axis'], w['keepdim']),
    'argmin': lambda x, w: x[0].argmin(w['axis'], w['keepdim']),
    # Products
    'matmul': two(torch.matmul), 'bmm': two(torch.bmm), 'outer': two(torch.outer),
    'einsum': lambda x, w: torch.einsum(w['equation'], *x),
    'tensordot': lambda x, w: torch.tensordot(x[0], x[1], w['count']),
    'tensordot_axes': lambda x, w: torch.tensordot(x[0], x[1], (w['a_axes'], w['b_axes'])),
    'linear': lambda x, w: torch.relu(F.linear(*x)) if w['relu'] else F.linear(*x),
    # Linear algebra
    'cholesky': lambda x, w: torch.linalg.cholesky(positive_definite(x[0])), 'qr': one(of_qr), 'svd': one(of_svd),
    'eigh': one(of_eigh), 'solve': lambda x, w: torch.linalg.solve(of_full_rank(x[0]), x[1]),
    'inv': lambda x, w: torch.linalg.inv(of_full_rank(x[0])),
    'det': lambda x, w: torch.linalg.det(of_full_rank(x[0])),
    'slogdet': lambda x, w: torch.linalg.slogdet(of_full_rank(x[0]))[1],
    'lstsq': lambda x, w: torch.linalg.lstsq(of_full_rank(x[0]), x[1]).solution,
    # Convolution and windows
    'conv1d': lambda x, w: F.conv1d(*x, w['stride'], w['padding'], w['dilation'], w['groups']),
    'conv2d': lambda x, w: F.conv2d(*x, w['stride'], w['padding'], w['dilation'], w['groups']),
    'conv3d': lambda x, w: F.conv3d(*x, w['stride'], w['padding'], w['dilation'], w['groups']),
    'conv_transpose1d': lambda x, w: F.conv_transpose1d(
        *x, w['stride'], w['padding'], w['output_padding'], w['groups'], w['dilation']),
    'conv_transpose2d': lambda x, w: F.conv_transpose2d(
        *x, w['stride'], w['padding'], w['output_padding'], w['groups'], w['dilation']),
    'conv_transpose3d': lambda x, w: F.conv_transpose3d(
        *x, w['stride'], w['padding'], w['output_padding'], w['groups'], w['dilation']),
    'max_pool1d': lambda x, w: F.max_pool1d(x[0], w['kernel'], w['stride'], w['padding']),
    'max_pool2d': lambda x, w: F.max_pool2d(x[0], w['kernel'], w['stride'], w['padding']),
    'avg_pool1d': lambda x, w: F.avg_pool1d(
        x[0], w['kernel'], w['stride'], w['padding'], count_include_pad=w['count_include_pad']),
    'avg_pool2d': lambda x, w: F.avg_pool2d(
        x[0], w['kernel'], w['stride'], w['padding'], count_include_pad=w['count_include_pad']),
    'max_pool3d': lambda x, w: F.max_pool3d(x[0], w['kernel'], w['stride'], w['padding']),
    'avg_pool3d': lambda x, w: F.avg_pool3d(
        x[0], w['kernel'], w['stride'], w['padding'], count_include_pad=w['count_include_pad']),
    'adaptive_avg_pool2d': lambda x, w: F.adaptive_avg_pool2d(x[0], w['size']),
    'interpolate': lambda x, w: interpolated(x[0], w),
    # Normalization and attention
    'layer_norm': lambda x, w: F.layer_norm(x[0], x[1].shape, x[1], x[2]), 'rms_norm': two(rms_norm),
    'group_norm': lambda x, w: F.group_norm(x[0], w['groups'], x[1], x[2]),
    'instance_norm': lambda x, w: F.instance_norm(x[0], weight=x[1], bias=x[2]),
    'batch_norm': lambda x, w: batch_norm(x), 'batch_norm_relu': lambda x, w: torch.relu(batch_norm(x) + x[3]),
    'batch_norm_evaluation': lambda x, w: batch_norm_evaluation(x), 'scaled_dot_product_attention': attention,
    'rotary_embedding': lambda x, w: rotated(x[0], w),
    # Losses
    'softmax': lambda x, w: x[0].softmax(w['axis']), 'log_softmax': lambda x, w: x[0].log_softmax(w['axis']),
    'cross_entropy': lambda x, w: F.cross_entropy(
        x[0], indices_of(w), classes_weight(x, 1), ignore_index=w['ignore'], reduction=w['reduction'],
        label_smoothing=w['label_smoothing']),
    'nll_loss': nll_loss,
    'linear_cross_entropy': lambda x, w: F.cross_entropy(
        F.linear(*x[:3]), indices_of(w), classes_weight(x, 3), ignore_index=w['ignore'], reduction=w['reduction'],
        label_smoothing=w['label_smoothing']),
    'cosine_embedding_loss': lambda x, w: F.cosine_embedding_loss(
        *x, 1 - 2 * indices_of(w), 0.1, reduction=w['reduction']),
    'triplet_margin_loss': lambda x, w: F.triplet_margin_loss(*x, swap=w['swap'], reduction=w['reduction']),
    'huber_loss': lambda x, w: F.huber_loss(*x, reduction=w['reduction'], delta=0.7),
    'smooth_l1_loss': lambda x, w: F.smooth_l1_loss(*x, reduction=w['reduction'], beta=0.7),
    'kl_div': lambda x, w: F.kl_div(*x, reduction=w['reduction'], log_target=True),
    'mse_loss': lambda x, w: F.mse_loss(*x, reduction=w['reduction']),
    'l1_loss': lambda x, w: F.l1_loss(*x, reduction=w['reduction']),
    'bce_with_logits': lambda x, w: F.binary_cross_entropy_with_logits(
        x[0], x[1], pos_weight=x[2].detach(), reduction=w['reduction']),
    # Training
    'hook_on_result': hook_on_result, 'hook_on_input': hook_on_input,
    'checkpoint': lambda x, w: x[0].tanh() * x[1] + x[2] * x[0],
    'all_reduce': lambda x, w: reduced(of_ranks(x[0], w), w), 'broadcast': lambda x, w: of_ranks(x[0], w)[w['root']],
    'all_gather': lambda x, w: torch.cat(of_ranks(x[0], w)),
    'reduce_scatter': lambda x, w: reduced(of_ranks(x[0], w), w),
    'all_to_all': lambda x, w: torch.cat(of_ranks(x[0], w)),
    # Not in 16 bits, for which 1.13 lacks kernels that fill in place.
    'uniform_': lambda x, w: x[0].copy_(torch.rand(x[0].shape)),
    'normal_': lambda x, w: x[0].copy_(torch.randn(x[0].shape)),
    'exponential_': lambda x, w: x[0].copy_(torch.empty(x[0].shape).exponential_()),
    'bernoulli_': lambda x, w: x[0].copy_(torch.rand(x[0].shape) < 0.5),
    # Derivatives of wave()
    'jacobian': lambda x, w: torch.autograd.functional.jacobian(wave, x[0].detach()),
    'hessian': lambda x, w: torch.autograd.functional.hessian(lambda y: wave(y).sum(), x[0].detach()),
    'jvp': lambda x, w: torch.autograd.functional.jvp(wave, x[0].detach(), x[1].detach())[1],
}

# --- Running a step and a program ---


def deciding_dtypes(x):
    """The floating dtypes that a result's dtype comes from: one without axes counts only beside no other."""
    floating = [t for t in x if t.dtype.is_floating_point]
    return [t.dtype for t in floating if t.dim()] or [t.dtype for t in floating]


def apply(step, x, widened=False):
    """A step's result. Where PyTorch has no kernel for a 16-bit dtype, that of float32, rounded."""
    w = dict(step['with'])
    if 'dtype' in w:
        w['dtype'] = DTYPES[w['dtype']]
        if widened and w['dtype'].is_floating_point:
            w['dtype'] = torch.float64
    f = OPERATORS[step['op']]
    try:
        if not (IS_OLD and step['op'] in OLD_IN_FLOAT32 and x[0].dtype in NARROW):
            return f(x, w)
    except RuntimeError:
        if not any(t.dtype in NARROW for t in x):
            raise
    y = f([t.float() if t.dtype in NARROW else t for t in x], w)
    dtypes = deciding_dtypes(x)
    is_narrow = y.dtype == torch.float32 and torch.float32 not in dtypes
    return y.to(next(dtype for dtype in dtypes if dtype in NARROW)) if is_narrow else y


class Forced(torch.autograd.Function):
    """Other values in place of y, to which its gradient passes."""

    @staticmethod
    def forward(ctx, y, values):
        return values.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def same(a, b):
    """True if all values are equal, with the signs of zeros."""
    equal = (a == b) & (a.signbit() == b.signbit()) if a.dtype.is_floating_point else a == b
    return bool((equal | ((a != a) & (b != b))).all())


def forced(y, values, is_in_place):
    values = values.to(y.dtype)
    if y.shape != values.shape or same(y.detach(), values):
        return y  # also a view, which so keeps sharing its memory
    if not is_in_place:
        return Forced.apply(y, values)
    with torch.no_grad():
        y.copy_(values)
    return y


def input_of(given, widened):
    dtype = DTYPES[given['dtype']]
    x = torch.tensor([float(v) for v in given['values']], dtype=torch.float64).reshape(given['shape']).to(dtype)
    if widened and dtype.is_floating_point:
        x = x.double()
    order, gap = given['order'], given['gap']
    if order:
        stored = [x.shape[axis] for axis in order]
        memory = torch.zeros(stored[:-1] + [stored[-1] * gap], dtype=x.dtype)
        view = memory[..., ::gap].permute([order.index(axis) for axis in range(x.dim())])
        x = view.copy_(x)
    return x.requires_grad_(given['learns'])


def weights_of(x):
    return ((7 * torch.arange(x.numel(), dtype=torch.float64) % 11 - 5.5) / 4).reshape(x.shape)


def ramp(x):
    return torch.linspace(0.5, 1.5, x.numel(), dtype=torch.float64).reshape(x.shape)


def weighted_sum(tensors, weights):
    parts = [(x.double() * weights(x)).sum() for x in tensors if x is not None and x.requires_grad]
    return sum(parts) if parts else None


def differentiate(y, inputs, create_graph):
    if y is None or not y.requires_grad:
        return [None] * len(inputs)
    return list(torch.autograd.grad(y, inputs, create_graph=create_graph, retain_graph=True, allow_unused=True))


def run(program, ours, widened):
    """PyTorch's results of the steps, from our results of earlier ones, and gradients at our values.

    `ours` are our results of the first steps, perhaps not of all; later ones begin with PyTorch's. If widened, all
    floating dtypes are float64. "second" is None if PyTorch has no second derivative of an operator.
    """
    torch.set_default_dtype(torch.float64 if widened else torch.float32)
    try:
        tensors = [input_of(given, widened) for given in program['inputs']]
        learning = [x for x, given in zip(tensors, program['inputs']) if given['learns']]
        results = []
        for k, step in enumerate(program['steps']):
            with torch.set_grad_enabled(step['recorded']):
                y = apply(step, [tensors[i] for i in step['in']], widened)
            results.append(y.detach().clone())
            tensors.append(forced(y, ours[k], step['op'] in IN_PLACE) if k < len(ours) else y)
        loss = weighted_sum([tensors[i] for i in program['sinks']], weights_of)
        gradients = differentiate(loss, learning, True)
        try:
            second = differentiate(weighted_sum(gradients, ramp), learning, False)
        except RuntimeError:
            second = None
        return {'steps': results, 'gradients': gradients, 'second': second}
    finally:
        torch.set_default_dtype(torch.float32)
