#!/usr/bin/env python3
"""Compares random programs of our operators with PyTorch's: results, gradients, second derivatives. See README.md.

    tools/fuzz_torch --programs 2000 --seed 1          builds run_programs, and calls this
    tools/fuzz_torch --only 713 --seed 11              one program, with all its results
    tools/fuzz_torch --file program.json               one that was printed as JSON

Prints each differing program as JSON, a line of figures, and last `N passed, N failed`.
"""
import argparse
import collections
import json
import math
import os
import queue
import subprocess
import sys
import threading
import warnings

import torch

import peer
from candidates import CANDIDATES
from programs import Maker

# --- The comparison ---

# If a gradient is NaN or infinite, ours multiplies it by masked probabilities, which are 0.
SPREADS_NAN = 'scaled_dot_product_attention'


def is_at_kink(step, result):
    """True if a second derivative is a choice: ours is that of the side that is not a line."""
    if step['op'] == 'elu':
        return bool((result == 0).any())
    if step['op'] != 'softplus':
        return False
    beta, threshold = step['with']['beta'], step['with']['threshold']
    return bool((result.double() - math.log1p(math.exp(threshold)) / beta).abs().lt(0.02).any())


def parsed(text):
    values = torch.tensor([float(v) for v in text['values'].split()], dtype=torch.float64)
    return values.reshape(text['shape']).to(peer.DTYPES[text['dtype']])


def largest(tensors):
    """The largest finite absolute value, or 1 if that is larger."""
    return max([1.0, *(x.detach().abs().nan_to_num(0, 0, 0).max().item() for x in tensors if x is not None and x.numel())])


def first_difference(ours, theirs, truth, allowed, least=1.0, is_gradient=False, is_lenient=False):
    """None if ours is as good as PyTorch's; else (place, our value, PyTorch's, PyTorch's in float64).


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
    Equal to either of PyTorch's results, or nearer to one of them than the rounding of some
    operations, or not much farther from the float64 result than PyTorch itself is.
    """
    if ours.shape != truth.shape or theirs.shape != truth.shape:
        return f': shape {list(ours.shape)}, PyTorch {list(theirs.shape)}, in float64 {list(truth.shape)}'
    a, b, t = (x.detach().flatten() for x in (ours, theirs, truth))
    rounded = t.to(a.dtype) if a.dtype.is_floating_point else t  # overflows as the dtype does
    a, b, t, rounded = (x.double() for x in (a, b, t, rounded))
    good = (a == b) | (a == t) | (a == rounded) | (a.isnan() & (b.isnan() | t.isnan()))
    good |= a.isinf() & t.isinf()  # 1 / 0 and 1 / -0
    if is_gradient:  # it overflows in its dtype, or it would if PyTorch had a kernel for that
        good |= ~b.isfinite() & t.isfinite()
        if theirs is truth:
            good |= ~a.isfinite()
    if is_lenient:
        good |= ~b.isfinite() | ~t.isfinite()
    scale = max(least, largest([t]))
    error = torch.minimum((a - b).abs().nan_to_num(float('inf')), (a - t).abs().nan_to_num(float('inf')))
    their_error = (b - t).abs().nan_to_num(float('inf'))
    good |= a.isfinite() & (b.isfinite() | t.isfinite()) & (error <= allowed * scale + 8 * their_error)
    if good.all():
        return None
    k = (~good).nonzero()[0].item()
    return f'[{k}] {a[k].item()}, PyTorch {b[k].item()}, in float64 {t[k].item()}'


def tolerance(dtype, kind):
    """100 eps; more in float64, where PyTorch's own error is not known."""
    if not dtype.is_floating_point:
        return 0
    return torch.finfo(dtype).eps * (100 if dtype != torch.float64 else 1e8 if kind == 'offset' else 1e4)


def zeros_if_none(x, like):
    return torch.zeros(like, dtype=torch.float64) if x is None else x


def all_finite(tensors):
    return all(x is None or bool(x.isfinite().all()) for x in tensors)


class Outcome:
    """What came of a program: `text` describes a difference, and `step` is where it is, if in a step."""

    def __init__(self, text='', step=None, has_second=True):
        self.text, self.step, self.has_second = text, step, has_second


def gradients_in_its_dtypes(program, ours):
    """PyTorch's run, in float64 arithmetic if it lacks a 16-bit kernel backward."""
    try:
        return peer.run(program, ours, False)
    except RuntimeError:
        if not any(given['dtype'] in ('float16', 'bfloat16') for given in program['inputs']):
            raise
        return None


def compared(program, answer):
    ours = [parsed(text) for text in answer.get('steps', [])]
    truth = theirs = None
    try:
        truth = peer.run(program, ours, True)
        theirs = gradients_in_its_dtypes(program, ours) or truth
    except (RuntimeError, IndexError, ValueError) as error:
        if 'error' in answer:
            return Outcome()  # both refuse, as for a shape that depends on values
        return Outcome(f'PyTorch refuses: {error}')
    for k, x in enumerate(ours):
        b, t = theirs['steps'][k], truth['steps'][k]
        if theirs is not truth and x.dtype != b.dtype:
            return Outcome(f'dtype {x.dtype}, not {b.dtype}', k)
        found = first_difference(x, b, t, tolerance(x.dtype, program['kind']))
        if found:
            return Outcome(found, k)
    if 'error' in answer:
        return Outcome('error: ' + answer['error'], len(ours) if len(ours) < len(program['steps']) else None)
    dtypes = [x.dtype for x in ours] + [peer.DTYPES[given['dtype']] for given in program['inputs']]
    allowed = max(tolerance(dtype, program['kind']) for dtype in dtypes)
    shapes = [given['shape'] for given in program['inputs'] if given['learns']]
    is_narrow = any(dtype in peer.NARROW for dtype in dtypes)
    is_lenient = program['kind'] == 'extreme'
    steps = program['steps']
    is_finite = all_finite(truth['gradients'] + theirs['gradients'])
    if not is_finite and any(step['op'] == SPREADS_NAN for step in steps):
        return Outcome()
    has_second = is_finite and not is_lenient and not any(map(is_at_kink, steps, ours))
    for what in ('plain', 'gradients', 'second'):
        key = 'gradients' if what == 'plain' else what
        if truth[key] is None or theirs[key] is None:
            continue
        if what == 'second' and not has_second:
            continue
        # Gradients in 16 bits that cancel are as inexact as the largest one.
        least = largest(truth[key]) if is_narrow else 1.0
        for k, text in enumerate(answer[what]):
            t = zeros_if_none(truth[key][k], shapes[k])
            b = t if theirs is truth else zeros_if_none(theirs[key][k], shapes[k])
            a = parsed(text) if text else torch.zeros(shapes[k], dtype=torch.float64)
            found = first_difference(a, b, t, allowed, least, True, is_lenient or what == 'second')
            if found:
                return Outcome(f'{what} {k}{found}')
    return Outcome(has_second=truth['second'] is not None and theirs['second'] is not None)


# --- One program to read ---


def told(program, answer, outcome):
    """The program as lines, with shapes, dtypes and a mark where the difference is."""
    lines = []
    for n, given in enumerate(program['inputs']):
        notes = ' learns' * given['learns'] + f' order {given["order"]} gap {given["gap"]}'
        lines.append(f'  t{n} = input {given["dtype"]} {given["shape"]}{notes}')
    for k, step in enumerate(program['steps']):
        n = len(program['inputs']) + k
        arguments = ', '.join([f't{i}' for i in step['in']] + [f'{name}={value}' for name, value in step['with'].items()])
        result = answer['steps'][k] if k < len(answer.get('steps', [])) else {'dtype': '?', 'shape': '?'}
        mark = '  <-- ' + outcome.text if outcome.step == k else ''
        sink = ' (sink)' * (n in program['sinks'])
        lines.append(f'  t{n} = {step["op"]}({arguments})  {result["dtype"]} {result["shape"]}{sink}{mark}')
    return '\n'.join(lines)


# --- Workers: one run_programs and one PyTorch each ---


def work(options):
    """Answers each number of standard input by a line of JSON."""
    prepare()
    runner = start_runner(options)
    for line in sys.stdin:
        number = int(line)
        program = Maker(options.seed, number, options.device).program()
        report = {'operators': [step['op'] for step in program['steps']]}
        answer = ask(runner, program)
        if answer is None:
            report |= {'text': 'run_programs died', 'program': program}
            runner = start_runner(options)
        else:
            outcome = compared(program, answer)
            report['has_second'] = outcome.has_second
            if outcome.text:
                report |= {'text': outcome.text, 'told': told(program, answer, outcome), 'program': program}
        print(json.dumps(report), flush=True)


def prepare():
    torch.set_num_threads(1)
    warnings.simplefilter('ignore')  # of operators that compute what is asked, but think it odd


def start_runner(options):
    return subprocess.Popen([options.runner, '--device', options.device], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


def ask(runner, program):
    """The answer of run_programs; None if it died."""
    try:
        print(json.dumps(program), file=runner.stdin, flush=True)
        line = runner.stdout.readline()
    except BrokenPipeError:
        line = ''
    return json.loads(line) if line else None


def start_worker(options):
    return subprocess.Popen([sys.executable, __file__, options.runner, '--worker', '--seed', str(options.seed),
                             '--device', options.device], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def drive(options, numbers, reports):
    """Hands numbers to a worker, and starts another if PyTorch takes the process down."""
    worker = start_worker(options)
    while True:
        try:
            number = numbers.get_nowait()
        except queue.Empty:
            break
        try:
            print(number, file=worker.stdin, flush=True)
            line = worker.stdout.readline()
        except BrokenPipeError:
            line = ''
        if not line:
            line = json.dumps({'text': "the process of PyTorch died", 'operators': []})
            worker = start_worker(options)
        reports.put((number, json.loads(line)))
    worker.stdin.close()
    worker.wait()


def run_all(options):
    numbers, reports = queue.Queue(), queue.Queue()
    for k in range(options.first, options.first + options.programs):
        numbers.put(k)
    for _ in range(options.jobs):
        threading.Thread(target=drive, args=(options, numbers, reports), daemon=True).start()
    failed = without_second = 0
    counts = collections.Counter()
    for _ in range(options.programs):
        number, report = reports.get()
        counts.update(report['operators'])
        without_second += not report.get('has_second', True)
        if 'text' in report:
            failed += 1
            print(f'FAILED program {number} of seed {options.seed}: {report["text"]}')
            print(report.get('told', ''))
            print('   ', json.dumps(report.get('program')), flush=True)
    unused = [name for name in CANDIDATES if name not in counts and not (peer.IS_OLD and name in peer.OLD)]
    if options.programs >= len(CANDIDATES) and options.device == 'cpu':
        for name in unused:
            print(f'FAILED: no program contains {name}')
        failed += len(unused)
    figures = {'torch': torch.__version__, 'seed': options.seed, 'programs': options.programs,
               'steps': sum(counts.values()), 'without_second_derivatives': without_second}
    print(json.dumps(figures))
    print(f'{options.programs - min(failed, options.programs)} passed, {failed} failed')
    return 1 if failed else 0


def run_one(options):
    prepare()
    if options.file:
        with open(options.file, encoding='utf-8') as file:
            program = json.load(file)
    else:
        program = Maker(options.seed, options.only, options.device).program()
    answer = ask(start_runner(options), program)
    if answer is None:
        print('run_programs died')
        return 1
    outcome = compared(program, answer)
    print(json.dumps(program))
    print(told(program, answer, outcome))
    print('FAILED: ' + outcome.text if outcome.text else 'no difference')
    return 1 if outcome.text else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('runner', help='the built run_programs')
    parser.add_argument('--programs', type=int, default=500)
    parser.add_argument('--first', type=int, default=0, help='number of the first program')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--jobs', type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument('--device', default='cpu', help='of our side: cpu or cuda')
    parser.add_argument('--only', type=int, help='runs this program alone, and prints its steps')
    parser.add_argument('--file', help='runs the program in this file')
    parser.add_argument('--worker', action='store_true', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options)
    if options.file or options.only is not None:
        return run_one(options)
    return run_all(options)


if __name__ == '__main__':
    sys.exit(main())
