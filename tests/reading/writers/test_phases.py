from __future__ import annotations

import pytest

from unstall.reading.writers.phases import Phases


@pytest.mark.parametrize(
    ("line", "kind", "finished", "detail"),
    [
        ("Running tokenizer on dataset:  12%|█ | 3/9 [00:01<00:02]", "tokenize", False, ""),
        ("Using custom data configuration default-4be1c7", "load-data", False, ""),
        ("Loading checkpoint shards: 100%|█| 15/15 [04:11<00:00]", "load-model", False, ""),
        (
            "INFO 11-30 10:25:18 [gpu_model_runner.py:106] Starting to load model /opt/tiny...",
            "load-model",
            False,
            "/opt/tiny",
        ),
        ("INFO 11-30 [x.py:1] Model loading took 14.2 GiB and 3.1 seconds", "load-model", True, ""),
        (
            "Saving model checkpoint to /out/checkpoint-400",
            "save",
            False,
            "/out/checkpoint-400",
        ),
        (
            "saving checkpoint at iteration     100 to /ckpt/m in torch_dist format",
            "save",
            False,
            "/ckpt/m",
        ),
        (
            "  successfully saved checkpoint from iteration     100 to /ckpt/m",
            "save",
            True,
            "/ckpt/m",
        ),
        (
            "INFO:torchtune.utils._logging:Model checkpoint of size 4.63 GiB saved to /o/m-1.bin",
            "save",
            True,
            "/o/m-1.bin",
        ),
        ("***** Running Evaluation *****", "evaluate", False, ""),
        ("validation dataloader exhausted after 327 batches", "evaluate", True, ""),
        ("Capturing CUDA graphs (decode, FULL):  14%|█ | 5/35", "graph-capture", False, ""),
        ("Graph capturing finished in 21 secs, took 0.61 GiB", "graph-capture", True, ""),
        ("Processed prompts:   0%| | 0/12 [00:00<?, ?it/s]", "generate", False, ""),
        ("Compiling a graph for dynamic shape takes 6.2 s", "compile", False, ""),
        ("Time to load cpu_adam op: 2.55 seconds", "compile", True, ""),
        ("init engine (profile, create kv cache, warmup model) took 2.09 s", "init", True, ""),
        ("Init torch distributed begin.", "init", False, ""),
        ("***** Running training *****", "train", False, ""),
        ("`Trainer.fit` stopped: `max_epochs=1` reached.", "end", True, ""),
        ("{'train_runtime': 12.3, 'train_loss': 0.5}", "end", True, ""),
        ("After sync model weights in sharding manager", "weight-sync", True, ""),
        ("Updating weights from the trainer", "weight-sync", False, ""),
        ("Computing rewards for 96 completions", "reward", False, ""),
    ],
)
def test_wordings(read, line, kind, finished, detail):
    (fact,) = read(Phases, line + "\n")
    assert (fact.kind, fact.finished, fact.detail) == (kind, finished, detail)


def test_a_phase_said_again_is_told_once(read):
    bar = "Running tokenizer on dataset:  {}%|█ | 3/9 [00:01<00:02]\n"
    facts = read(Phases, bar.format(1) + bar.format(2) + "Start training\n" + bar.format(3))
    assert [fact.kind for fact in facts] == ["tokenize", "train", "tokenize"]


def test_scripts_and_frames_are_no_phases(read):
    text = '# Saving the model\n--save_strategy saving model\n  File "saving model.py", line 3\n'
    assert read(Phases, text) == []
