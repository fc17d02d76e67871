# ruff: noqa: E501, S104 (log lines stand as they were written)
from __future__ import annotations

from unstall.model.facts import GroupCreated, Identity
from unstall.reading.writers.identity import Identities, LoggerNames, MegatronArguments


def test_an_engines_settings(read):
    text = (
        "(EngineCore_DP1 pid=7) INFO 11-30 10:26:17 [core.py:77] Initializing a V1 LLM engine"
        " (v0.11.0.post2) with config: model='/m', speculative_config=None, dtype=torch.bfloat16,"
        " tensor_parallel_size=2, pipeline_parallel_size=1, disable_custom_all_reduce=True,"
        " compilation_config={'level': 3, 'sizes': [1, 2]}, enforce_eager=False\n"
    )
    (fact,) = read(Identities, text)
    assert isinstance(fact, Identity)
    assert (fact.software, fact.role, fact.version) == ("vllm", "inference", "0.11.0.post2")
    assert fact.settings["tensor_parallel_size"] == "2"
    assert fact.settings["disable_custom_all_reduce"] == "True"
    assert fact.settings["compilation_config"] == "{'level': 3, 'sizes': [1, 2]}"
    assert fact.settings["model"] == "/m"
    assert fact.speaker.name == "EngineCore_DP1"


def test_ranks_and_their_roles(read):
    (fact,) = read(
        Identities,
        "(EngineCore_DP0 pid=3) INFO 11-30 10:25:18 [parallel_state.py:1208] rank 3 in world size 4"
        " is assigned as DP rank 1, PP rank 0, TP rank 1, EP rank 3\n",
    )
    assert isinstance(fact, GroupCreated)
    assert (fact.size, fact.speaker.rank, fact.speaker.pid) == (4, 3, 3)
    assert fact.roles == {"DP": 1, "PP": 0, "TP": 1, "EP": 3}


def test_other_programs(read):
    facts = read(
        Identities,
        """\
INFO 01-02 03:04:05 [api_server.py:1] vLLM API server version 0.9.1
[2025-01-06 02:58:11] server_args=ServerArgs(model_path='/q', tp_size=4, port=30000)
[INFO:swift] swift.__version__: 4.3.0
[INFO:swift] args: RLHFArguments(rlhf_type='grpo', num_generations=8, deepspeed={'a': 1})
run sh: `/v/bin/python /v/swift/cli/rollout.py --model /m --port 8000`
[2023-08-30 10:02:14,902] [INFO] [logging.py:96:log_dist] [Rank 0] DeepSpeed info: version=0.14.2, git-hash=unknown
using world size: 8, data-parallel size: 2, tensor-model-parallel size: 4
INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)
Initializing distributed: GLOBAL_RANK: 2, MEMBER: 3/8
""",
    )
    told = [
        (fact.software, fact.role, fact.version) for fact in facts if isinstance(fact, Identity)
    ]
    assert told == [
        ("vllm", "inference", "0.9.1"),
        ("sglang", "inference", None),
        ("ms-swift", None, "4.3.0"),
        ("ms-swift", "trainer", None),
        ("ms-swift", "rollout", None),
        ("deepspeed", "trainer", "0.14.2"),
        ("megatron", "trainer", None),
        ("uvicorn", None, None),
    ]
    assert facts[1].settings == {"model_path": "/q", "tp_size": "4", "port": "30000"}
    assert facts[3].settings["num_generations"] == "8"
    assert facts[6].settings["tensor_model_parallel_size"] == "4"
    assert facts[7].settings == {"host": "0.0.0.0", "port": "8000"}
    assert (facts[8].size, facts[8].speaker.rank) == (8, 2)


def test_a_server_that_is_given_weights_serves_a_trainer(read):
    text = (
        'INFO:     10.0.0.7:5311 - "POST /init_communicator/ HTTP/1.1" 200 OK\n'
        'INFO:     10.0.0.7:5312 - "POST /init_communicator/ HTTP/1.1" 404 Not Found\n'
        'INFO:     10.0.0.7:5313 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    )
    (fact,) = read(Identities, text)
    assert (fact.software, fact.role, fact.place.line) == ("vllm", "rollout", 1)


def test_a_loggers_name_is_told_once(read):
    text = "[NeMo I 2025-04-11 x] a\n[NeMo W 2025-04-11 x] b\n[INFO:swift] c\n"
    assert [fact.software for fact in read(LoggerNames, text)] == ["nemo", "ms-swift"]


def test_megatrons_table(read):
    (fact,) = read(
        MegatronArguments,
        """\
------------------------ arguments ------------------------
  accumulate_allreduce_grads_in_fp32 .............. True
  distributed_timeout_minutes ..................... 10
-------------------- end of arguments ---------------------
""",
    )
    assert fact.settings == {
        "accumulate_allreduce_grads_in_fp32": "True",
        "distributed_timeout_minutes": "10",
    }
