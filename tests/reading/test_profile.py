"""What a whole text tells of its lines' beginnings."""

from __future__ import annotations

from unstall.reading.profile import Profile, profile


def test_viewer_numbers_rise_by_one_even_within_prose() -> None:
    lines = ["Hi,", *[f"[{n}] step {n % 3}" for n in range(80741, 80749)], "Thanks"]
    assert profile(lines) == Profile(numbered=("bracket",))
    assert profile([f"{n}: text" for n in range(5, 9)]).numbered == ("colon",)
    assert profile([f"{n:>6}\ttext" for n in range(1, 5)]).numbered == ("tab",)
    assert profile([f"{n}| text" for n in range(31, 40)]).numbered == ("pipe",)


def test_results_of_a_search_have_gaps() -> None:
    assert profile([f"{n}:[rank0]: x" for n in (12, 90, 91, 400, 2001)]).numbered == ("colon",)


def test_task_numbers_repeat_or_begin_at_zero() -> None:
    lines = [" 3: a", " 0: b", "12: c", " 3: d", " 3: e"]
    assert profile(lines) == Profile(tasks=True)
    assert profile(["0: a", "1: b", "2: c", "3: d"]) == Profile(tasks=True)


def test_a_programs_own_numbers_are_none() -> None:
    lines = ["loading", "epoch", "0: warmup", "saving", "done", "x", "y", "z"]
    assert profile(lines) == Profile()
    assert profile(["[0] ready", "[3] ready", "[1] ready"]) == Profile()
    assert profile(["Epoch: [3]", "Step: [4]"]) == Profile()


def test_hosts_of_pdsh_and_containers_of_compose() -> None:
    lines = ["worker-1: a", "worker-2: b", "worker-1: c", "worker-2: d"]
    assert profile(lines).hosts == {"worker-1", "worker-2"}
    lines = ["trainer    | a", "vllm       | b", "trainer    | c", "vllm       | d"]
    assert profile(lines).containers == {"trainer", "vllm"}


def test_words_before_a_colon_are_no_hosts() -> None:
    assert profile(["INFO: a", "INFO: b", "ERROR: c", "ERROR: d"]).hosts == frozenset()


def test_roles_of_torchrun() -> None:
    lines = ["[actor0]:a", "[actor1]:b", "[actor0]:c", "d"]
    assert profile(lines).roles == {"actor"}
    assert profile(["[step3]: x", *["text"] * 9]).roles == frozenset()


def test_names_that_were_put_before_the_lines_of_several_outputs() -> None:
    lines = ["[left] step 1", "[right] step 1", "[left] step 2", "[right] [rank3]: KeyError: 'x'"]
    assert profile([*lines, "[right] [rank3]: bye"]).labels == {"left", "right"}
    lines = ["gpu-pool-a main step 1", "gpu-pool-b main step 1", "gpu-pool-a main step 2"]
    sure = ["gpu-pool-b main Traceback (most recent call last):"]
    found = profile([*lines, *sure])
    assert (found.labelled, found.labels) == (" ", {"gpu-pool-a main", "gpu-pool-b main"})
    lines = ["server: ready", "learner: ready", "server: (W pid=3) x", "learner: INFO:     y"]
    assert profile(lines).labels == {"server", "learner"}
    assert profile(["(A) x", "(B) y", "(A) [rank0]: x", "(B) z"]).labels == {"A", "B"}


def test_words_before_lines_that_programs_say_themselves_are_no_labels() -> None:
    assert profile(["[alpha] step 1", "[alpha] step 2", "[alpha] step 3"]).labelled == ""
    levels = ["[INFO] a", "[ERROR] Traceback (most recent call last):", '[ERROR]   File "x"']
    assert profile([*levels, "[INFO] b"]).labelled == ""
    assert profile(["ERROR: Traceback (most recent call last):"] * 5).labelled == ""
