"""Makes a model and a tokenizer on the spot: random weights, a few hundred tokens, no download.

``python tiny_model.py FOLDER``. A Qwen3 of two layers and some 150 thousand parameters, and a
byte-level BPE tokenizer trained on made-up sentences, with the chat format of Qwen. What it says
is noise; that it says it through the real code is what counts.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
WORDS = (
    *("a", "the", "one", "two", "three", "many", "few", "all", "red", "green", "blue", "left"),
    *("right", "up", "down", "image", "shows", "what", "which", "where", "how", "why", "is"),
    *("are", "was", "of", "in", "on", "and", "or", "not", "system", "user", "assistant"),
)
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def sentences(count: int, seed: int = 0) -> list[str]:
    """Made-up sentences of 4 to 20 words."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    return [" ".join(draw.choices(WORDS, k=draw.randrange(4, 21))) for _ in range(count)]


def make_tokenizer(folder: Path) -> int:
    """Write the tokenizer's files; the size of its vocabulary."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences(500), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    parts = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    (folder / "vocab.json").write_text(json.dumps(parts["vocab"]), encoding="utf-8")
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in parts["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]), encoding="utf-8")
    flags = dict.fromkeys(("lstrip", "rstrip", "normalized", "single_word"), False)
    config = {
        "tokenizer_class": "Qwen2Tokenizer",
        "eos_token": SPECIAL[2],
        "pad_token": SPECIAL[0],
        "model_max_length": 2048,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT,
        "added_tokens_decoder": {
            str(number): {"content": text, "special": True, **flags}
            for number, text in enumerate(SPECIAL)
        },
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    return int(tokenizer.get_vocab_size())


def make_model(folder: Path, vocabulary: int) -> None:
    """Write the model's weights and configuration."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=-(-vocabulary // 64) * 64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
    )
    model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    model.generation_config.eos_token_id = [2]
    model.generation_config.pad_token_id = 0
    model.save_pretrained(folder)


def main() -> None:
    """Write both into the folder named on the command line."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    make_model(folder, make_tokenizer(folder))
    rows = [{"messages": [{"role": "user", "content": text}]} for text in sentences(512, seed=1)]
    (folder / "questions.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
