#!/usr/bin/env python3
"""Writes gpt2.safetensors and gpt2.json of this folder with the GPT-2 of Hugging Face's transformers.

    VENV/bin/python tests/golden/make_gpt2.py      with torch, safetensors and transformers in VENV

The model has random weights. gpt2.safetensors is what save_pretrained writes; gpt2.json has tokens, the
logits for them, and the gradients of the mean cross-entropy of the next tokens. The committed files were made
with PyTorch 2.15 and transformers 5.24 on the CPU.
"""
import pathlib
import shutil
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel

sys.dont_write_bytecode = True
import make_golden  # noqa: E402  (how tensors are written)

torch.manual_seed(7)
config = GPT2Config(vocab_size=23, n_positions=12, n_embd=16, n_layer=2, n_head=2, initializer_range=0.3,
                    resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
model = GPT2LMHeadModel(config).eval()
with torch.no_grad():
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:  # biases and norms start as zeros and ones, which would hide errors
            parameter.add_(0.2 * torch.randn_like(parameter))
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    shutil.copyfile(pathlib.Path(folder) / 'model.safetensors', make_golden.FOLDER / 'gpt2.safetensors')

tokens = torch.randint(0, config.vocab_size, (2, config.n_positions))
logits = model(tokens).logits
torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
gradients = {name: model.get_parameter(name).grad
             for name in ('transformer.wte.weight', 'transformer.h.0.attn.c_attn.bias', 'transformer.h.1.ln_1.weight')}
make_golden.write('gpt2', {'gpt2': {'tokens': tokens, 'logits': logits,
                                    **{f'gradient.{name}': x for name, x in gradients.items()}}})
