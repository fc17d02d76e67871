"""Runs the policy: one token for each running request in each step."""

from __future__ import annotations

from typing import Any

from unstall.experiments.child import distributed
from unstall.experiments.scenarios.grpo_rollout_server import policy
from unstall.experiments.scenarios.grpo_rollout_server.vllm.forward_context import DPMetadata


class Request:
    """A request in the scheduler."""

    def __init__(self, request_id: str, prompt: list[int], max_tokens: int) -> None:
        self.request_id = request_id
        self.prompt = prompt
        self.max_tokens = max_tokens
        self.tokens: list[int] = []
        self.logprobs: list[float] = []


class ModelRunner:
    """The model and its data-parallel bookkeeping."""

    def __init__(self, torch: Any, dp_rank: int, dp_size: int, dp_group: Any) -> None:
        self.torch = torch
        self.model = policy.build(torch).eval()
        self.dp_rank = dp_rank
        self.dp_size = dp_size
        self.dp_group = dp_group
        self.exchange: Any = None
        self.dummy = torch.tensor([[policy.START]])

    def _before_forward(self, num_tokens: int) -> None:
        if self.dp_size > 1 and self.dp_group is not None:
            DPMetadata.num_tokens_across_dp(num_tokens, self.dp_size, self.dp_rank, self.dp_group)

    def execute_model(self, requests: list[Request]) -> list[Request]:
        """One token for each request; those that are finished by it."""
        torch = self.torch
        self._before_forward(len(requests))
        rows = [one.prompt + one.tokens for one in requests]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [policy.PAD] * (longest - len(row)) for row in rows])
        with torch.no_grad():
            logits = self.model(ids)
            last = logits[torch.arange(len(rows)), torch.tensor([len(row) - 1 for row in rows])]
            scores = torch.log_softmax(last, dim=-1)
            chosen = torch.multinomial(scores.exp(), 1)
            values = scores.gather(1, chosen).squeeze(1).tolist()
        finished = []
        for request, token, value in zip(requests, chosen.squeeze(1).tolist(), values, strict=True):
            request.tokens.append(token)
            request.logprobs.append(value)
            if token == policy.END or len(request.tokens) >= request.max_tokens:
                finished.append(request)
        return finished

    def profile_run(self) -> None:
        """Passes of the start-up, small and large; each with the all-reduce of a step."""
        for rows in (1, 8, 32):
            self._before_forward(rows)
            with self.torch.no_grad():
                logits = self.model(self.dummy.expand(rows, 6))
                self.torch.multinomial(self.torch.softmax(logits[:, -1], dim=-1), 1)

    def execute_dummy_batch(self) -> None:
        """A step without requests, so that the others' all-reduce completes."""
        self._before_forward(1)
        with self.torch.no_grad():
            self.model(self.dummy)

    # --- weight exchange ------------------------------------------------------------------------

    def init_communicator(self, port: int, rank: int, world: int, seconds: float) -> None:
        """Join the group in which the trainer hands over its weights."""
        from datetime import timedelta

        wait = timedelta(seconds=seconds)
        store = distributed().TCPStore(
            "127.0.0.1", port, world, False, wait, wait_for_workers=False
        )
        self.exchange = distributed().ProcessGroupGloo(store, rank, world, wait)

    def update_flattened_params(self) -> None:
        """Take the trainer's weights."""
        torch = self.torch
        vector = torch.nn.utils.parameters_to_vector(self.model.parameters()).detach().clone()
        self.exchange.broadcast(vector, 0).wait()
        torch.nn.utils.vector_to_parameters(vector, self.model.parameters())
