"""Peer: the cases of cuda_training_benchmark.cc in PyTorch, each as a function that runs it once.

A case's name describes it fully: operator or network, dtype, extents. Variants of a step are `eager`,
`compile` (torch.compile of the network and its loss) and `graph` (the whole step as a CUDA graph).
"""
import re
import sys

import torch
import torch.nn.functional as F
from torch import nn

sys.dont_write_bytecode = True
from torch_sequence import GPT  # noqa: E402  (beside this file)

WARM_UPS = 3
CLASSES = 1000


class Running:
    """A timed case: call() queues the work; loss() is the last loss, None for an operator."""

    def __init__(self, call, loss=lambda: None):
        self.call = call
        self.loss = loss


def parsed(name):
    """('resnet18', 'bfloat16', {'B': 64, ..}) of 'step/resnet18/bfloat16/B:64/..'."""
    match = re.fullmatch(r'(?:step/(\w+)|BM_(\w+)/cuda)/(\w+?)((?:/\w+:\d+)*)(?:@captured)?', name)
    if not match:
        raise ValueError(f'torch_cuda: a case must look like step/NET/DTYPE/B:N; got {name}')
    extents = {key: int(value) for key, value in re.findall(r'(\w+):(\d+)', match[4])}
    return match[1] or match[2], getattr(torch, match[3]), extents


# --- Networks ----------------------------------------------------------------------------------


class Residual(nn.Module):
    """Convolutions with batch norm and ReLU next to a shortcut, like torchvision's blocks."""

    def __init__(self, inputs, layers, stride):
        super().__init__()
        self.layers = nn.ModuleList()
        channels = inputs
        for outputs, kernel, layer_stride in layers:
            self.layers.append(nn.Conv2d(channels, outputs, kernel, layer_stride, kernel // 2,
                                         bias=False))
            self.layers.append(nn.BatchNorm2d(outputs))
            channels = outputs
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, channels, 1, stride, bias=False),
                                          nn.BatchNorm2d(channels))

    def forward(self, x):
        y = x
        for i, layer in enumerate(self.layers):
            y = layer(y)
            if i % 2 and i + 1 < len(self.layers):
                y = F.relu(y, inplace=True)
        y += self.shortcut(x)
        return F.relu(y, inplace=True)


def basic(inputs, channels, stride):
    return Residual(inputs, [(channels, 3, stride), (channels, 3, 1)], stride)


def bottleneck(inputs, channels, stride):
    return Residual(inputs, [(channels, 1, 1), (channels, 3, stride), (4 * channels, 1, 1)], stride)


def resnet(block, expansion, stages):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    inputs = channels = 64
    for stage, blocks in enumerate(stages):
        for i in range(blocks):
            layers.append(block(inputs, channels, 2 if stage and not i else 1))
            inputs = expansion * channels
        channels *= 2
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode='fan_out', nonlinearity='relu')
    return net


NETWORKS = {
    'tiny_mlp': lambda: nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 5)),
    'resnet18': lambda: resnet(basic, 1, [2, 2, 2, 2]),
    'resnet50': lambda: resnet(bottleneck, 4, [3, 4, 6, 3]),
}


def gpt(extents):
    return GPT(*(extents[key] for key in 'VTLHC'))


def step(name, variant, device):
    network, dtype, extents = parsed(name)
    count = extents['B']
    net = gpt(extents) if network == 'gpt' else NETWORKS[network]()
    net = net.to(device)
    if network == 'tiny_mlp':
        x, target = torch.randn(count, 10, device=device), torch.randn(count, 5, device=device)
        criterion = F.mse_loss
    elif network == 'gpt':
        tokens = torch.randint(extents['V'], (count, extents['T'] + 1), device=device)
        x, target = tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()

        def criterion(logits, targets):
            return F.cross_entropy(logits.flatten(0, 1), targets)
    else:
        net = net.to(memory_format=torch.channels_last)
        x = torch.randn(count, 3, extents['H'], extents['W'], device=device)
        x = x.to(memory_format=torch.channels_last)
        target = torch.randint(CLASSES, (count,), device=device)
        criterion = F.cross_entropy
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def loss_of(inputs, labels):
        if dtype == torch.float32:
            return criterion(net(inputs), labels)
        with torch.autocast(torch.device(device).type, dtype):
            return criterion(net(inputs), labels)

    if variant == 'compile':
        if not hasattr(torch, 'compile'):
            raise RuntimeError(f'torch {torch.__version__} has no torch.compile')
        torch._dynamo.reset()  # or a second batch size would be compiled for any size
        loss_of = torch.compile(loss_of)

    def train(inputs, labels):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(inputs, labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if variant == 'graph':
        return graphed(train, x, target)
    last = []

    def call():
        last[:] = [train(x, target)]
    return Running(call, lambda: last[0].item())


def graphed(train, x, target):
    """The step captured as PyTorch's documentation does it; every call copies the batch in."""
    inputs, labels = x.clone(), target.clone()
    first = train(inputs, labels).item()  # the loss of the first call, as on the other side
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            train(inputs, labels)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = train(inputs, labels)
    losses = [first]

    def call():
        inputs.copy_(x)
        labels.copy_(target)
        graph.replay()

    def last():
        return losses.pop() if losses else loss.item()
    return Running(call, last)


# --- Operators ---------------------------------------------------------------------------------


def operator(name, device):
    kind, dtype, extents = parsed(name)

    def random(*shape, like=dtype):
        return torch.randn(*shape, dtype=like, device=device)

    def images():
        shape = [extents[axis] for axis in 'BCHW']
        return random(*shape).to(memory_format=torch.channels_last)

    def rows():
        return random(extents['B'], extents['C'])

    def unary(function):
        x = rows()
        return lambda: function(x)

    def copy():
        x, y = rows(), rows()
        return lambda: y.copy_(x)

    def add():
        a, b = rows(), rows()
        return lambda: a + b

    def layer_norm():
        x, w, b = rows(), random(extents['C']), random(extents['C'])
        return lambda: F.layer_norm(x, w.shape, w, b)

    def cross_entropy():
        x = rows()
        target = torch.zeros(extents['B'], dtype=torch.int64, device=device)
        return lambda: F.cross_entropy(x, target)

    def batch_norm_relu():
        x, w, b = images(), *(random(extents['C'], like=torch.float32) for _ in range(2))
        return lambda: F.relu(F.batch_norm(x, None, None, w, b, training=True), inplace=True)

    def adam():
        p = random(extents['n']).requires_grad_()
        p.grad = random(extents['n'])
        fused = {'fused': True} if p.is_cuda else {}
        return torch.optim.Adam([p], **fused).step

    def matmul():
        a, b = random(extents['M'], extents['K']), random(extents['K'], extents['N'])
        return lambda: a @ b

    def conv2d():
        x, w = images(), random(extents['K'], extents['C'], 3, 3)
        w = w.to(memory_format=torch.channels_last)
        return lambda: F.conv2d(x, w, padding=1)

    def heads():
        return random(*(extents[axis] for axis in 'BHTD')).requires_grad_()

    def attention():
        q, k, v = heads(), heads(), heads()
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def attention_backward():
        inputs, gradient = [heads() for _ in range(3)], heads().detach()
        output = F.scaled_dot_product_attention(*inputs, is_causal=True)
        return lambda: torch.autograd.grad(output, inputs, gradient, retain_graph=True)

    operators = {
        'Attention': attention, 'AttentionBackward': attention_backward,
        'Copy': copy, 'Add': add, 'Relu': lambda: unary(torch.relu),
        'Sum': lambda: unary(lambda x: x.sum(extents['axis'])),
        'Softmax': lambda: unary(lambda x: F.softmax(x, 1)),
        'LayerNorm': layer_norm, 'CrossEntropy': cross_entropy, 'BatchNormRelu': batch_norm_relu,
        'Adam': adam, 'Matmul': matmul, 'Conv2d': conv2d}
    if kind not in operators:
        raise ValueError(f'torch_cuda: no operator {kind} here')
    return Running(torch.no_grad()(operators[kind]()))


def variants(name):
    if name.startswith('BM_'):
        return ['eager']
    return ['graph'] if name.endswith('@captured') else ['eager', 'compile']


def build(name, variant, device='cuda'):
    torch.manual_seed(0)
    if name.startswith('BM_'):
        return operator(name, device)
    return step(name, variant, device)
