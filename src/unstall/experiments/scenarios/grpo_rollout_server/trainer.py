"""GRPO: group-relative advantages, clipped ratios, a reference, dynamic sampling; FSDP2."""

from __future__ import annotations

import random
from typing import Any

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenarios._training import log_step
from unstall.experiments.scenarios.grpo_rollout_server import policy
from unstall.experiments.scenarios.grpo_rollout_server.client import VLLMClient
from unstall.experiments.scenarios.grpo_rollout_server.rollout import IMAGES

EPSILON_LOW, EPSILON_HIGH = 0.2, 0.28
BETA = 0.01
MAX_RESAMPLE_TIMES = 1
LEARNING_RATE = 2e-3

Group = list[Any]


class Trainer:
    """One rank of the trainer."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.torch = torch = lab.torch()
        # ms-swift's default for the groups is five hours (ddp_timeout)
        self.dist = lab.join(18_000.0)
        self.client: VLLMClient | None = None
        self.draw = random.Random(lab.settings.seed)  # noqa: S311
        self.model = policy.build(torch)
        self.reference = policy.build(torch).eval()
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        fully_shard(self.model, mesh=init_device_mesh("cpu", (lab.world,)))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE)
        if lab.rank == 0:
            port = int(lab.await_file("rollout.port"))
            self.client = VLLMClient(port, 18_000.0)
            self.client.init_communicator()

    # --- rollout ------------------------------------------------------------------------------

    def move_model_to_vllm(self) -> None:
        """Gather the sharded weights; rank 0 hands them to the engines."""
        torch = self.torch
        self.model.unshard()
        if self.client is not None:
            vector = torch.nn.utils.parameters_to_vector(
                [p.detach() for p in self.model.parameters()]
            )
            self.client.update_flattened_params(vector)
        self.model.reshard()

    def infer(self, groups: list[int]) -> list[Group]:
        """Complete each prompt several times; rank 0 asks, all ranks hear the answer."""
        times = int(self.lab.size("generations"))
        prompts = [image for image in groups for _ in range(times)]
        longest = 120 if self.lab.settings.control == "uneven-lengths" else 0
        longest = max(longest, int(self.lab.size("tokens")))
        # a table rather than pickled objects: those need numpy
        table = self.torch.zeros(len(prompts), 2 + 2 * longest, dtype=self.torch.float64)
        if self.client is not None:
            for row, (tokens, logprobs, colour) in zip(
                table, self.client.infer(prompts), strict=True
            ):
                count = len(tokens)
                row[:2] = self.torch.tensor([count, colour])
                row[2 : 2 + count] = self.torch.tensor(tokens)
                row[2 + longest : 2 + longest + count] = self.torch.tensor(
                    logprobs, dtype=self.torch.float64
                )
        self.dist.broadcast(table, src=0)
        flat = []
        for row in table.tolist():
            count = int(row[0])
            tokens = [int(token) for token in row[2 : 2 + count]]
            flat.append((tokens, row[2 + longest : 2 + longest + count], int(row[1])))
        return [flat[i : i + times] for i in range(0, len(flat), times)]

    def rollout(self) -> list[Group]:
        """Groups for one step; those whose rewards are all alike are sampled again."""
        wanted = int(self.lab.size("prompts"))
        groups = self.infer([self.draw.randrange(IMAGES) for _ in range(wanted)])
        for _ in range(MAX_RESAMPLE_TIMES):
            good = [group for group in groups if len(set(self.rewards(group))) > 1]
            if len(good) == wanted:
                break
            fresh = self.infer([self.draw.randrange(IMAGES) for _ in range(wanted)])
            rest = [group for group in groups if group not in good]
            more = [group for group in fresh if len(set(self.rewards(group))) > 1]
            groups = (good + more + rest)[:wanted]
        return groups

    def rewards(self, group: Group) -> list[float]:
        """The reward of each completion of a group."""
        longest = int(self.lab.size("tokens"))
        return [policy.reward(colour, tokens, longest) for tokens, _, colour in group]

    # --- training -----------------------------------------------------------------------------

    def batch(self, groups: list[Group]) -> dict[str, Any]:
        """This rank's rows as tensors, with their advantages."""
        torch = self.torch
        rows, olds, advantages, lengths = [], [], [], []
        for group in groups:
            values = self.rewards(group)
            mean = sum(values) / len(values)
            spread = (sum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1)) ** 0.5
            for (tokens, logprobs, colour), value in zip(group, values, strict=True):
                rows.append([policy.START, policy.FIRST_COLOUR + colour, *tokens])
                olds.append(logprobs)
                advantages.append((value - mean) / (spread + 1e-4))
                lengths.append(len(tokens))
        own = slice(self.lab.rank, None, self.lab.world)
        rows, olds, lengths = rows[own], olds[own], lengths[own]
        longest = max(map(len, rows))
        return {
            "ids": torch.tensor([row + [policy.PAD] * (longest - len(row)) for row in rows]),
            "old": torch.tensor([old + [0.0] * (longest - 2 - len(old)) for old in olds]),
            "mask": torch.tensor([[1.0] * n + [0.0] * (longest - 2 - n) for n in lengths]),
            "advantage": torch.tensor(advantages[own]).unsqueeze(1),
        }

    def logprobs(self, model: Any, ids: Any) -> Any:
        """Log-probabilities of the completions' tokens."""
        scores = self.torch.log_softmax(model(ids)[:, 1:-1], dim=-1)
        return scores.gather(2, ids[:, 2:].unsqueeze(2)).squeeze(2)

    def compute_loss(self, batch: dict[str, Any]) -> tuple[Any, float]:
        """The clipped objective with its penalty, and the mean divergence from the reference."""
        torch = self.torch
        new = self.logprobs(self.model, batch["ids"])
        with torch.no_grad():
            reference = self.logprobs(self.reference, batch["ids"])
        apart = reference - new
        kl = apart.exp() - apart - 1
        ratio = (new - batch["old"]).exp()
        clipped = ratio.clamp(1 - EPSILON_LOW, 1 + EPSILON_HIGH)
        gain = torch.minimum(ratio * batch["advantage"], clipped * batch["advantage"])
        per_token = -(gain - BETA * kl) * batch["mask"]
        count = batch["mask"].sum().clamp(min=1)
        return per_token.sum() / count, float((kl * batch["mask"]).sum() / count)

    def training_step(self, step: int) -> None:
        """One step: weights to the engines, rollout, loss, update, metrics."""
        self.move_model_to_vllm()
        groups = self.rollout()
        loss, kl = self.compute_loss(self.batch(groups))
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        values = [value for group in groups for value in self.rewards(group)]
        tokens = [len(one[0]) for group in groups for one in group]
        log_step(
            self.lab,
            step,
            float(loss.detach()),
            **{
                "completions/mean_length": sum(tokens) / len(tokens),
                "reward": sum(values) / len(values),
                "kl": kl,
            },
        )


def train(lab: Lab) -> None:
    """Train to the last step."""
    trainer = Trainer(lab)
    if lab.rank == 0:
        say_line("***** Running training *****")
    for step in range(1, lab.settings.steps + 1):
        trainer.training_step(step)
    lab.leave(trainer.dist)
