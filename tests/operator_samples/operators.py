"""OPERATORS: PyTorch's operators that are ours as well, and how a call of PyTorch's reads here.

A row names our function, then the parameters of PyTorch's that ours takes by position, then those that it takes by
keyword, `theirs=ours` where the names differ. A name with a variant, as in `max|reduction_with_dim`, is one of op_db's.
A call is said here if every argument that it gives is in the row, is the value that `only` demands, or is in `free`.
"""
from dataclasses import dataclass, field
from typing import Callable


@dataclass
class Row:
    ours: str
    positional: str = 'input'
    keywords: str = ''
    order: str = ''         # PyTorch's order of parameters, if it is not that of the row
    only: dict = field(default_factory=dict)  # arguments that ours lacks, and the value that changes nothing
    must: dict = field(default_factory=dict)  # arguments that the call must give
    free: str = ''          # arguments that change nothing that is compared
    given: dict = field(default_factory=dict)  # what ours gets where PyTorch's call gives nothing: theirs' defaults
    copied: dict = field(default_factory=dict)  # the same, from another of the call's arguments
    if_: Callable = None    # of the call's arguments by name: false if ours cannot say them
    is_variadic: bool = False  # PyTorch's takes as many tensors as there are
    first: bool = False     # only PyTorch's first result is ours
    is_random: bool = False  # only shapes and dtypes are compared
    splat: str = ''         # an argument that is two of ours, if it is a pair
    rest: str = ''          # PyTorch's last parameter, which may be given as several arguments
    is_1d: bool = False     # (2,) is 2
    tensors: str = ''       # arguments that may be lists at PyTorch's
    constant: tuple = ()    # results without a gradient, at PyTorch's with one of zeros
    why: str = ''           # why a result differs, if one does


def rows(names, *args, **kwargs):
    return {name: Row(name.split('|')[0].rpartition('.')[2], *args, **kwargs) for name in names.split()}


REDUCED = {'only': {'dtype': None}}
CONV = 'stride padding dilation groups'
CONV_TRANSPOSE = 'stride padding output_padding groups dilation'
MAX_POOL = {'only': {'dilation': 1, 'ceil_mode': False, 'return_indices': False}, 'copied': {'stride': 'kernel_size'}}
AVG_POOL = {'only': {'ceil_mode': False, 'divisor_override': None}, 'copied': {'stride': 'kernel_size'},
            'given': {'count_include_pad': True}}
EPS = 'eps of the dtype'
CHOICE = 'which of equal elements comes first'
SORTED = {'free': 'stable sorted', 'why': CHOICE}
WHOLE = 'for int64, PyTorch cuts start and end to whole numbers first'
MADE = {'free': 'layout pin_memory'}
RANDOM = {'is_random': True, 'only': {'generator': None}}


def of_one_axis(call):
    """more than one axis"""
    return len(call['normalized_shape']) == 1


def has_dtype(call):
    """another order of arguments"""
    return not isinstance(call.get('dtype'), bool)


OPERATORS = {
    # Each element by itself
    **rows('abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf exp expm1 floor isfinite isnan log log1p '
           'logical_not neg reciprocal rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc'),
    **rows('nn.functional.relu nn.functional.silu', only={'inplace': False}),
    **rows('round round|decimals_0 round|decimals_3 round|decimals_neg_3', only={'decimals': 0}),
    **rows('add sub', 'input other', only={'alpha': 1}),
    **rows('mul pow remainder atan2 maximum minimum eq ne lt le gt ge logical_and logical_or bitwise_and bitwise_or '
           'bitwise_xor floor_divide', 'input other'),
    'div|no_rounding_mode': Row('div', 'input other', only={'rounding_mode': None}),
    'div|floor_rounding': Row('floor_divide', 'input other', must={'rounding_mode': 'floor'}),
    'true_divide': Row('div', 'input other'),
    'max|binary': Row('maximum', 'input other'), 'min|binary': Row('minimum', 'input other'),
    'rsub': Row('sub', 'other input', order='input other', only={'alpha': 1}),
    '__radd__': Row('add', 'input other'), '__rmul__': Row('mul', 'input other'),
    '__rsub__': Row('sub', 'other input', order='input other'),
    '__rdiv__': Row('div', 'other input', order='input other'),
    '__rpow__': Row('pow', 'other input', order='input other'),
    '__rmod__': Row('remainder', 'other input', order='input other'),
    '__rmatmul__': Row('matmul', 'other input', order='input other'),
    '__rand__': Row('bitwise_and', 'input other'), '__ror__': Row('bitwise_or', 'input other'),
    '__rxor__': Row('bitwise_xor', 'input other'),
    'clamp': Row('clamp', 'input min max'),
    'nn.functional.hardtanh': Row('clamp', 'input', 'min_val=low max_val=high', only={'inplace': False},
                                  given={'low': -1, 'high': 1}, why='bounds that are no whole numbers make int64 float32, '
                                  'as in clamp'),
    'lerp': Row('lerp', 'input end weight'),
    'where': Row('where', 'condition input other', order='input condition other'),
    'nan_to_num': Row('nan_to_num', 'input', 'nan posinf=high neginf=low'),
    'nn.functional.gelu': [Row('gelu', only={'approximate': 'none'}), Row('gelu_tanh', must={'approximate': 'tanh'})],
    'nn.functional.leaky_relu': Row('leaky_relu', 'input', 'negative_slope=slope', only={'inplace': False}),
    'nn.functional.elu': Row('elu', 'input', 'alpha', only={'inplace': False}),
    'nn.functional.softplus': Row('softplus', 'input', 'beta threshold'),
    **rows('softmax log_softmax softmax|with_dtype '
           'log_softmax|with_dtype', 'input', 'dim=axis', **REDUCED),
    'nn.functional.dropout': Row('dropout', 'input', 'p training', only={'inplace': False}, given={'p': 0.5},
                                 is_random=True),
    # Shape and place
    'clone': Row('clone', free='memory_format'), 'contiguous': Row('contiguous', free='memory_format'),
    'reshape': Row('reshape', 'input shape'), 'reshape_as': Row('reshape', 'input other'),
    'flatten': Row('flatten', 'input', 'start_dim=first end_dim=last'),
    'permute': Row('permute', 'input dims'), 'transpose': Row('transpose', 'input dim0 dim1'),
    'select': Row('select', 'input dim index'), 'slice': Row('slice', 'input dim start end step'),
    'squeeze': Row('squeeze', 'input', 'dim=axes'), 'squeeze|multiple': Row('squeeze', 'input', 'dim=axes', why='an empty list of axes means all'),
    'unsqueeze': Row('unsqueeze', 'input dim'),
    'split': Row('split', 'input split_size', 'dim=axis'), 'split|list_args': Row('split_sizes', 'input split_size', 'dim=axis'),
    'split_with_sizes': Row('split_sizes', 'input split_sizes', 'dim=axis'),
    'chunk': Row('chunk', 'input chunks', 'dim=axis'),
    'expand': Row('expand', 'input size'), 'broadcast_to': Row('expand', 'input size'),
    'diagonal': Row('diagonal', 'input', 'offset dim1=axis0 dim2=axis1'),
    'linalg.diagonal': Row('diagonal', 'input', 'offset dim1=axis0 dim2=axis1', given={'axis0': -2, 'axis1': -1}),
    'unfold': Row('unfold', 'input dimension size step'),
    'meshgrid|variadic_tensors': Row('meshgrid', 'input', 'indexing', is_variadic=True),
    'meshgrid|list_of_tensors': Row('meshgrid', 'input', 'indexing'),
    'cat': Row('concatenate', 'tensors', 'dim=axis'), 'stack': Row('stack', 'tensors', 'dim=axis'),
    'sum_to_size': Row('sum_to', 'input size', rest='size'),
    'tril': Row('tril', 'input', 'diagonal'), 'triu': Row('triu', 'input', 'diagonal'),
    'flip': Row('flip', 'input dims'), 'roll': Row('roll', 'input shifts dims', given={'dims': []}),
    **rows('nn.functional.pad|constant nn.functional.pad|reflect nn.functional.pad|replicate '
           'nn.functional.pad|replicate_negative nn.functional.pad|circular', 'input pad', 'mode value'),
    'repeat': Row('repeat', 'input repeats'), 'tile': Row('tile', 'input dims'),
    'repeat_interleave': Row('repeat_interleave', 'input repeats', 'dim=axis', only={'output_size': None}),
    '__getitem__': Row('__getitem__', 'input index'),
    'to': [Row('to', 'input dtype', order='input device dtype non_blocking copy', free='device copy non_blocking memory_format',
               if_=has_dtype),
           Row('to', 'input dtype', order='input dtype non_blocking copy', free='copy non_blocking memory_format')],
    **{name: Row('to', 'input', given={'dtype': dtype}, free='memory_format') for name, dtype in {
        'bfloat16': 'bfloat16', 'bool': 'bool_', 'byte': 'uint8', 'double': 'float64', 'float': 'float32', 'half': 'float16',
        'int': 'int32', 'long': 'int64'}.items()},
    # Indices and masks
    'nn.functional.embedding': Row('embedding', 'weight indices', 'padding_idx=padding_index', only={
        'max_norm': None, 'norm_type': 2.0, 'scale_grad_by_freq': False, 'sparse': False}),
    'gather': Row('gather', 'input dim index', only={'sparse_grad': False}),
    'scatter_add': Row('scatter_add', 'input dim index src'),
    'scatter': [Row('scatter', 'input dim index src', only={'reduce': None}), Row('scatter', 'input dim index value')],
    'index_select': Row('index_select', 'input dim index'),
    'index_add': Row('index_add', 'input dim index source', 'alpha'), 'index_fill': Row('index_fill', 'input dim index value'),
    'masked_fill': Row('masked_fill', 'input mask value'), 'masked_select': Row('masked_select', 'input mask'),
    'nonzero': Row('nonzero', only={'as_tuple': False}), 'argwhere': Row('nonzero'),
    'nn.functional.one_hot': Row('one_hot', 'tensor num_classes'),
    # Many to one
    **rows('sum mean prod any all', 'input', 'dim=axes keepdim', **REDUCED),
    **rows('amax amin', 'input', 'dim=axes keepdim'),
    'var': Row('var', 'input', 'dim=axes unbiased=correction correction keepdim'), 'std': Row('stddev', 'input', 'dim=axes unbiased=correction correction keepdim'),
    'var|unbiased': Row('var', 'input', 'unbiased=correction'),
    'std|unbiased': Row('stddev', 'input', 'unbiased=correction'),
    'logsumexp': Row('logsumexp', 'input', 'dim=axes keepdim'),
    'linalg.vector_norm': Row('vector_norm', 'input', 'ord=order dim=axes keepdim', **REDUCED),
    'max|reduction_no_dim': Row('max'), 'min|reduction_no_dim': Row('min'),
    'max|reduction_with_dim': Row('max_with_indices', 'input', 'dim=axis keepdim'),
    'min|reduction_with_dim': Row('min_with_indices', 'input', 'dim=axis keepdim'),
    **rows('argmax argmin', 'input', 'dim=axis keepdim'),
    'median': Row('median', 'input', 'dim=axis keepdim', first=True),
    'quantile': Row('quantile', 'input q', 'dim=axis keepdim', only={'interpolation': 'linear'}),
    # Order
    **rows('cumsum cumprod', 'input dim', **REDUCED),
    'sort': Row('sort', 'input', 'dim=axis descending', **SORTED), 'argsort': Row('argsort', 'input', 'dim=axis descending', **SORTED),
    'topk': Row('topk', 'input k', 'dim=axis largest', **SORTED),
    'searchsorted': Row('searchsorted', 'sorted_sequence input', 'right', only={'out_int32': False, 'side': None, 'sorter': None}),
    'unique': Row('unique', free='sorted', must={'return_inverse': True, 'return_counts': True}, only={'dim': None}),
    # Products
    **rows('matmul mm mv dot', 'input other'), 'bmm': Row('bmm', 'input mat2'), 'outer': Row('outer', 'input vec2'),
    'tensordot': Row('tensordot', 'input other dims', splat='dims'),
    'einsum': Row('einsum', 'equation tensors', order='tensors equation'),
    'nn.functional.linear': Row('linear', 'input weight bias', given={'bias': None}),
    # Linear algebra
    'linalg.cholesky': Row('linalg.cholesky', only={'upper': False}), 'linalg.qr': Row('linalg.qr', only={'mode': 'reduced'}),
    'linalg.solve': Row('linalg.solve', 'input B', only={'left': True}, why='B of one axis less than A is a matrix for all, '
                        'not a batch of vectors'), 'linalg.inv': Row('linalg.inv'),
    'linalg.det': Row('linalg.det'), 'linalg.slogdet': Row('linalg.slogdet', constant=(0,)),
    'linalg.lstsq': Row('linalg.lstsq', 'input b', first=True, free='driver', only={'rcond': None}),
    'linalg.lstsq|grad_oriented': Row('linalg.lstsq', 'input b', first=True, free='driver', only={'rcond': None}),
    # Convolution and windows
    **rows('nn.functional.conv2d nn.functional.conv3d', 'input weight bias', CONV, given={'bias': None}),
    **rows('nn.functional.conv1d', 'input weight bias', CONV, given={'bias': None}, is_1d=True),
    **rows('nn.functional.conv_transpose2d nn.functional.conv_transpose3d', 'input weight bias', CONV_TRANSPOSE,
           given={'bias': None}),
    **rows('nn.functional.conv_transpose1d', 'input weight bias', CONV_TRANSPOSE, given={'bias': None}, is_1d=True),
    **rows('nn.functional.interpolate|nearest nn.functional.interpolate|bilinear', 'input', 'size scale_factor=scale mode align_corners',
           only={'recompute_scale_factor': None, 'antialias': False}),
    **rows('nn.functional.max_pool2d nn.functional.max_pool3d', 'input', 'kernel_size=kernel stride padding',
           order='input kernel_size stride padding dilation ceil_mode return_indices', **MAX_POOL),
    **rows('nn.functional.max_pool1d', 'input', 'kernel_size=kernel stride padding',
           order='input kernel_size stride padding dilation ceil_mode return_indices', is_1d=True, **MAX_POOL),
    **rows('nn.functional.avg_pool1d', 'input', 'kernel_size=kernel stride padding count_include_pad',
           order='input kernel_size stride padding ceil_mode count_include_pad', is_1d=True, **AVG_POOL),
    **rows('nn.functional.avg_pool2d nn.functional.avg_pool3d', 'input', 'kernel_size=kernel stride padding count_include_pad',
           order='input kernel_size stride padding ceil_mode count_include_pad divisor_override', **AVG_POOL),
    'nn.functional.adaptive_avg_pool2d': Row('adaptive_avg_pool2d', 'input output_size'),
    # Normalization
    **rows('nn.functional.batch_norm', 'input weight bias', 'running_mean running_var training momentum eps',
           order='input running_mean running_var weight bias training momentum eps',
           given={'training': False, 'weight': None, 'bias': None}),
    'nn.functional.group_norm': Row('group_norm', 'input num_groups weight bias', 'eps'),
    'nn.functional.instance_norm': Row('instance_norm', 'input weight bias', 'eps', free='momentum',
        order='input running_mean running_var weight bias use_input_stats momentum eps', given={'weight': None, 'bias': None},
        only={'running_mean': None, 'running_var': None, 'use_input_stats': True}),
    'nn.functional.layer_norm': Row('layer_norm', 'input weight bias', 'eps', order='input normalized_shape weight bias eps',
                                    free='normalized_shape', if_=of_one_axis, given={'weight': None, 'bias': None},
                                    why='of one element, the gradient 0 is a difference of numbers near 300'),
    'nn.functional.rms_norm': Row('rms_norm', 'input weight', 'eps', order='input normalized_shape weight eps',
                                  free='normalized_shape', if_=of_one_axis, given={'weight': None, 'eps': EPS}),
    # Attention
    'nn.functional.scaled_dot_product_attention': Row(
        'scaled_dot_product_attention', 'query key value', 'attn_mask=mask is_causal=causal scale',
        order='query key value attn_mask dropout_p is_causal scale enable_gqa', free='enable_gqa', only={'dropout_p': 0}),
    # Losses
    'nn.functional.cross_entropy': Row('cross_entropy', 'input target', 'weight ignore_index reduction label_smoothing'),
    'nn.functional.nll_loss': Row('nll_loss', 'input target', 'weight ignore_index reduction'),
    'nn.functional.ctc_loss': Row(
        'ctc_loss', 'log_probs targets input_lengths target_lengths', 'blank reduction zero_infinity',
        tensors='input_lengths target_lengths', why="PyTorch's gradient is only right after log_softmax; ours is the derivative"),
    'nn.functional.cosine_embedding_loss': Row('cosine_embedding_loss', 'input1 input2 target', 'margin reduction'),
    'nn.functional.triplet_margin_loss': Row('triplet_margin_loss', 'anchor positive negative', 'margin p eps swap reduction'),
    'nn.functional.linear_cross_entropy': Row('linear_cross_entropy', 'input linear_weight target',
                                              'linear_bias weight ignore_index label_smoothing reduction'),
    **rows('nn.functional.mse_loss nn.functional.l1_loss', 'input target', 'reduction', only={'weight': None}),
    'nn.functional.binary_cross_entropy_with_logits': Row('bce_with_logits', 'input target', 'reduction pos_weight=positive_weight',
                                                          only={'weight': None}),
    'nn.functional.huber_loss': Row('huber_loss', 'input target', 'reduction delta', only={'weight': None}),
    'nn.functional.smooth_l1_loss': Row('smooth_l1_loss', 'input target', 'reduction beta'),
    'nn.functional.kl_div': Row('kl_div', 'input target', 'reduction log_target'),
    # From nothing
    'arange': Row('arange', 'start end step', **REDUCED), 'linspace': Row('linspace', 'start end steps', 'dtype', why=WHOLE),
    'logspace': Row('logspace', 'start end steps base', 'dtype', why=WHOLE),
    'eye': Row('eye', 'n', 'dtype requires_grad', order='n m', only={'m': None}, **MADE),
    **rows('zeros ones', 'size', 'dtype requires_grad', **MADE), 'full': Row('full', 'size fill_value', 'dtype requires_grad', **MADE),
    **rows('zeros_like ones_like', 'input', **REDUCED), 'full_like': Row('full_like', 'input fill_value', **REDUCED),
    'empty': Row('empty', 'size', 'dtype requires_grad', is_random=True, **MADE), 'empty_like': Row('empty_like', 'input dtype', is_random=True),
    'scalar_tensor': Row('scalar_tensor', 'input', 'dtype requires_grad', **MADE),
    'rand_like': Row('rand_like', 'input', is_random=True, **REDUCED), 'randn_like': Row('randn_like', 'input', is_random=True, **REDUCED),
    'bernoulli': Row('bernoulli', **RANDOM),
    'multinomial': Row('multinomial', 'input num_samples replacement', **RANDOM),
}
OPERATORS['amax'].ours, OPERATORS['amin'].ours = 'max', 'min'
for name in ('mm', 'mv', 'dot'):
    OPERATORS[name].ours = 'matmul'
