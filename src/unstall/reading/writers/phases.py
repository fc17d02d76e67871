"""What a program says it is doing: loading, tokenizing, saving, evaluating, generating.

Wordings are those of transformers, datasets, TRL, ms-swift, LLaMA-Factory, axolotl, DeepSpeed,
Megatron-LM, NeMo, Lightning, torchtune, torchtitan, verl, OpenRLHF, vLLM and SGLang.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.model.facts import Fact, Phase, Speaker
from unstall.reading.line import Line
from unstall.reading.writers.lines import Pattern, Sentences, common

_OBJECT = re.compile(
    r"\b(?:to|into|in|at|from|model|file|dataset|folder:?) "
    r"[`'\"]?([^\s`'\",]{0,200}[/\\][^\s`'\",]{1,300})"
)
"""The path that the phase is about."""
_NOISE = re.compile(
    r"^\s*(?:#|\$ |echo |export |File \"|--|python |pip )|Traceback|\bTo (?:save|load)"
    r"|HTTP/1\.|argument"
)


def _phase(kind: str, marks: str, regex: str, *, finished: bool = False) -> Pattern:
    def make(line: Line, found: re.Match[str]) -> Fact | None:
        if _NOISE.search(line.text[:400]) is not None:
            return None
        thing = _OBJECT.search(line.text, found.start(), found.start() + 600)
        detail = thing[1].rstrip(".:,;)") if thing else ""
        return Phase(**common(line), kind=kind, finished=finished, detail=detail)

    return Pattern(marks, re.compile(regex), make)


class Phases(Sentences):
    """Beginnings and ends of phases. A phase that is said over and over is told once."""

    patterns = (
        # Ends first: "Finished saving" also looks like "saving".
        _phase(
            "end",
            "raining|train_runtime|Trainer.fit|End of training",
            r"Training completed\. Do not forget|[Tt]raining (?:done|complete|completed|finished)\b"
            r"|Finished training|\[after training is done\]|`Trainer\.fit` stopped"
            r"|End of training|'train_runtime'|Training run complete",
            finished=True,
        ),
        _phase(
            "save",
            "aved|inished saving|state dict took|state dictionary|checkpoint saved",
            r"successfully saved checkpoint|Finished saving|[Ss]aved (?:the )?(?:an? )?"
            r"(?:[\w.-]{1,40} ){0,3}(?:checkpoint|model|state|optimizer|weights)\b"
            r"|[Cc]heckpoint (?:of size .{1,30} )?saved|weights saved in"
            r"|(?:config|tokenizer).{0,40}saved in|[Cc]onfiguration saved in"
            r"|\[Torch\] Saved|state dict took",
            finished=True,
        ),
        _phase(
            "evaluate",
            "alidation|valuat",
            r"(?:[Vv]alidation|[Ee]valuation) (?:\w{1,20} )?(?:exhausted|finished|completed?|done"
            r"|ended|end)\b|Finished (?:evaluating|evaluation|validation)",
            finished=True,
        ),
        _phase(
            "graph-capture",
            "Graph capturing finished|Capture cuda graph end|Capture draft cuda graph end",
            r"Graph capturing finished|Capture (?:draft )?cuda graph end",
            finished=True,
        ),
        _phase(
            "compile",
            "torch.compile takes|Time to load |Dynamo bytecode transform time",
            r"torch\.compile takes|Time to load \w{1,40} op|Dynamo bytecode transform time",
            finished=True,
        ),
        _phase(
            "load-model",
            "oading weights took|odel loading took|Load weight end|Loaded model|oaded checkpoint"
            "|loaded checkpoint",
            r"[Ll]oading (?:model )?weights took|[Mm]odel loading took|Load weight end"
            r"|Loaded model\b|[Ss]uccessfully loaded checkpoint|[Ll]oaded checkpoint",
            finished=True,
        ),
        _phase(
            "init",
            "init engine (|Application startup complete|ready to roll|Server is up!"
            "|Init torch distributed ends",
            r"init engine \(profile|Application startup complete|fired up and ready to roll"
            r"|Server is up!|Init torch distributed ends",
            finished=True,
        ),
        _phase(
            "weight-sync",
            "eight",
            r"(?:After|after) (?:sync|resharding|updating) (?:model |the )?weights?"
            r"|[Ww]eights? (?:sync\w{0,12}|updated?|transfer(?:red)?) (?:done|finished|complete)"
            r"|[Ff]inished (?:updating|syncing|broadcasting) (?:the )?weights",
            finished=True,
        ),
        _phase(
            "generate",
            "enerat|ollout",
            r"[Rr]ollout (?:done|finished|completed?)\b"
            r"|[Gg]eneration (?:done|finished|completed?)\b"
            r"|[Ff]inished generat",
            finished=True,
        ),
        _phase(
            "reward",
            "eward",
            r"[Rr]eward (?:computation|computing|scoring) (?:done|finished|complete)"
            r"|[Ff]inished computing rewards?",
            finished=True,
        ),
        # Beginnings.
        _phase(
            "tokenize",
            "okeniz|(num_proc=",
            r"[Rr]unning tokenizer on|[Tt]okeniz(?:ing|e) (?:the )?(?:\w{1,20} )?"
            r"(?:data|prompt|sample|train|eval|text|example)|Tokenizing\b|^Map \(num_proc="
            r"|[Pp]re-?tokeniz|Applying chat template|Filtering (?:prompts|too long)",
        ),
        _phase(
            "load-data",
            "ataset|rain split|validation split|data configuration|ownloading data|ataloader",
            r"[Ll]oading (?:the )?(?:\w{1,20} )?datasets?\b|Generating \w{1,30} split"
            r"|Using custom data configuration|Downloading data|building (?:the )?(?:\w{1,20},? )"
            r"{0,5}datasets|[Bb]uilding dataloader|[Pp]reprocessing (?:the )?dataset"
            r"|[Pp]acking (?:the )?dataset",
        ),
        _phase(
            "load-model",
            "oading|tarting to load|Load weight begin|esum|ownloading shards|Retrieving full",
            r"[Ll]oading (?:safetensors |pt )?checkpoint(?: shards)?\b|[Ss]tarting to load model"
            r"|[Ll]oading (?:the )?(?:\w{1,20} )?(?:model|weights)\b|loading weights file"
            r"|Load weight begin|Downloading shards|[Rr]esum(?:ing|ed) (?:training )?from"
            r"|loading (?:distributed )?checkpoint|loading checkpoint from",
        ),
        _phase(
            "save",
            "aving|Retrieving full model state|optimizer state dict|local_global_step_folder",
            r"\b[Ss]aving (?:the )?(?:an? )?(?:[\w.-]{1,40} ){0,4}(?:checkpoint|model|state|"
            r"optimizer|weights)\b|saving checkpoint at iteration|\[Torch\] Saving"
            r"|Retrieving (?:full model|optimizer) state|local_global_step_folder",
        ),
        _phase(
            "evaluate",
            "unning Evaluation|unning Prediction|alidation|valuati|anity Check|test_gen_batch"
            "|val batch",
            r"\*{3,8} Running (?:Evaluation|Prediction|evaluation|validation)|Sanity Check"
            r"|(?:[Rr]unning|[Ss]tarting|[Ss]tart|[Bb]egin|[Bb]eginning) (?:the )?"
            r"(?:evaluation|validation)\b|[Ee]valuating\b|test_gen_batch meta|\bval batch \d",
        ),
        _phase(
            "weight-sync",
            "eight|init_communicator",
            r"[Uu]pdat(?:e|ing) (?:the )?(?:model )?weights\b|[Ss]ync(?:hroni[sz])?(?:ing|e)? "
            r"(?:the )?(?:model |policy |actor )?weights?\b|[Bb]roadcast(?:ing)? (?:the )?"
            r"(?:\w{1,20} )?weights|(?:Before|before) (?:sync|resharding) (?:model )?weights?"
            r"|[Tt]ransferr?ing weights|[Ww]eight (?:sync|transfer|update) (?:start|begin)",
        ),
        _phase(
            "reward",
            # verl's reward managers print samples under these words while they score
            "eward|[prompt]|[ground_truth]",
            r"^\[(?:prompt|ground_truth)\] |(?:[Cc]omput(?:e|ing)|[Cc]alculating|[Ss]coring) "
            r"(?:the )?(?:\w{1,20} )?rewards?\b"
            r"|[Ss]tart (?:the )?reward|[Rr]eward (?:computation|scoring) (?:start|begin)",
        ),
        _phase(
            "generate",
            "enerat|ollout|Processed prompts",
            r"Processed prompts:|[Gg]enerating (?:rollouts?|completions?|samples|responses"
            r"|sequences|experience)|[Ss]tart(?:ing)? (?:the )?(?:rollout|generation)\b"
            r"|make_experience|[Rr]ollout (?:start|begin)",
        ),
        _phase(
            "graph-capture",
            "apturing|Capture cuda graph begin|Capture draft cuda graph begin",
            r"[Cc]apturing (?:the )?(?:model for )?(?:CUDA|cuda) ?graphs?|Capturing cudagraphs?"
            r"|Capture (?:draft )?cuda graph begin|Capturing batches",
        ),
        _phase(
            "compile",
            "ompil|Building extension module|PyTorch extensions root|Loading extension module",
            r"Compiling (?:a |the )?(?:graph|model|kernel)|[Ss]tart compiling|Building extension "
            r"module|as PyTorch extensions root|Loading extension module|Warming up .{0,20}compil",
        ),
        _phase(
            "init",
            "nitializ|init_process_group|distributed init|Init torch distributed begin"
            "|init message from front-end",
            r"[Ii]nitializing (?:the )?(?:torch\.?distributed|torch distributed|process group"
            r"|TorchBackend|distributed)\b|\| distributed init \(rank|init_process_group (?:start|"
            r"called|begin)|Init torch distributed begin|Waiting for init message from front-end",
        ),
        _phase(
            "train",
            "raining",
            r"\*{3,8} Running training|\[before the start of training step\]|[Ss]tart(?:ing)? "
            r"(?:the )?training\b|[Tt]raining starts? at|[Bb]egin(?:ning)? training",
        ),
    )

    def __init__(self) -> None:
        self._last: dict[Speaker, tuple[str, bool, str]] = {}
        self._left = 20_000

    def feed(self, line: Line) -> Iterable[Fact]:
        """The phase that the line begins or ends, unless the line before said the same."""
        facts: list[Fact] = []
        for fact in super().feed(line):
            if not isinstance(fact, Phase):
                continue
            now = (fact.kind, fact.finished, fact.detail)
            if self._last.get(line.speaker) == now or self._left <= 0:
                continue
            if line.speaker in self._last or len(self._last) < 4096:
                self._last[line.speaker] = now
            self._left -= 1
            facts.append(fact)
        return facts
