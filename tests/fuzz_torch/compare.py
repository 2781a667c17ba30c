#!/usr/bin/env python3
"""Compares random programs of our operators with PyTorch's: results, gradients, second derivatives.

    bazel build //tests/fuzz_torch:run_programs
    python3 tests/fuzz_torch/compare.py bazel-bin/tests/fuzz_torch/run_programs --programs 2000 --seed 1

Needs PyTorch 2 (pip install torch, best in a virtual environment outside of the tree). The truth is PyTorch in
float64 on the same inputs. A difference counts if we are farther from the truth than PyTorch is, by more than
rounding. Prints each differing program as JSON that run_programs accepts, and a line of figures last.
"""

import argparse
import json
import math
import random
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16,
          "bfloat16": torch.bfloat16}
UNARY = {
    "neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "square": torch.square, "exp": torch.exp,
    "expm1": torch.expm1, "log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal, "sin": torch.sin, "cos": torch.cos,
    "tanh": torch.tanh, "sigmoid": torch.sigmoid, "erf": torch.erf, "relu": torch.relu,
    "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "floor": torch.floor,
    "round": torch.round, "silu": F.silu, "softplus": F.softplus,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2), "elu": lambda x: F.elu(x, 1.5), "tan": torch.tan,
    "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh,
    "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh, "trunc": torch.trunc,
    "nan_to_num": lambda x: x.nan_to_num(2, 3, -3),
}
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
    "maximum": torch.maximum, "minimum": torch.minimum, "add_relu": lambda a, b: torch.relu(a + b),
    "where": lambda a, b: torch.where(a > b, a, b * 2), "atan2": torch.atan2, "remainder": torch.remainder,
    "floor_divide": lambda a, b: torch.div(a, b, rounding_mode="floor"), "lerp": lambda a, b: torch.lerp(a, b, b),
}
NUMBER = {
    "clamp": lambda x, w: x.clamp(w["low"], w["high"]),
    "pow_number": lambda x, w: x ** w["number"],
    "number_pow": lambda x, w: torch.pow(w["number"], x),
    "number_div": lambda x, w: w["number"] / x,
    "mul_number": lambda x, w: x * w["number"],
}


def sliced(x, w):
    index = [slice(None)] * x.dim()
    index[w["axis"]] = slice(w["start"], w["end"], w["step"])
    return x[tuple(index)]


def padded(x, w):
    """Pads the last axis; reflect and replicate need one or two axes before it."""
    if w["mode"] == "constant":
        return F.pad(x, w["amounts"], value=0.5)
    return F.pad(x.reshape(1, -1, x.shape[-1]), w["amounts"], mode=w["mode"]).reshape(*x.shape[:-1], -1)


def attention(x, w):
    with sdpa_kernel(SDPBackend.MATH):  # the fused ones have no second derivatives
        return F.scaled_dot_product_attention(*x[:3], *x[3:], is_causal=w["causal"], scale=w["scale"],
                                              enable_gqa=True)


def axes_of(x, w):
    return w["axes"] or list(range(x.dim()))


def chosen(choose, x, w):
    """amax or amin with the gradient of max(): NaNs that became the result share it, as ties do."""
    axes = axes_of(x, w)
    y = choose(x.detach(), axes, True)
    ties = (x == y) | x.isnan()
    share = torch.where(ties, ZeroOf.apply(x), 0).sum(axes, True) / ties.sum(axes, True)
    y = y + share
    return y if w["keepdim"] else y.squeeze(axes)


class ZeroOf(torch.autograd.Function):
    """x - x, even where x is infinite."""

    @staticmethod
    def forward(ctx, x):
        return torch.zeros_like(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


def product(x, w):
    """prod along several axes, which PyTorch lacks."""
    for axis in sorted(axes_of(x, w), reverse=True):
        x = x.prod(axis, w["keepdim"])
    return x


OTHER = {
    "transpose": lambda x, w: x[0].transpose(w["axis0"], w["axis1"]),
    "reshape": lambda x, w: x[0].reshape(w["shape"]),
    "expand": lambda x, w: x[0].expand(w["shape"]),
    "slice": lambda x, w: sliced(x[0], w),
    "select": lambda x, w: x[0].select(w["axis"], w["index"]),
    "unsqueeze": lambda x, w: x[0].unsqueeze(w["axis"]),
    "concatenate": lambda x, w: torch.cat(x, w["axis"]),
    "index_select": lambda x, w: x[0].index_select(w["axis"], torch.tensor(w["indices"], dtype=torch.int64)),
    "gather": lambda x, w: x[0].gather(
        w["axis"], torch.tensor(w["indices"], dtype=torch.int64).reshape(w["shape"])),
    "brackets": lambda x, w: x[0][torch.tensor(w["indices"], dtype=torch.int64).reshape(w["shape"])],
    "brackets_mask": lambda x, w: x[0][x[0] > 0],
    "masked_fill": lambda x, w: x[0].masked_fill(x[1] > 0, 0.5),
    "scatter": lambda x, w: x[0].scatter(
        w["axis"], torch.tensor(w["indices"], dtype=torch.int64).reshape(w["shape"]), x[1]),
    "index_add": lambda x, w: x[0].index_add(
        w["axis"], torch.tensor(w["indices"], dtype=torch.int64), x[1], alpha=0.5),
    "index_fill": lambda x, w: x[0].index_fill(w["axis"], torch.tensor(w["indices"], dtype=torch.int64), x[1]),
    "brackets_backwards": lambda x, w: x[0].flip(0)[::w["step"]],
    "cumsum": lambda x, w: x[0].cumsum(w["axis"]),
    "cumprod": lambda x, w: x[0].cumprod(w["axis"]),
    "sort": lambda x, w: x[0].sort(stable=True, dim=w["axis"], descending=w["descending"]).values,
    "topk": lambda x, w: x[0].topk(w["k"], w["axis"], w["largest"]).values,
    "max_with_indices": lambda x, w: x[0].max(w["axis"], w["keepdim"]).values,
    "min_with_indices": lambda x, w: x[0].min(w["axis"], w["keepdim"]).values,
    "flip": lambda x, w: x[0].flip(w["axes"]),
    "roll": lambda x, w: x[0].roll(w["shift"], w["axis"]),
    "pad": lambda x, w: padded(x[0], w),
    "repeat": lambda x, w: x[0].repeat(w["counts"]),
    "repeat_interleave": lambda x, w: x[0].repeat_interleave(w["count"], w["axis"]),
    "diagonal": lambda x, w: x[0].diagonal(w["offset"], w["axis0"], w["axis1"]),
    "tril": lambda x, w: x[0].tril(w["offset"]),
    "triu": lambda x, w: x[0].triu(w["offset"]),
    "unfold": lambda x, w: x[0].unfold(w["axis"], w["size"], w["step"]),
    "sum": lambda x, w: x[0].sum(axes_of(x[0], w), w["keepdim"]),
    "mean": lambda x, w: x[0].mean(axes_of(x[0], w), w["keepdim"]),
    "var": lambda x, w: x[0].var(axes_of(x[0], w), correction=w["correction"], keepdim=w["keepdim"]),
    "stddev": lambda x, w: x[0].std(axes_of(x[0], w), correction=w["correction"], keepdim=w["keepdim"]),
    "median": lambda x, w: x[0].median(w["axis"]).values,
    "quantile": lambda x, w: torch.quantile(x[0], w["q"], w["axis"]),
    "prod": lambda x, w: product(x[0], w),
    "logsumexp": lambda x, w: x[0].logsumexp(axes_of(x[0], w), w["keepdim"]),
    "vector_norm": lambda x, w: torch.linalg.vector_norm(x[0], float(w["order"]), axes_of(x[0], w), w["keepdim"]),
    "max": lambda x, w: chosen(torch.amax, x[0], w),
    "min": lambda x, w: chosen(torch.amin, x[0], w),
    "softmax": lambda x, w: x[0].softmax(w["axis"]),
    "log_softmax": lambda x, w: x[0].log_softmax(w["axis"]),
    "attention": attention,
    "layer_norm": lambda x, w: F.layer_norm(x[0], x[1].shape, x[1], x[2]),
    "rms_norm": lambda x, w: F.rms_norm(x[0], x[1].shape, x[1], 1e-5),
    "group_norm": lambda x, w: F.group_norm(x[0], w["groups"], x[1], x[2]),
    "instance_norm": lambda x, w: F.instance_norm(x[0], weight=x[1], bias=x[2]),
    "batch_norm": lambda x, w: F.batch_norm(x[0], None, None, x[1], x[2], training=True),
    "batch_norm_evaluation": lambda x, w: F.batch_norm(
        x[0], torch.full_like(x[1], 0.5).detach(), torch.full_like(x[1], 2).detach(), x[1], x[2]),
    "matmul": lambda x, w: x[0] @ x[1],
    "einsum": lambda x, w: torch.einsum(w["equation"], *x),
    "tensordot": lambda x, w: torch.tensordot(x[0], x[1], w["count"]),
    "linear": lambda x, w: torch.relu(F.linear(*x)) if w["relu"] else F.linear(*x),
    "conv2d": lambda x, w: F.conv2d(*x, stride=w["stride"], padding=w["padding"]),
    "interpolate": lambda x, w: F.interpolate(
        x[0], w.get("size"), w.get("scale"), w["mode"], **({} if w["mode"] == "nearest" else {
            "align_corners": w["align_corners"]})),
    "conv_transpose2d": lambda x, w: F.conv_transpose2d(
        *x, stride=w["stride"], padding=w["padding"], output_padding=w["output_padding"]),
    "conv1d": lambda x, w: F.conv1d(*x, stride=w["stride"], padding=w["padding"]),
    "max_pool1d": lambda x, w: F.max_pool1d(x[0], 2, w["stride"], w["padding"]),
    "max_pool2d": lambda x, w: F.max_pool2d(x[0], w["kernel"], w["stride"], w["padding"]),
    "avg_pool2d": lambda x, w: F.avg_pool2d(x[0], w["kernel"], w["stride"], w["padding"]),
    "conv3d": lambda x, w: F.conv3d(x[0][None], *x[1:], stride=w["stride"], padding=w["padding"]),
    "max_pool3d": lambda x, w: F.max_pool3d(x[0][None], w["kernel"], w["stride"], w["padding"]),
    "avg_pool3d": lambda x, w: F.avg_pool3d(x[0][None], w["kernel"], w["stride"], w["padding"]),
    "cross_entropy": lambda x, w: F.cross_entropy(
        x[0], torch.tensor(w["indices"], dtype=torch.int64).reshape(w["shape"]), reduction=w["reduction"],
        label_smoothing=w["label_smoothing"]),
    "nll_loss": lambda x, w: F.nll_loss(
        x[0], torch.tensor(w["indices"], dtype=torch.int64).reshape(w["shape"]), reduction=w["reduction"]),
    "linear_cross_entropy": lambda x, w: F.cross_entropy(
        F.linear(*x), torch.tensor(w["indices"], dtype=torch.int64), reduction=w["reduction"],
        label_smoothing=w["label_smoothing"]),
    "cosine_embedding_loss": lambda x, w: F.cosine_embedding_loss(
        *x, 1 - 2 * torch.tensor(w["indices"], dtype=torch.int64), 0.1, reduction=w["reduction"]),
    "triplet_margin_loss": lambda x, w: F.triplet_margin_loss(*x, reduction=w["reduction"]),
    "huber_loss": lambda x, w: F.huber_loss(*x, reduction=w["reduction"], delta=0.7),
    "smooth_l1_loss": lambda x, w: F.smooth_l1_loss(*x, reduction=w["reduction"], beta=0.7),
    "kl_div": lambda x, w: F.kl_div(*x, reduction=w["reduction"], log_target=True),
    "mse_loss": lambda x, w: F.mse_loss(*x, reduction=w["reduction"]),
    "l1_loss": lambda x, w: F.l1_loss(*x, reduction=w["reduction"]),
    "bce_with_logits": lambda x, w: F.binary_cross_entropy_with_logits(
        x[0], x[1], pos_weight=x[2].detach(), reduction=w["reduction"]),
}


def apply(step, x):
    name, w = step["op"], step["with"]
    if name in UNARY:
        return UNARY[name](x[0])
    if name in BINARY:
        return BINARY[name](*x)
    if name in NUMBER:
        return NUMBER[name](x[0], w)
    return OTHER[name](x, w)


# --- Random programs -------------------------------------------------------------------------------------------

EXTREMES = [0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan, 1e25, -1e25, 1e-25, 3e38, 1e-38, 300.0,
            -300.0, 6e4, 1e-7]


class Maker:
    """Makes one program; its shapes come from a dry run by PyTorch in float64."""

    def __init__(self, rng):
        self.rng = rng
        self.kind = rng.choices(["plain", "grid", "extreme", "offset"], [5, 2, 2, 1])[0]
        self.dtype = rng.choices(list(DTYPES), [5, 3, 2, 2])[0]
        self.inputs, self.steps, self.tensors = [], [], []

    def value(self):
        rng = self.rng
        if self.kind == "extreme" and rng.random() < 0.3:
            return rng.choice(EXTREMES)
        if self.kind == "grid":
            return rng.choice([-2, -1, -0.5, 0, 0, 0.5, 1, 2])
        return rng.uniform(-2, 2) + (rng.choice([0, 1e3]) if self.kind == "offset" else 0)

    def shape(self, dims=None):
        rng = self.rng
        dims = rng.randint(0, 4) if dims is None else dims
        return [rng.choice([0] + [1, 2, 3, 4, 5] * 6) for _ in range(dims)]

    def input(self, shape, learns=None, positive=False):
        count = math.prod(shape)
        values = [self.value() for _ in range(count)]
        if positive:
            values = [abs(v) if v == v else 1.0 for v in values]
        x = torch.tensor(values, dtype=torch.float64).reshape(shape).to(DTYPES[self.dtype])
        learns = self.rng.random() < 0.8 if learns is None else learns
        self.inputs.append({"shape": shape, "dtype": self.dtype, "learns": learns,
                            "values": [repr(v) for v in x.double().flatten().tolist()]})
        self.tensors.append(x.double())
        return len(self.tensors) - 1

    def broadcastable(self, x):
        shape = list(x.shape)[self.rng.randint(0, x.dim()):] if self.rng.random() < 0.3 else list(x.shape)
        return [1 if self.rng.random() < 0.15 else extent for extent in shape]

    def some(self, count):
        return self.rng.sample(range(count), self.rng.randint(0, count)) if count else []

    def axis(self, x):
        return self.rng.randrange(-x.dim(), x.dim())

    def candidate(self, i):
        """A step on tensor i: (name, inputs, arguments), where an input is a number or the shape of a new one."""
        rng, x = self.rng, self.tensors[i]
        name = rng.choice([*UNARY, *BINARY, *BINARY, *NUMBER, *OTHER, *OTHER])
        if name in UNARY:
            return name, [i], {}
        if name in BINARY:
            same = [j for j, t in enumerate(self.tensors) if t.shape == x.shape]
            other = rng.choice(same) if rng.random() < 0.4 else self.broadcastable(x)
            return name, [i, other] if rng.random() < 0.5 else [other, i], {}
        if name == "clamp":
            return name, [i], {"low": rng.choice([-1, -0.5, 0]), "high": rng.choice([0, 0.5, 1])}
        if name in NUMBER:
            return name, [i], {"number": rng.choice([0, 1, 2, 3, -1, 0.5, -2, 1.5, 1e3, 1e-3])}
        if name == "reshape":
            return name, [i], {"shape": rng.choice([[x.numel()], [1, x.numel()], list(x.shape)[::-1]])}
        if name == "expand":
            return name, [i], {"shape": self.shape(1) + [3 if e == 1 else e for e in x.shape]}
        if name == "unsqueeze":
            return name, [i], {"axis": rng.randrange(-x.dim() - 1, x.dim() + 1)}
        if name in ("sum", "mean", "var", "max", "min", "stddev", "prod", "logsumexp", "vector_norm"):
            w = {"axes": self.some(x.dim()), "keepdim": rng.random() < 0.5}
            count = math.prod(x.shape[k] for k in w["axes"] or range(x.dim()))
            if name in ("var", "stddev"):
                w["correction"] = rng.choice([0, 1]) if count > 1 else 0
            if name == "vector_norm":
                w["order"] = rng.choice(["1", "2", "inf", "-inf", "0", "0.5", "1.5", "3", "-1"])
                if count == 0 and w["order"] in ("inf", "-inf", "-1"):
                    return None
            return name, [i], w
        if name in ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "kl_div"):
            return name, [i, list(x.shape)], {"reduction": rng.choice(["none", "mean", "sum"])}
        if name == "bce_with_logits":
            return name, [i, list(x.shape), self.broadcastable(x)], {
                "reduction": rng.choice(["none", "mean", "sum"])}
        if x.dim() == 0:
            return None
        axis = self.axis(x)
        size = x.shape[axis]
        if name == "brackets":
            shape = [rng.randint(0, 3) for _ in range(rng.randint(0, 2))]
            count = math.prod(shape)
            return (name, [i], {"shape": shape, "indices": rng.choices(range(-x.shape[0], x.shape[0]), k=count)}
                    ) if x.shape[0] else None
        if name == "brackets_mask":
            return name, [i], {}
        if name == "masked_fill":
            return name, [i, self.broadcastable(x)], {}
        if name == "scatter":  # PyTorch has no gradient for several elements in one place
            if size == 0 or x.numel() == 0:
                return None
            shape = [rng.randint(1, extent) for extent in x.shape]
            shape[axis] = 1
            return name, [i, shape], {"axis": axis, "shape": shape,
                                      "indices": rng.choices(range(size), k=math.prod(shape))}
        if name == "index_add":
            count = rng.randint(0, 4) if size else 0
            shape = list(x.shape)
            shape[axis] = count
            return name, [i, shape], {"axis": axis, "indices": rng.choices(range(size), k=count) if count else []}
        if name == "index_fill":
            count = rng.randint(0, 4) if size else 0
            return name, [i, []], {"axis": axis,
                                   "indices": rng.choices(range(-size, size), k=count) if count else []}
        if name == "brackets_backwards":
            return name, [i], {"step": rng.randint(1, 3)}
        if name in ("cumsum", "cumprod"):
            return name, [i], {"axis": axis}
        if name == "sort":
            return name, [i], {"axis": axis, "descending": rng.random() < 0.5}
        if name == "topk":  # which of equal elements are chosen is ours to say
            return (name, [i], {"axis": axis, "k": rng.randint(0, size), "largest": rng.random() < 0.5}
                    ) if self.kind == "plain" else None
        if name in ("max_with_indices", "min_with_indices"):
            return (name, [i], {"axis": axis, "keepdim": rng.random() < 0.5}) if size else None
        if name == "flip":
            return name, [i], {"axes": self.some(x.dim()) or [axis]}
        if name == "roll":
            return name, [i], {"axis": axis, "shift": rng.randint(-6, 6)}
        if name == "pad":
            mode = rng.choice(["constant", "constant", "reflect", "replicate"])
            if mode != "constant" and x.numel() == 0:
                return None
            most = x.shape[-1] - 1 if mode == "reflect" else 3
            return name, [i], {"mode": mode, "amounts": [rng.randint(0, min(most, 3)), rng.randint(0, min(most, 3))]}
        if name == "repeat":
            return name, [i], {"counts": [rng.choice([1, 1, 2, 3]) for _ in range(x.dim() + rng.randint(0, 1))]}
        if name == "repeat_interleave":
            return name, [i], {"axis": axis, "count": rng.randint(0, 3)}
        if name == "unfold":
            return name, [i], {"axis": axis, "size": rng.randint(0, size), "step": rng.randint(1, 3)}
        if name in ("median", "quantile"):  # among equal elements, PyTorch's choice is its own
            w = {"axis": axis} | ({"q": rng.choice([0, 0.25, 0.3, 0.5, 1])} if name == "quantile" else {})
            return (name, [i], w) if size and self.kind == "plain" else None
        if name == "transpose":
            return name, [i], {"axis0": axis, "axis1": self.axis(x)}
        if name == "slice":
            return name, [i], {"axis": axis, "start": rng.randint(0, size), "end": rng.randint(0, size),
                               "step": rng.randint(1, 2)}
        if name == "select":
            return (name, [i], {"axis": axis, "index": rng.randrange(size)}) if size else None
        if name == "concatenate":
            other = list(x.shape)
            other[axis] = rng.randint(0, 3)
            return name, [i, other], {"axis": axis}
        if name == "index_select":
            return name, [i], {"axis": axis, "indices": rng.choices(range(size), k=rng.randint(0, 4)) if size else []}
        if name == "gather":
            shape = list(x.shape)
            shape[axis] = rng.randint(0, 4) if size else 0
            count = math.prod(shape)
            return name, [i], {"axis": axis, "shape": shape,
                               "indices": rng.choices(range(size), k=count) if count else []}
        if name in ("softmax", "log_softmax"):
            return name, [i], {"axis": axis}
        if name == "rms_norm":
            return name, [i, [x.shape[-1]]], {}
        if name == "triplet_margin_loss":
            return name, [i, list(x.shape), list(x.shape)], {"reduction": rng.choice(["none", "mean", "sum"])}
        if name == "attention":
            # Scores of 1e6 lose the digits that probabilities need, and a masked key that is infinite gives NaN there.
            if x.dim() != 4 or 0 in x.shape or self.kind in ("extreme", "offset"):
                return None
            heads = rng.choice([n for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0])
            causal, (T, S) = rng.random() < 0.5, (x.shape[2], rng.randint(1, 5))
            mask = [[T, S]] if not causal and rng.random() < 0.5 else []
            return name, [i, [x.shape[0], heads, S, x.shape[3]], [x.shape[0], heads, S, 2], *mask], {
                "causal": causal, "scale": rng.choice([0.3, 1, -1])}
        if name == "layer_norm":
            return name, [i, [x.shape[-1]], [x.shape[-1]]], {}
        if name == "matmul":
            return name, [i, [x.shape[-1]] + self.shape(rng.randint(0, 1))], {}
        if name == "tensordot":
            count = rng.randint(0, x.dim())
            return name, [i, list(x.shape)[x.dim() - count:] + self.shape(1)], {"count": count}
        if name == "einsum":
            shared = [k for k in range(x.dim()) if rng.random() < 0.6]
            rng.shuffle(shared)
            other = "".join("abcdefgh"[k] for k in shared) + "z" * rng.randint(0, 1)
            letters = list(set("abcdefgh"[:x.dim()] + other))
            result = rng.sample(sorted(letters), rng.randint(0, len(letters)))
            return name, [i, [x.shape[k] for k in shared] + [2] * other.count("z")], {
                "equation": "abcdefgh"[:x.dim()] + "," + other + "->" + "".join(result)}
        if name == "linear":
            n = rng.randint(1, 4)
            return name, [i, [n, x.shape[-1]], [n]], {"relu": rng.random() < 0.5}
        if x.dim() < 2:
            return None
        if name in ("tril", "triu"):
            return name, [i], {"offset": rng.randint(-3, 3)}
        if name == "diagonal":
            axis0, axis1 = rng.sample(range(x.dim()), 2)
            return name, [i], {"offset": rng.randint(-3, 3), "axis0": axis0, "axis1": axis1}
        if name.startswith("batch_norm"):  # of nothing it has no moments: ours throws
            if x.numel() == 0:
                return None
            return name, [i, [x.shape[1]], [x.shape[1]]], {}
        if name in ("group_norm", "instance_norm") and x.numel():
            if name == "instance_norm" and (x.dim() < 3 or x.numel() == x.shape[0] * x.shape[1]):
                return None
            groups = rng.choice([g for g in range(1, x.shape[1] + 1) if x.shape[1] % g == 0])
            return name, [i, [x.shape[1]], [x.shape[1]]], {"groups": groups}
        reduced = {"reduction": rng.choice(["none", "mean", "sum"]), "label_smoothing": rng.choice([0, 0.1])}
        if name in ("cross_entropy", "nll_loss") and x.numel():
            shape = [x.shape[0], *x.shape[2:]]
            return name, [i], reduced | {"shape": shape, "indices": rng.choices(range(x.shape[1]), k=math.prod(shape))}
        if name in ("linear_cross_entropy", "cosine_embedding_loss") and x.dim() == 2 and x.numel():
            if name == "cosine_embedding_loss":
                return name, [i, list(x.shape)], reduced | {"indices": rng.choices([0, 1], k=x.shape[0])}
            n = rng.randint(1, 6)
            return name, [i, [n, x.shape[1]], [n]], reduced | {"indices": rng.choices(range(n), k=x.shape[0])}
        if x.dim() == 3 and x.numel() and x.shape[2] >= 2:
            w = {"stride": rng.randint(1, 2), "padding": rng.randint(0, 1)}
            if name == "conv1d":
                n = rng.randint(1, 3)
                return name, [i, [n, x.shape[1], rng.randint(1, 2)], [n]], w
            if name == "max_pool1d":
                return name, [i], w
        if x.dim() == 4 and x.numel() and min(x.shape[2:]) >= 2:
            if name == "interpolate":
                w = {"mode": rng.choice(["nearest", "bilinear"]), "align_corners": False}
                if w["mode"] == "bilinear":
                    w["align_corners"] = rng.random() < 0.5
                w |= rng.choice([{"scale": rng.choice([0.5, 1.5, 2.0, 2.6])},
                                 {"size": [rng.randint(1, 7), rng.randint(1, 7)]}])
                return name, [i], w
            if name == "conv_transpose2d":
                n = rng.randint(1, 3)
                k = rng.randint(2, 3)
                stride = rng.randint(1, 2)
                return name, [i, [x.shape[1], n, k, k], [n]], {
                    "stride": stride, "padding": rng.randint(0, 1), "output_padding": rng.randint(0, stride - 1)}
            if name == "conv2d":
                n = rng.randint(1, 3)
                k = rng.randint(1, 2)
                return name, [i, [n, x.shape[1], k, k], [n]], {"stride": rng.randint(1, 2), "padding": rng.randint(0, 1)}
            if name.endswith("pool2d"):
                return name, [i], {"kernel": 2, "stride": rng.randint(1, 2), "padding": rng.randint(0, 1)}
        if x.dim() == 4 and x.numel() and min(x.shape[1:]) >= 2:  # as one volume
            w = {"stride": rng.randint(1, 2), "padding": rng.randint(0, 1)}
            if name == "conv3d":
                n = rng.randint(1, 3)
                return name, [i, [n, x.shape[0], *rng.choices([1, 2], k=3)], [n]], w
            if name.endswith("pool3d"):
                return name, [i], w | {"kernel": 2}
        return None

    def add_step(self):
        last = len(self.tensors) - 1
        i = last if self.rng.random() < 0.7 else self.rng.randint(0, last)
        step = self.candidate(i)
        if step is None:
            return
        name, given, w = step
        kept = len(self.inputs), len(self.tensors)
        # New inputs are inserted before all steps, so later numbers shift when the program is
        # written.
        numbers = [self.input(g) if isinstance(g, list) else g for g in given]
        try:
            y = apply({"op": name, "with": w}, [self.tensors[n] for n in numbers])
        except (RuntimeError, IndexError, ValueError):
            y = None
        if y is None or y.numel() > 2000:
            del self.inputs[kept[0]:], self.tensors[kept[1]:]
            return
        self.steps.append({"op": name, "in": numbers, "with": w, "number": len(self.tensors)})
        self.tensors.append(y)

    def program(self):
        self.input(self.shape(4) if self.rng.random() < 0.3 else self.shape(), learns=True)
        if self.rng.random() < 0.3:
            self.input(self.inputs[0]["shape"])
        length = self.rng.randint(1, 5)
        for _ in range(30):
            if len(self.steps) < length:
                self.add_step()
        if not self.steps:
            return None
        step_numbers = {step["number"] for step in self.steps}
        order = [n for n in range(len(self.tensors)) if n not in step_numbers] + sorted(step_numbers)
        place = {n: p for p, n in enumerate(order)}
        steps = [{"op": s["op"], "in": [place[n] for n in s["in"]], "with": s["with"]} for s in self.steps]
        weights = [repr(self.rng.choice([-1, -0.5, 0.5, 1, 1.5])) for _ in range(self.tensors[-1].numel())]
        return {"inputs": self.inputs, "steps": steps, "weights": weights}


# --- What PyTorch makes of one -----------------------------------------------------------------------------------


def differentiate(y, inputs, create_graph):
    if not y.requires_grad:
        return [None] * len(inputs)
    return list(torch.autograd.grad(y, inputs, create_graph=create_graph, retain_graph=True, allow_unused=True))


def run_torch(program, dtype=None):
    tensors, learning = [], []
    for given in program["inputs"]:
        x = torch.tensor([float(v) for v in given["values"]], dtype=torch.float64).reshape(given["shape"])
        x = x.to(dtype or DTYPES[given["dtype"]])
        tensors.append(x.requires_grad_(given["learns"]))
        if given["learns"]:
            learning.append(tensors[-1])
    for step in program["steps"]:
        tensors.append(apply(step, [tensors[i] for i in step["in"]]))
    y = tensors[-1]
    weights = torch.tensor([float(v) for v in program["weights"]], dtype=y.dtype).reshape(y.shape)
    gradients = differentiate((y * weights).sum(), learning, True)
    parts = [(g.double() * torch.linspace(0.5, 1.5, g.numel(), dtype=torch.float64).reshape(g.shape)).sum()
             for g in gradients if g is not None and g.requires_grad]
    second = differentiate(sum(parts), learning, False) if parts else [None] * len(learning)
    return {"result": [y], "plain": gradients, "gradients": gradients, "second": second}


# --- The comparison ------------------------------------------------------------------------------------------------


def parse(text, like):
    if text is None:
        return torch.zeros_like(like, dtype=torch.float64)
    values = torch.tensor([float(v) for v in text["values"].split()], dtype=torch.float64)
    return values.reshape(text["shape"])


def zeros_if_none(x, like):
    return torch.zeros(like, dtype=torch.float64) if x is None else x.detach().double()


def explain(what, ours, peer, truth, dtype):
    """None if ours is as good as PyTorch's."""
    if ours.shape != truth.shape:
        return f"{what}: shape {list(ours.shape)}, not {list(truth.shape)}"
    rounded = truth.to(dtype).double()  # overflows as the dtype does
    for i, (a, b, t, r) in enumerate(zip(ours.flatten().tolist(), peer.flatten().tolist(),
                                         truth.flatten().tolist(), rounded.flatten().tolist())):
        if (a != a and (b != b or t != t)) or a == b or a == t or a == r:
            continue
        if math.isinf(a) and math.isinf(t):  # 1 / 0 and 1 / -0
            continue
        if t != t and what.startswith("second"):  # at a pole, where formulas may cancel 0 * inf or not
            continue
        if not math.isfinite(a) or not (math.isfinite(b) or math.isfinite(t)):
            return f"{what}[{i}]: {a}, PyTorch {b}, float64 {t}"
        finite = truth[truth.isfinite()].abs()
        scale = max(abs(t) if math.isfinite(t) else 0, finite.max().item() if finite.numel() else 0, 1)
        allowed = 100 * torch.finfo(dtype).eps * scale
        error = min(abs(a - v) for v in (b, t) if math.isfinite(v))
        peer_error = abs(b - t) if math.isfinite(b) and math.isfinite(t) else math.inf
        if error > allowed + 8 * peer_error:
            return f"{what}[{i}]: {a}, PyTorch {b}, float64 {t}"
    return None


def difference(program, answer):
    dtype = DTYPES[program["inputs"][0]["dtype"]]
    if "error" in answer:
        return "error: " + answer["error"]
    peer, truth = run_torch(program), run_torch(program, torch.float64)
    shapes = [given["shape"] for given in program["inputs"] if given["learns"]]
    for what in ("result", "plain", "gradients", "second"):
        texts = [answer["result"]] if what == "result" else answer[what]
        for k, text in enumerate(texts):
            like = truth["result"][0].shape if what == "result" else shapes[k]
            t, p = zeros_if_none(truth[what][k], like), zeros_if_none(peer[what][k], like)
            found = explain(f"{what} {k}", parse(text, t), p, t, dtype)
            if found:
                return found
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runner", help="the built run_programs")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with subprocess.Popen([options.runner], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as runner:
        found = skipped = 0
        for k in range(options.programs):
            program = Maker(random.Random(f"{options.seed} {k}")).program()
            if program is None:
                skipped += 1
                continue
            print(json.dumps(program), file=runner.stdin, flush=True)
            line = runner.stdout.readline()
            if not line:
                print("run_programs died of", json.dumps(program))
                return 1
            try:
                what = difference(program, json.loads(line))
            except RuntimeError as error:  # PyTorch lacks a second derivative, or a 16-bit kernel
                skipped += 1
                continue
            if what:
                found += 1
                names = " ".join(step["op"] for step in program["steps"])
                print(f"{options.seed} {k} {program['inputs'][0]['dtype']}: {names}: {what}")
                print("   ", json.dumps(program))
        runner.stdin.close()
    print(json.dumps({"programs": options.programs - skipped, "skipped": skipped, "differ": found}))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
