"""One server with data parallel N becomes N servers; bash shows what they and the trainer get."""

import os
import subprocess
import time

import pytest

from unstall.experiments.scripts.edit import plan_of
from unstall.experiments.scripts.servers import UnableError, checked, several

SERVER = """CUDA_VISIBLE_DEVICES=4,5,6,7 MAX_PIXELS=9 swift rollout --model m --host 10.0.0.5 \\
  --port 8100 --vllm_data_parallel_size 2 --vllm_tensor_parallel_size 2"""
TRAINER = """
CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=2 MASTER_PORT=8101 swift rlhf --rlhf_type grpo --model m \\
  --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.5 --vllm_server_port 8100
"""
STUB = """#!/bin/bash
printf '%s|' "$CUDA_VISIBLE_DEVICES" "$MAX_PIXELS" "$@" > "$TOLD.$BASHPID"
echo "log of $CUDA_VISIBLE_DEVICES"
"""


def split(tmp_path, text):
    path = tmp_path / "launch.sh"
    path.write_text(text)
    before, plan = plan_of(path)
    server = next(p for p in plan.programs if p.role == "rollout")
    return checked(several(before, plan, server), plan, server, [])


def started(tmp_path, text):
    """What each ``swift`` gets, sorted."""
    (tmp_path / "swift").write_text(STUB)
    (tmp_path / "swift").chmod(0o755)
    (tmp_path / "run.sh").write_text(f"{text}\nwait\n")
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "TOLD": str(tmp_path / "told"),
    }
    done = subprocess.run(
        ["bash", "run.sh"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    for _ in range(100):
        if len(list(tmp_path.glob("told.*"))) == 3:
            break
        time.sleep(0.05)
    assert not done.stderr
    return sorted(path.read_text() for path in tmp_path.glob("told.*"))


def test_each_server_gets_its_devices_and_a_free_port_and_the_trainer_all_of_them(tmp_path):
    after = split(tmp_path, f"{SERVER} &\n{TRAINER}")
    first = "4,5|9|rollout|--model|m|--host|10.0.0.5|--port|8100|--vllm_tensor_parallel_size|2|"
    second = first.replace("4,5", "6,7").replace("8100", "8102")  # 8101 is the trainer's
    trainer, *servers = started(tmp_path, after)
    assert servers == [first, second]
    assert trainer.endswith("--vllm_server_host|10.0.0.5|10.0.0.5|--vllm_server_port|8100|8102|")


def test_a_port_that_a_variable_holds(tmp_path):
    text = f"export P=9000\n{SERVER} &\n{TRAINER}".replace("8100", '"${P}"')
    trainer, *servers = started(tmp_path, split(tmp_path, text))
    assert [one.split("|")[8] for one in servers] == ["9000", "9001"]
    assert trainer.endswith("--vllm_server_port|9000|9001|")


def test_a_further_server_has_a_log_of_its_own_and_the_indentation_is_kept(tmp_path):
    text = f"if true; then\n  nohup {SERVER} > server.log 2>&1 &\nfi\n{TRAINER}"
    text = text.replace(
        "nohup CUDA_VISIBLE_DEVICES=4,5,6,7 MAX_PIXELS=9",
        "CUDA_VISIBLE_DEVICES=4,5,6,7 MAX_PIXELS=9 nohup",
    )
    after = split(tmp_path, text)
    assert len(started(tmp_path, after)) == 3
    assert (tmp_path / "server.log").read_text() == "log of 4,5\n"
    assert (tmp_path / "server.log.2").read_text() == "log of 6,7\n"
    assert "\n  CUDA_VISIBLE_DEVICES=6,7 MAX_PIXELS=9 nohup swift rollout" in after


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{SERVER}\n{TRAINER}", "in the background"),
        (f"{SERVER} &\n", "one server and one trainer"),
        (f"{SERVER.replace('4,5,6,7', '4,5,6')} &\n{TRAINER}", "cannot be divided by 2"),
        (f"{SERVER.replace('CUDA_VISIBLE_DEVICES=4,5,6,7 ', '')} &\n{TRAINER}", "not known"),
        (f"{SERVER.replace('8100', '$(cat port)')} &\n{TRAINER}", "an expression"),
        (f"{SERVER.replace('8100', '8200')} &\n{TRAINER}", "another port"),
        (f"{SERVER} &\n{TRAINER.replace('8100', '8100 8200')}", "one server by its host"),
        (f'bash -c "{SERVER} &"\n{TRAINER}', "no plain command"),
    ],
)
def test_what_is_missing_is_told(tmp_path, text, why):
    with pytest.raises(UnableError) as caught:
        split(tmp_path, text)
    assert why in caught.value.text.render()


def test_the_report_of_a_script_that_allows_one_engine_only_says_so(tmp_path):
    from unstall.experiments.scripts.changes import Edits
    from unstall.experiments.scripts.session import Candidate, _written
    from unstall.experiments.telling import Teller
    from unstall.model.text import verbatim

    path = tmp_path / "launch.sh"
    path.write_text(f"{SERVER}\n")
    text, plan = plan_of(path)
    server = plan.programs[0].label
    edits = Edits(server, {}, ("vllm_data_parallel_size",), {"CUDA_VISIBLE_DEVICES": "4,5"})
    (one,), (after,) = _written(
        [Candidate(verbatim("FIX"), (edits,), True)], text, plan, [], Teller()
    )
    assert "FIX - in this script only as one engine instead of 2" in one.label.render()
    assert "costs throughput" in one.label.render()
    assert "in the background" in one.label.render()
    assert "CUDA_VISIBLE_DEVICES=4,5 MAX_PIXELS" in after
