"""The exchange of weights between trainer and server: its requests, functions, files and port."""

from __future__ import annotations

import re

from unstall.causes.base import FAIR, STRONG, WEAK
from unstall.job import Job
from unstall.model.facts import PythonException, Remark
from unstall.model.text import Text, say

#: Requests and functions of the exchange. TRL 0.16+ vllm_serve.py and vllm_client.py, ms-swift 3.x
#: rollout.py, SGLang http_server.py, vLLM RLHF examples and weight transfer, verl, OpenRLHF.
ROUTE = re.compile(
    r"/(?:init_communicator|update_named_params?|update_flattened_params|update_weights\w*"
    r"|init_weights?_update_group|update_adapter\w*|start_weight_update|finish_weight_update"
    r"|init_weight_transfer\w*|update_bucket\w*)\b"
)
FUNCTION = re.compile(
    r"init_communicator|update_named_params?|update_flattened|update_weights?|update_group"
    r"|weight_transfer|_move_model_to_vllm|sync_weights?|broadcast_to_vllm|sharding_manager"
    r"|WeightSync|weight_sync|init_custom_process_group|StatelessProcessGroup"
)
FILE = re.compile(r"vllm_client|vllm_serve|weight_sync|weight_transfer|broadcast_vllm|stateless")
#: Port of the exchange in TRL and ms-swift; the i-th server of ms-swift takes the i-th from there.
GROUP_PORT = 51216


def is_port(job: Job, port: int | None) -> bool:
    """Whether the exchange of weights has that port, by the launch script or by default."""
    ports = [p for program in job.programs for p in program.ports if p.purpose == "weight-exchange"]
    if ports:
        return any(p.value.text == str(port) for p in ports)
    return port is not None and GROUP_PORT <= port < GROUP_PORT + 8


def meets(exception: PythonException) -> bool:
    """Whether it was raised inside the exchange of weights."""
    return any(
        FUNCTION.search(frame.function) or FILE.search(frame.file)
        for frame in exception.frames[-25:]
    )


def broken_off(job: Job, exception: PythonException) -> tuple[Text, float, str] | None:
    """How the exchange was ended from outside: what tells it, its weight, its sort of sign."""
    if not meets(exception):
        return None
    if exception.type.endswith("KeyboardInterrupt"):
        # whoever interrupts has waited long enough to take it for a hang
        still = ("stuck", "no-output", "gpu-idle", "gpu-busy")
        told = any(remark.topic in still for remark in job.all(Remark))
        text = say(
            "it was interrupted while it stood in the exchange of weights: {function}",
            function=exception.frames[-1].function,
        )
        return text, STRONG + WEAK if told else FAIR, "frames"
    if re.search(r"RemoteDisconnected|Connection aborted", f"{exception.type} {exception.message}"):
        text = say(
            "the server closed the connection in the middle of a request of the exchange: "
            "{message}",
            message=exception.message[:160],
        )
        # the server's process may have ended for a reason of its own
        return text, STRONG + WEAK / 2, "request"
    return None
