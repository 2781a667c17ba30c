#!/usr/bin/env python3
"""Writes the golden files of this folder with PyTorch: python3 make_golden.py

Each file is {case: {tensor: {"shape": [...], "values": [...]}}}; values are float32 in shortest
decimal form, which reads back exactly. Committed files were made with PyTorch 1.13.1 on the CPU,
attention.json, linalg.json, models.json, optimizers.json, recurrent.json, scaled_dot_product.json, schedules.json and
the cases of convolution_layers(), volume_layers(), norm_layers(), activation_layers() and more_losses() with 2.15.
"""

import json
import pathlib
import unittest.mock

import torch
from torch import nn
from torch.nn import functional as F

FOLDER = pathlib.Path(__file__).parent


def packed(x):
    x = x.detach()
    values = [float(f"{v:.9g}") if isinstance(v, float) else v for v in x.flatten().tolist()]
    return {"shape": list(x.shape), "values": values}


def write(name, cases):
    path = FOLDER / f"{name}.json"
    text = json.dumps({case: {k: packed(v) for k, v in tensors.items()} for case, tensors in cases.items()})
    path.write_text(text.replace('}}, "', '}},\n"') + "\n")


def run_layer(layer, x, training=True):
    """Input, parameters and buffers before; output, gradients and buffers after one call."""
    layer.train(training)
    layer.zero_grad(set_to_none=True)
    case = {"input": x.clone()}
    for name, tensor in layer.state_dict().items():
        if tensor.is_floating_point():
            case[f"before.{name}"] = tensor.clone()
    if x.is_floating_point():
        x = x.clone().requires_grad_()
    y = layer(x)
    weights = torch.linspace(-1, 1, y.numel()).reshape(y.shape)
    (y * weights).sum().backward()
    case["output"] = y
    case["output_weights"] = weights
    if x.is_floating_point():
        case["grad.input"] = x.grad
    for name, parameter in layer.named_parameters():
        case[f"grad.{name}"] = parameter.grad.clone()
    for name, tensor in layer.named_buffers():
        if tensor.is_floating_point():
            case[f"after.{name}"] = tensor.clone()
    return case


def layers():
    torch.manual_seed(1)
    norm = nn.BatchNorm2d(3)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 1.5)
        norm.bias.uniform_(-0.5, 0.5)
    layer_norm = nn.LayerNorm(5)
    with torch.no_grad():
        layer_norm.weight.uniform_(0.5, 1.5)
        layer_norm.bias.uniform_(-0.5, 0.5)
    image = torch.randn(2, 3, 6, 5)
    cases = convolution_layers() | volume_layers() | {
        "Linear": run_layer(nn.Linear(4, 3), torch.randn(5, 4)),
        "Conv2d": run_layer(nn.Conv2d(3, 4, 3, padding=1), image),
        "Conv2d stride 2 groups 3 dilation 2": run_layer(
            nn.Conv2d(3, 6, 3, stride=2, padding=2, dilation=2, groups=3, bias=False), image),
        "BatchNorm2d training": run_layer(norm, image),
        "BatchNorm2d evaluation": run_layer(norm, image, training=False),
        "BatchNorm1d training": run_layer(nn.BatchNorm1d(4), torch.randn(6, 4)),
        "LayerNorm": run_layer(layer_norm, torch.randn(4, 5)),
        "Embedding": run_layer(nn.Embedding(6, 3), torch.tensor([[0, 5, 2], [5, 5, 1]])),
        "MaxPool2d": run_layer(nn.MaxPool2d(2), image),
        "MaxPool2d 3 stride 2 padding 1": run_layer(nn.MaxPool2d(3, 2, 1), image),
        "AvgPool2d 3 stride 2 padding 1": run_layer(nn.AvgPool2d(3, 2, 1), image),
        "AdaptiveAvgPool2d": run_layer(nn.AdaptiveAvgPool2d(4), image),
        "GELU": run_layer(nn.GELU(), torch.linspace(-4, 4, 17)),
        "Sigmoid": run_layer(nn.Sigmoid(), torch.linspace(-8, 8, 17)),
        "Tanh": run_layer(nn.Tanh(), torch.linspace(-4, 4, 17)),
    }
    write("layers", cases | norm_layers() | activation_layers())


def convolution_layers():
    with torch.random.fork_rng():
        torch.manual_seed(6)
        image, sequence = torch.randn(2, 3, 5, 4), torch.randn(2, 4, 9)
        layers = {
            "Conv1d stride 2 padding 1 dilation 2 groups 2": (
                nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), sequence),
            "ConvTranspose2d": (nn.ConvTranspose2d(3, 2, 3), image),
            "ConvTranspose2d stride 2 padding 1 output_padding 1 groups 3 dilation 2": (
                nn.ConvTranspose2d(3, 6, 3, stride=2, padding=1, output_padding=1, groups=3, dilation=2, bias=False),
                image),
            "ConvTranspose1d stride 3 padding 1 output_padding 2": (
                nn.ConvTranspose1d(4, 3, 4, stride=3, padding=1, output_padding=2), sequence),
            "MaxPool1d 3 stride 2 padding 1": (nn.MaxPool1d(3, 2, 1), sequence),
            "AvgPool1d 2": (nn.AvgPool1d(2), sequence),
        }
        return {name: run_layer(*case) for name, case in layers.items()}


def volume_layers():
    with torch.random.fork_rng():
        torch.manual_seed(8)
        volume = torch.randn(2, 4, 4, 5, 3)
        layers = {
            "Conv3d stride 2 padding 1 groups 2": nn.Conv3d(4, 6, 3, stride=2, padding=1, groups=2),
            "ConvTranspose3d stride 2 output_padding 1": nn.ConvTranspose3d(4, 2, 2, stride=2, output_padding=1),
            "MaxPool3d 3 stride 2 padding 1": nn.MaxPool3d(3, 2, 1),
            "AvgPool3d 3 stride 1 padding 1": nn.AvgPool3d(3, 1, 1),
        }
        return {name: run_layer(layer, volume) for name, layer in layers.items()}


def norm_layers():
    torch.manual_seed(5)
    x, image = torch.randn(4, 5), torch.randn(2, 4, 3, 5)
    norms = {
        "RMSNorm": (nn.RMSNorm(5, eps=1e-5), x),
        "GroupNorm": (nn.GroupNorm(2, 4), image),
        "GroupNorm one group": (nn.GroupNorm(1, 5), x),
        "InstanceNorm2d": (nn.InstanceNorm2d(4), image),
        "InstanceNorm2d affine": (nn.InstanceNorm2d(4, affine=True), image),
    }
    for norm, _ in norms.values():
        for parameter in norm.parameters():
            nn.init.uniform_(parameter, 0.5, 1.5)
    return {name: run_layer(*case) for name, case in norms.items()}


def activation_layers():
    x = torch.linspace(-4, 4, 17)
    return {name: run_layer(layer, x) for name, layer in {
        "SiLU": nn.SiLU(),
        "Softplus": nn.Softplus(),
        "Softplus 2 3": nn.Softplus(2, 3),
        "LeakyReLU": nn.LeakyReLU(),
        "LeakyReLU 0.2": nn.LeakyReLU(0.2),
        "ELU": nn.ELU(),
        "ELU 0.5": nn.ELU(0.5),
        "Hardtanh": nn.Hardtanh(),
        "Hardtanh -2 0.75": nn.Hardtanh(-2, 0.75),
    }.items()}


def recurrent():
    """Recurrent layers on (5, 3, 4), or (3, 5, 4): outputs, last states, gradients of a sum of all."""
    torch.manual_seed(5)
    cases = {}
    for name, layer in {
        "RNN": nn.RNN(4, 3),
        "RNN relu bidirectional": nn.RNN(4, 3, nonlinearity="relu", bidirectional=True),
        "GRU 2 layers batch_first": nn.GRU(4, 3, num_layers=2, batch_first=True),
        "LSTM": nn.LSTM(4, 3),
        "LSTM 2 layers bidirectional": nn.LSTM(4, 3, num_layers=2, bidirectional=True),
        "LSTM no bias batch_first": nn.LSTM(4, 3, bias=False, batch_first=True),
    }.items():
        x = torch.randn((3, 5, 4) if layer.batch_first else (5, 3, 4), requires_grad=True)
        shape = (layer.num_layers * (1 + layer.bidirectional), 3, 3)
        state = [torch.randn(shape, requires_grad=True) for _ in range(1 + isinstance(layer, nn.LSTM))]
        y, last = layer(x, tuple(state) if len(state) > 1 else state[0])
        last = last if len(state) > 1 else (last,)
        weights = torch.linspace(-1, 1, y.numel()).reshape(y.shape)
        ((y * weights).sum() + sum((part ** 2).sum() for part in last)).backward()
        case = {"input": x, "output": y, "output_weights": weights, "grad.input": x.grad}
        for i, part in enumerate(state):
            case |= {f"state.{i}": part, f"grad.state.{i}": part.grad, f"last.{i}": last[i]}
        for key, parameter in layer.named_parameters():
            case |= {f"before.{key}": parameter, f"grad.{key}": parameter.grad}
        cases[name] = case
    write("recurrent", cases)


def attention():
    """Attention and transformer layers on batches of (2, 5, 4); cross attention reads (2, 3, 4)."""
    torch.manual_seed(6)
    x, memory = torch.randn(2, 5, 4), torch.randn(2, 3, 4)
    mask = torch.rand(5, 3) < 0.5  # True where PyTorch must not attend
    mask[:, 0] = False
    causal = nn.Transformer.generate_square_subsequent_mask(5)

    def drawn(layer):
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -0.7, 0.7)
        return layer

    def run(layer, call):
        inputs = [tensor.clone().requires_grad_() for tensor in (x, memory)]
        y = call(layer, *inputs)
        weights = torch.linspace(-1, 1, y.numel()).reshape(y.shape)
        (y * weights).sum().backward()
        case = {"input": x, "memory": memory, "mask": (~mask).float(), "output": y, "output_weights": weights}
        for name, tensor in zip(("input", "memory"), inputs):
            case |= {} if tensor.grad is None else {f"grad.{name}": tensor.grad}
        for key, parameter in layer.named_parameters():
            case |= {f"before.{key}": parameter, f"grad.{key}": parameter.grad}
        return case

    layer = drawn(nn.MultiheadAttention(4, 2, batch_first=True))
    block = nn.TransformerEncoderLayer(4, 2, 6, 0.0, "gelu", batch_first=True, norm_first=True)
    cases = {
        "self": run(layer, lambda f, a, b: f(a, a, a, need_weights=False)[0])}
    layer.zero_grad()
    cases["cross mask"] = run(layer, lambda f, a, b: f(a, b, b, attn_mask=mask, need_weights=False)[0])
    cases["causal no bias"] = run(
        drawn(nn.MultiheadAttention(4, 2, bias=False, batch_first=True)),
        lambda f, a, b: f(a, a, a, attn_mask=causal, need_weights=False)[0])
    cases["TransformerBlock"] = run(drawn(block), lambda f, a, b: f(a))
    write("attention", cases)


def run_loss(loss, x, target, **extra):
    x = x.clone().requires_grad_()
    value = loss(x)
    value.sum().backward()
    return {"input": x, "target": target, "loss": value, "grad.input": x.grad, **extra}


def losses():
    torch.manual_seed(2)
    logits, classes = torch.randn(5, 4), torch.tensor([3, 0, 1, 1, 2])
    weight = torch.tensor([0.5, 1.0, 2.0, 0.25])
    ignoring = torch.tensor([3, -100, 1, -100, 2])
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    labels = (torch.rand(3, 4) < 0.5).float()
    positive = torch.tensor([0.5, 1.0, 2.0, 3.0])
    cases = {
        "cross_entropy": run_loss(lambda v: F.cross_entropy(v, classes), logits, classes),
        "cross_entropy sum": run_loss(lambda v: F.cross_entropy(v, classes, reduction="sum"), logits, classes),
        "cross_entropy none": run_loss(lambda v: F.cross_entropy(v, classes, reduction="none"), logits, classes),
        "cross_entropy weight": run_loss(
            lambda v: F.cross_entropy(v, classes, weight=weight), logits, classes, weight=weight),
        "cross_entropy ignore_index": run_loss(lambda v: F.cross_entropy(v, ignoring), logits, ignoring),
        "cross_entropy label_smoothing": run_loss(
            lambda v: F.cross_entropy(v, classes, label_smoothing=0.1), logits, classes),
        "cross_entropy weight ignore_index label_smoothing": run_loss(
            lambda v: F.cross_entropy(v, ignoring, weight=weight, label_smoothing=0.2), logits, ignoring,
            weight=weight),
        "mse_loss": run_loss(lambda v: F.mse_loss(v, y), x, y),
        "mse_loss sum": run_loss(lambda v: F.mse_loss(v, y, reduction="sum"), x, y),
        "l1_loss": run_loss(lambda v: F.l1_loss(v, y), x, y),
        "bce_with_logits": run_loss(lambda v: F.binary_cross_entropy_with_logits(v, labels), x, labels),
        "bce_with_logits pos_weight": run_loss(
            lambda v: F.binary_cross_entropy_with_logits(v, labels, pos_weight=positive), x, labels,
            pos_weight=positive),
    }
    write("losses", cases | more_losses())


def more_losses():
    torch.manual_seed(6)
    image, pixels = torch.randn(2, 4, 3, 2), torch.tensor([[[0, 3], [1, 1], [-100, 2]], [[2, 2], [0, 1], [3, -100]]])
    rows, classes = torch.randn(5, 4).log_softmax(1), torch.tensor([3, 0, -100, 1, 2])
    weight = torch.tensor([0.5, 1.0, 2.0, 0.25])
    x, y = 2 * torch.randn(3, 4), torch.randn(3, 4)
    logs, other = torch.randn(3, 4).log_softmax(1), torch.randn(3, 4).log_softmax(1)
    share = torch.tensor([0.0, 0.25, 0.5, 0.25]).expand(3, 4).contiguous()
    pairs, signs, third = torch.randn(3, 4), torch.tensor([1, -1, -1]), torch.randn(3, 4)
    linear, bias = torch.randn(6, 4), torch.randn(6)
    tokens = torch.tensor([5, -100, 0])
    return {
        "cross_entropy image": run_loss(lambda v: F.cross_entropy(v, pixels), image, pixels),
        "cross_entropy image none": run_loss(
            lambda v: F.cross_entropy(v, pixels, weight=weight, reduction="none", label_smoothing=0.1), image, pixels,
            weight=weight),
        "nll_loss": run_loss(lambda v: F.nll_loss(v, classes), rows, classes),
        "nll_loss weight": run_loss(lambda v: F.nll_loss(v, classes, weight), rows, classes, weight=weight),
        "nll_loss image sum": run_loss(lambda v: F.nll_loss(v, pixels, reduction="sum"), image, pixels),
        "kl_div": run_loss(lambda v: F.kl_div(v, share), logs, share),
        "kl_div log_target sum": run_loss(lambda v: F.kl_div(v, other, reduction="sum", log_target=True), logs, other),
        "huber_loss": run_loss(lambda v: F.huber_loss(v, y), x, y),
        "huber_loss 0.4": run_loss(lambda v: F.huber_loss(v, y, reduction="none", delta=0.4), x, y),
        "smooth_l1_loss": run_loss(lambda v: F.smooth_l1_loss(v, y), x, y),
        "smooth_l1_loss 0.4": run_loss(lambda v: F.smooth_l1_loss(v, y, reduction="sum", beta=0.4), x, y),
        "cosine_embedding_loss": run_loss(lambda v: F.cosine_embedding_loss(v, pairs, signs, 0.1), x, signs, b=pairs),
        "triplet_margin_loss": run_loss(lambda v: F.triplet_margin_loss(v, y, third), x, y, negative=third),
        "triplet_margin_loss 3 swap": run_loss(
            lambda v: F.triplet_margin_loss(v, y, third, margin=0.5, p=3, swap=True, reduction="none"), x, y,
            negative=third),
        "linear_cross_entropy": run_loss(
            lambda v: F.cross_entropy(F.linear(v, linear, bias), tokens, label_smoothing=0.1), x, tokens,
            weight=linear, bias=bias),
    }


def linear_algebra():
    torch.manual_seed(7)
    L = torch.linalg
    x, tall = torch.randn(2, 3, 3), torch.randn(2, 4, 3)
    wide = tall.transpose(1, 2).contiguous()
    regular, side = x + 4 * torch.eye(3), torch.randn(2, 3, 2)

    def symmetric(v):
        return v + v.mT

    def rebuilt(v):  # in which the signs of vectors cancel
        u, s, vh = L.svd(v, full_matrices=False)
        return (u / s.unsqueeze(-2)) @ vh

    def exponential(v):
        values, vectors = L.eigh(symmetric(v))
        return vectors * values.exp().unsqueeze(-2) @ vectors.mT

    write("linalg", {
        "solve": run_loss(lambda v: L.solve(v, side), regular, side),
        "inv": run_loss(L.inv, regular, side),
        "det": run_loss(L.det, x, side),
        "slogdet": run_loss(lambda v: L.slogdet(v).logabsdet, x, side),
        "lstsq": run_loss(lambda v: L.lstsq(v, tall).solution, tall.flip(0), tall),
        "cholesky": run_loss(lambda v: L.cholesky(v @ v.mT + torch.eye(3)), x, side),
        "qr": run_loss(lambda v: torch.cat(L.qr(v), 1), tall, side),
        "svd values": run_loss(L.svdvals, tall, side),
        "svd tall": run_loss(rebuilt, tall, side),
        "svd wide": run_loss(rebuilt, wide, side),
        "eigh values": run_loss(lambda v: L.eigvalsh(symmetric(v)), x, side),
        "eigh": run_loss(exponential, x, side),
    })


def run_optimizer(make, leaves_out=False, shapes=((3, 2), (4,))):
    """20 steps on two parameters with the gradients of 0.5 * |p * scale - target|^2.

    If leaves_out, no loss reaches the second parameter in steps 0, 3, 6 ..."""
    torch.manual_seed(3)
    start = [torch.randn(shape) for shape in shapes]
    scales = [torch.rand(shape) + 0.5 for shape in shapes]
    targets = [torch.randn(shape) for shape in shapes]
    parameters = [p.clone().requires_grad_() for p in start]
    optimizer = make(parameters)
    for step in range(20):
        optimizer.zero_grad(set_to_none=True)
        losses = [0.5 * ((p * s - t) ** 2).sum() for p, s, t in zip(parameters, scales, targets)]
        sum(losses[:1] if leaves_out and step % 3 == 0 else losses).backward()
        optimizer.step()
    case = {}
    for i in range(2):
        case |= {f"start.{i}": start[i], f"scale.{i}": scales[i], f"target.{i}": targets[i], f"end.{i}": parameters[i]}
    return case


def run_lbfgs(rounds):
    """Rounds of L-BFGS on a valley of ten unknowns (Rosenbrock's function, chained)."""
    x = torch.linspace(-1.5, 1.5, 10, dtype=torch.float64).requires_grad_()
    optimizer = torch.optim.LBFGS([x], max_iter=8, history_size=5, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
        loss.backward()
        return loss

    losses = [float(optimizer.step(closure)) for _ in range(rounds)]
    return {"losses": torch.tensor(losses, dtype=torch.float64), "end": x}


def run_average(decay):
    """The weights of run_optimizer's plain SGD, averaged over its steps."""
    averages = []

    def make(parameters):
        model = nn.ParameterList(parameters)
        average = torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(decay))
        average.update_parameters(model)  # the first call copies
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        optimizer.register_step_post_hook(lambda *_: average.update_parameters(model))
        averages.append(average)
        return optimizer

    case = run_optimizer(make)
    for i, average in enumerate(averages[0].module):
        case[f"average.{i}"] = average
    return case


def in_float32(make):
    """Muon computes in bfloat16; its formula is compared in float32."""
    class Muon(torch.optim.Muon):
        def step(self):
            to = torch.Tensor.to
            with unittest.mock.patch.object(torch.Tensor, "to", lambda x, dtype, copy=False: to(x, x.dtype, copy=copy)):
                return super().step()
    return lambda parameters: make(Muon, parameters)


def optimizers():
    optim = torch.optim
    cases = {
        "SGD": run_optimizer(lambda p: optim.SGD(p, lr=0.1)),
        "SGD momentum": run_optimizer(lambda p: optim.SGD(p, lr=0.05, momentum=0.9)),
        "SGD momentum dampening weight_decay": run_optimizer(
            lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.01)),
        "SGD nesterov": run_optimizer(lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True)),
        "Adam": run_optimizer(lambda p: optim.Adam(p, lr=0.02)),
        "Adam weight_decay": run_optimizer(lambda p: optim.Adam(p, lr=0.02, weight_decay=0.1)),
        "AdamW": run_optimizer(lambda p: optim.AdamW(p, lr=0.02)),
        "AdamW groups": run_optimizer(lambda p: optim.AdamW(
            [{"params": p[:1], "weight_decay": 0.5}, {"params": p[1:], "lr": 0.04}], lr=0.02, weight_decay=0)),
        "RMSprop": run_optimizer(lambda p: optim.RMSprop(p, lr=0.02, alpha=0.9)),
        "RMSprop momentum weight_decay": run_optimizer(
            lambda p: optim.RMSprop(p, lr=0.02, momentum=0.9, weight_decay=0.1)),
        "Adagrad": run_optimizer(lambda p: optim.Adagrad(p, lr=0.2)),
        "Adagrad decays initial": run_optimizer(lambda p: optim.Adagrad(
            p, lr=0.2, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5)),
        "Muon": run_optimizer(in_float32(lambda muon, p: muon(p, lr=0.02)), shapes=((3, 2), (4, 9))),
        "Muon plain match_adamw": run_optimizer(
            in_float32(lambda muon, p: muon(p, lr=0.1, nesterov=False, weight_decay=0.01, momentum=0.8, ns_steps=4,
                                            adjust_lr_fn="match_rms_adamw")), shapes=((3, 2), (4, 9))),
        "LBFGS": run_lbfgs(6),
        "average": run_average(0.9),
    }
    cases |= {f"{name} leaves out": run_optimizer(make, leaves_out=True) for name, make in {
        "SGD momentum dampening weight_decay":
            lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.01),
        "Adam weight_decay": lambda p: optim.Adam(p, lr=0.02, weight_decay=0.1),
        "AdamW": lambda p: optim.AdamW(p, lr=0.02),
        "RMSprop momentum weight_decay": lambda p: optim.RMSprop(p, lr=0.02, momentum=0.9, weight_decay=0.1),
        "Adagrad decays initial": lambda p: optim.Adagrad(
            p, lr=0.2, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5),
    }.items()}
    write("optimizers", cases)


def schedules():
    def rates(make):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
        schedule = make(optimizer)
        values = []
        for _ in range(20):
            values.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        return {"rates": torch.tensor(values, dtype=torch.float64)}

    def plateau(**options):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
        schedule = lr.ReduceLROnPlateau(optimizer, **options)
        metrics = [3.0, 2.0, 2.0, 1.99999, 1.99995, 2.5, 2.5, 2.5, 2.5, 1.0, 1.0, 1.04, 1.06, 1.06, 1.06, 1.06, 0.5]
        values = []
        for metric in metrics:
            schedule.step(metric)
            values.append(optimizer.param_groups[0]["lr"])
        return {"metrics": torch.tensor(metrics, dtype=torch.float64), "rates": torch.tensor(values, dtype=torch.float64)}

    lr = torch.optim.lr_scheduler
    write("schedules", {
        "step_decay": rates(lambda o: lr.StepLR(o, 6, 0.1)),
        "cosine": rates(lambda o: lr.CosineAnnealingLR(o, 20, 0.01)),
        "one_cycle": rates(lambda o: lr.OneCycleLR(o, 0.5, total_steps=21)),
        "multi_step": rates(lambda o: lr.MultiStepLR(o, [3, 7, 7, 15], 0.5)),
        "exponential": rates(lambda o: lr.ExponentialLR(o, 0.8)),
        "polynomial": rates(lambda o: lr.PolynomialLR(o, 15, 2.0)),
        "sequential": rates(lambda o: lr.SequentialLR(
            o, [lr.ConstantLR(o, 1.0), lr.ExponentialLR(o, 0.5), lr.StepLR(o, 2, 0.1)], [4, 9])),
        "plateau": plateau(mode="min", patience=1, factor=0.5, cooldown=2, min_lr=0.1),
        "plateau maximize": plateau(mode="max", patience=0, factor=0.1, threshold=0.05),
    })


def initialisers():
    """Sample deviations and largest magnitudes of large weights: which ours must match statistically."""
    torch.manual_seed(4)

    def statistics(weight):
        return {"deviation": weight.std().reshape(1), "largest": weight.abs().max().reshape(1)}

    def drawn(init, **options):
        weight = torch.empty(256, 64, 3, 3)
        init(weight, **options)
        return statistics(weight)

    write("initialisers", {
        "Linear weight": statistics(nn.Linear(400, 600).weight),
        "Linear bias": statistics(nn.Linear(400, 20000).bias),
        "Conv2d weight": statistics(nn.Conv2d(64, 256, 3).weight),
        "Embedding weight": statistics(nn.Embedding(600, 400).weight),
        "kaiming_uniform_": drawn(nn.init.kaiming_uniform_),
        "kaiming_normal_ fan_out": drawn(nn.init.kaiming_normal_, mode="fan_out"),
        "xavier_uniform_": drawn(nn.init.xavier_uniform_),
        "xavier_normal_": drawn(nn.init.xavier_normal_, gain=2.0),
    })


class Block(nn.Module):
    """torchvision's BasicBlock (kernels 3, 3) and Bottleneck (1, 3, 1), written anew with its names."""

    def __init__(self, inputs, width, stride, deep):
        super().__init__()
        self.count = 3 if deep else 2
        outputs = width * (4 if deep else 1)
        sizes = [inputs, width, width, outputs] if deep else [inputs, width, width]
        strided = 2 if deep else 1
        for i in range(1, self.count + 1):
            kernel = 1 if deep and i != 2 else 3
            step = stride if i == strided else 1
            self.add_module(f"conv{i}", nn.Conv2d(sizes[i - 1], sizes[i], kernel, step, kernel // 2, bias=False))
            self.add_module(f"bn{i}", nn.BatchNorm2d(sizes[i]))
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.count:
                y = F.relu(y)
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """torchvision's resnet18 and resnet50, with its names."""

    def __init__(self, counts, deep, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        inputs = 64
        for stage, count in enumerate(counts):
            width = 64 << stage
            blocks = []
            for block in range(count):
                blocks.append(Block(inputs, width, 2 if stage > 0 and block == 0 else 1, deep))
                inputs = width * (4 if deep else 1)
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            y = stage(y)
        return self.fc(y.mean((2, 3)))


def resnet(name, classes=1000):
    counts, deep = {"resnet18": ([2, 2, 2, 2], False), "resnet50": ([3, 4, 6, 3], True)}[name]
    return ResNet(counts, deep, classes).eval()


def wave(shape, phase):
    """sin(1.7 i + phase) for element i: values that need no file."""
    return torch.sin(1.7 * torch.arange(shape.numel(), dtype=torch.float64) + phase).reshape(shape)


def models():
    """Names and shapes of state dicts, and scores for weights and images that are waves."""
    cases = {}
    for name in ("resnet18", "resnet50"):
        cases[f"{name} shapes"] = {key: torch.tensor(value.shape) for key, value in resnet(name).state_dict().items()}
        net = resnet(name, 10).double()
        state = net.state_dict()
        keys = sorted(key for key in state if not key.endswith("num_batches_tracked"))
        for phase, key in enumerate(keys):
            values = wave(state[key].shape, phase)
            if key.endswith("running_var"):
                values = 1 + values / 2
            elif values.dim() > 1:
                values = values * (2 / values[0].numel()) ** 0.5
            else:
                values = ("weight" in key) + values / 10
            state[key].copy_(values.float())
        with torch.no_grad():
            cases[f"{name} scores"] = {"scores": net(wave(torch.Size([2, 3, 64, 64]), 0).float().double())}
    write("models", cases)


def run_scaled_dot_product(T=3, S=5, heads=2, key_heads=2, mask=None, **options):
    """Queries, keys, values, mask; the output, and the gradients of all four."""
    q, k, v = (torch.randn(2, h, n, d, requires_grad=True)
               for h, n, d in ((heads, T, 4), (key_heads, S, 4), (key_heads, S, 3)))
    y = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=heads != key_heads, **options)
    weights = torch.linspace(-1, 1, y.numel()).reshape(y.shape)
    (y * weights).sum().backward()
    case = {"q": q, "k": k, "v": v, "output": y, "output_weights": weights,
            "grad.q": q.grad, "grad.k": k.grad, "grad.v": v.grad}
    if mask is not None:
        case["mask"] = mask.float()
    if mask is not None and mask.requires_grad:
        case["grad.mask"] = mask.grad
    return case


def scaled_dot_product():
    torch.manual_seed(6)
    allowed = torch.rand(2, 1, 3, 5) < 0.5
    allowed[0, 0, 1] = False  # a query without keys
    write("scaled_dot_product", {
        "plain": run_scaled_dot_product(),
        "causal": run_scaled_dot_product(is_causal=True),
        "causal more queries": run_scaled_dot_product(T=5, S=3, is_causal=True),
        "scale": run_scaled_dot_product(scale=0.3),
        "grouped heads": run_scaled_dot_product(heads=6, key_heads=2, is_causal=True),
        "one head of keys": run_scaled_dot_product(heads=3, key_heads=1),
        "one query": run_scaled_dot_product(T=1),
        "bool mask": run_scaled_dot_product(mask=allowed),
        "added mask": run_scaled_dot_product(mask=torch.randn(2, 3, 5)),
        "added mask with gradient": run_scaled_dot_product(mask=torch.randn(3, 5, requires_grad=True)),
    })


if __name__ == "__main__":
    layers()
    recurrent()
    scaled_dot_product()
    attention()
    losses()
    linear_algebra()
    optimizers()
    schedules()
    initialisers()
    models()
