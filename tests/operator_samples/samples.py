"""Runs PyTorch's samples of an operator here and there. See README.md."""
import os
import sys
from pathlib import Path

import torch
import torch.testing._internal.common_methods_invocations as invocations

import ringrad as rr
from operators import EPS, OPERATORS

sys.path.append(str(Path(__file__).resolve().parents[1] / 'fuzz_torch'))
from compare import first_difference, tolerance  # noqa: E402

DTYPES = {'float64': torch.float64, 'float32': torch.float32, 'bfloat16': torch.bfloat16, 'int64': torch.int64}
OURS = {torch.bool: rr.bool_, torch.uint8: rr.uint8, **{getattr(torch, name): getattr(rr, name) for name in (
    'float64', 'float32', 'float16', 'bfloat16', 'int64', 'int32')}}
ENUMS = {'reduction': rr.Reduction, 'mode': None, 'indexing': rr.Indexing}

EQUAL, DIFFERS, REFUSED, UNSAID, SKIPPED = '=xr-s'
ACCEPTED = 'a'  # of calls that PyTorch refuses


class Unsaid(Exception):
    """Ours has no such argument."""


# --- From PyTorch's calls to ours ---


def ours_of(value, learns=None):
    """The value for our side; tensors that require a gradient are noted in `learns`."""
    if isinstance(value, torch.Tensor):
        if value.dtype not in OURS or value.layout != torch.strided or value.is_quantized:
            raise Unsaid(f'{value.layout} {value.dtype}'.replace('torch.strided torch.', '').replace('torch.', ''))
        x = rr.from_dlpack(value.detach().clone())
        if value.requires_grad:
            x.requires_grad = True
            if learns is not None:
                learns.append(x)
        return x
    if isinstance(value, torch.dtype):
        if value not in OURS:
            raise Unsaid(str(value).replace('torch.', ''))
        return OURS[value]
    if isinstance(value, complex):
        raise Unsaid('a complex number')
    if isinstance(value, (list, tuple)):
        return type(value)(ours_of(v, learns) for v in value) if type(value) in (list, tuple) else [ours_of(v, learns) for v in value]
    return value


def ours_named(name, value, row):
    """Names of PyTorch's as values of our enumerations."""
    if name == 'dtype' and isinstance(value, str):
        return getattr(rr, value)
    if not isinstance(value, str) or name not in ENUMS:
        return value
    enum = ENUMS[name] or (rr.PadMode if row.ours == 'pad' else rr.Interpolation)
    if not hasattr(enum, value):
        raise Unsaid(f'{name}={value}')
    return getattr(enum, value)


def pairs(text):
    return dict((part.split('=') * 2)[:2] for part in text.split())


def call_of(row, sample, learns):
    """(function, arguments, keywords) of ours."""
    given = pairs(row.keywords)
    free = row.free.split()
    order = (row.order or ' '.join([row.positional, *given, *row.only, *row.must])).split()
    values = [sample.input, *sample.args]
    if row.is_variadic:
        values = [[sample.input, *sample.args]]
    if row.rest and len(values) > len(order):
        values[len(order) - 1:] = [values[len(order) - 1:]]
    if len(values) > len(order):
        raise Unsaid(f'{len(values)} arguments')
    call = dict(zip(order, values)) | {k: v for k, v in sample.kwargs.items() if k != 'device'}
    for name in row.tensors.split():
        call[name] = torch.as_tensor(call[name])
    if row.is_1d:
        call = {k: v[0] if isinstance(v, tuple) and len(v) == 1 else v for k, v in call.items()}
    for name, value in row.must.items():
        if call.pop(name, None) != value:
            raise Unsaid(f'without {name}={value}')
    for name, value in row.only.items():
        if name in call and name not in given and name not in free:
            got = call.pop(name)
            parts = got if isinstance(got, (list, tuple)) else [got]  # dilation=(1, 1) is 1
            if isinstance(got, torch.Tensor) or any(part != value for part in parts):
                raise Unsaid(f'`{name}`')
    if row.if_ and not row.if_(call):
        raise Unsaid(row.if_.__doc__)
    for name, source in row.copied.items():
        if call.get(name) is None:
            call[name] = call[source]
    positional, keywords = [], {}
    for name in row.positional.split():
        if name not in call:
            if name not in row.given:
                break
            call[name] = row.given[name]
        value = ours_named(name, ours_of(call.pop(name), learns), row)
        positional += value if name == row.splat and isinstance(value, (list, tuple)) else [value]
    for name in free:
        call.pop(name, None)
    for name, value in call.items():
        if name not in given:
            raise Unsaid(f'`{name}`')
        if value is not None:
            keywords[given[name]] = ours_named(name, ours_of(value, learns), row)
    for name, value in row.given.items():
        if name not in row.positional.split():
            value = torch.finfo(sample.input.dtype).eps if value == EPS else value
            keywords.setdefault(name, ours_named(name, value, row))
    if row.ours == '__getitem__':
        return lambda x, index: x[index], positional, keywords
    function = rr
    for part in row.ours.split('.'):
        function = getattr(function, part)
    return function, positional, keywords


def tensors_of(result):
    if isinstance(result, (torch.Tensor, rr.Tensor)):
        return [result]
    if isinstance(result, (list, tuple)) or type(result).__name__.endswith('Result'):
        return [x for part in result for x in tensors_of(part)]
    return []


def types_of(positional, keywords):
    names = [type(v).__name__ for v in positional] + [f'{k}: {type(v).__name__}' for k, v in keywords.items()]
    return f'({", ".join(names)})'.replace('NoneType', 'None')


def run_ours(op, sample):
    """(results, tensors that learn). Throws Unsaid, or what ours throws."""
    rows = OPERATORS[name_of(op)]
    unsaid = None
    for row in rows if isinstance(rows, list) else [rows]:
        learns = []
        try:
            function, positional, keywords = call_of(row, sample, learns)
            try:
                return tensors_of(function(*positional, **keywords)), learns
            except rr.Error:
                raise
            except (TypeError, OverflowError) as error:  # no such signature
                raise Unsaid(f'{row.ours}{types_of(positional, keywords)}') from error
        except Unsaid as error:
            unsaid = unsaid or error
    raise unsaid


# --- PyTorch's side ---


def name_of(op):
    return op.name + ('|' + op.variant_test_name if op.variant_test_name else '')


def ops():
    return {name_of(op): op for op in invocations.op_db if name_of(op) in OPERATORS}


def in_double(value):
    if isinstance(value, torch.Tensor):
        learns = value.requires_grad
        return value.detach().double().requires_grad_(learns) if value.is_floating_point() else value
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(in_double(v) for v in value)
    return value


def learning(value):
    if isinstance(value, torch.Tensor):
        return [value] if value.requires_grad else []
    if isinstance(value, (list, tuple)):
        return [x for part in value for x in learning(part)]
    return []


def leaves_of(op, sample):
    """PyTorch's tensors that learn, in the order in which call_of notes ours."""
    row = OPERATORS[name_of(op)]
    row = row[0] if isinstance(row, list) else row
    values = [sample.input, *sample.args, *sample.kwargs.values()]
    order = (row.order or row.positional).split()
    names = dict(zip(order, [sample.input, *sample.args])) | sample.kwargs if not row.is_variadic else {}
    first = [names.pop(name) for name in row.positional.split() if name in names]
    return learning([*first, *names.values()]) if names or first else learning(values)


def weights(results):
    """Weights of the results' elements in the sum whose gradient is compared."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(8, 25, x.shape, generator=generator).to(torch.float64) / 16 for x in results]


def constant_of(op):
    row = OPERATORS[name_of(op)]
    return () if isinstance(row, list) else row.constant


def gradients(results, inputs, w, constant):
    chosen = [k for k, x in enumerate(results) if x.requires_grad and k not in constant]
    if not chosen or not inputs:
        return None
    got = torch.autograd.grad([results[k] for k in chosen], inputs, [w[k].to(results[k].dtype) for k in chosen],
                              allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(got, inputs)]


def their_results(op, sample):
    torch.manual_seed(1)
    results = tensors_of(op.op(sample.input, *sample.args, **sample.kwargs))
    row = OPERATORS[name_of(op)]
    return results[:1] if not isinstance(row, list) and row.first else results


def truth_of(op, sample, results, inputs, learns):
    """The same in float64; (results, gradients), or PyTorch's own if float64 is another computation."""
    try:
        kwargs = {k: in_double(v) for k, v in sample.kwargs.items()}
        double = type(sample)(in_double(sample.input), args=tuple(in_double(v) for v in sample.args), kwargs=kwargs)
        truth = their_results(op, double)
        if [x.shape for x in truth] != [x.shape for x in results]:
            return None
        return truth, gradients(truth, leaves_of(op, double), weights(truth), constant_of(op)) if learns else None
    except RuntimeError:
        return None


# --- The comparison ---


def plain(x):
    return torch.from_dlpack(x.detach())


def compared(op, sample, dtype):
    """(status, what differs)."""
    name = name_of(op)
    row = OPERATORS[name]
    is_random = not isinstance(row, list) and row.is_random
    try:
        theirs = their_results(op, sample)
    except (RuntimeError, ValueError, IndexError, NotImplementedError, TypeError) as error:
        return SKIPPED, str(error)
    learns = leaves_of(op, sample) if not is_random else []
    try:
        ours, our_leaves = run_ours(op, sample)
    except Unsaid as error:
        return UNSAID, str(error)
    except rr.Error as error:
        return REFUSED, str(error)
    if len(ours) != len(theirs):
        return DIFFERS, f'{len(ours)} results, PyTorch {len(theirs)}'
    w = weights(theirs)
    double = truth_of(op, sample, theirs, learns, learns) if dtype in (torch.float32, torch.bfloat16) and not is_random else None
    truth, true_gradients = double or (theirs, None)
    for k, (x, b, t) in enumerate(zip(ours, theirs, truth)):
        if x.dtype != OURS.get(b.dtype):
            return DIFFERS, f'result {k}: dtype {x.dtype}, PyTorch {b.dtype}'
        if x.shape != tuple(b.shape):
            return DIFFERS, f'result {k}: shape {x.shape}, PyTorch {tuple(b.shape)}'
        found = None if is_random else first_difference(plain(x), b, t, tolerance(b.dtype, ''))
        if found:
            return DIFFERS, f'result {k}{found}'
    if dtype == torch.int64 or is_random or not learns or not op.supports_autograd:
        return EQUAL, ''
    try:
        their_gradients = gradients(theirs, learns, w, constant_of(op))
    except (RuntimeError, NotImplementedError):
        return EQUAL, ''
    if their_gradients is None:
        return EQUAL, ''
    chosen = [k for k, x in enumerate(theirs) if x.requires_grad and k not in constant_of(op)]
    try:
        got = rr.grad([ours[k] for k in chosen], our_leaves,
                      [rr.from_dlpack(w[k].to(theirs[k].dtype)) for k in chosen])
    except rr.Error as error:
        return REFUSED, f'gradient: {error}'
    for k, (g, b) in enumerate(zip(got, their_gradients)):
        t = true_gradients[k] if true_gradients else b
        a = torch.zeros_like(b) if g is None else plain(g)
        found = first_difference(a, b, t, tolerance(b.dtype, ''), 1.0, True)
        if found:
            return DIFFERS, f'gradient {k}{found}'
    return EQUAL, ''


def samples_of(op, dtype):
    """All samples; empty if PyTorch has none of this dtype."""
    if not op.supports_dtype(dtype, 'cpu'):
        return
    learns = dtype.is_floating_point and op.supports_autograd and dtype in op.supported_backward_dtypes('cpu')
    torch.manual_seed(1)
    yield from op.sample_inputs('cpu', dtype, requires_grad=learns)


def refusal(op, error_input):
    """Whether ours refuses what PyTorch refuses."""
    try:
        run_ours(op, error_input.sample_input)
    except Unsaid as error:
        return UNSAID, str(error)
    except rr.Error as error:
        return REFUSED, str(error)
    return ACCEPTED, error_input.error_regex


def run_operator(name):
    """{dtype or 'errors': [(status, text)]}."""
    torch.set_num_threads(1)
    op, found = ops()[name], {}
    for dtype_name, dtype in DTYPES.items():
        # A list, because comparing draws random numbers as well.
        found[dtype_name] = [compared(op, sample, dtype) for sample in list(samples_of(op, dtype))]
    found['errors'] = [refusal(op, e) for e in op.error_inputs('cpu')] if op.error_inputs_func else []
    return found
