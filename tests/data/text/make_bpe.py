#!/usr/bin/env python3
"""Writes bpe.json with Hugging Face's tokenizers: python3 make_bpe.py TEXT

It holds a training text, the vocabulary and the merges that were learned from it, and the tokens of other texts.
"""

import json
import pathlib
import sys

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

TEXTS = [
    "", "the ranks and the tensors", "It's 12 o'clock,  now we'll go\n\n  and they've  ", "   leading",
    "tabs\t\tand\r\nlines ", "naïve café — “quotes” 你好世界 १२ ½\u00a0x", "😀 emoji\u3000wide",
    "aaaaaaaaaa bbb 'dog 'S", "x²+y₂ = 3.14", "\u0000\u007f\u0080 control",
]


def main():
    training = pathlib.Path(sys.argv[1]).read_text()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator([training], trainers.BpeTrainer(
        vocab_size=400, min_frequency=2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    document = {"training": training, "vocabulary": model["vocab"],
                "merges": [" ".join(pair) for pair in model["merges"]],
                "cases": [{"text": text, "tokens": tokenizer.encode(text).ids} for text in TEXTS]}
    pathlib.Path(__file__).with_name("bpe.json").write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
