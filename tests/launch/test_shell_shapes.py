"""Shapes of shell that the grammar, or a paste, makes hard to read."""

from __future__ import annotations

import pytest

from tests.launch.plans import only, plan


def words(text: str) -> list[str]:
    return list(only(plan(text)).command)


class TestRedirections:
    @pytest.mark.parametrize(
        "text",
        [
            "vllm serve m > s.log --port 9001 2>&1 --seed 4\n",
            "> s.log vllm serve m --port 9001 --seed 4\n",
            "vllm serve m 2>err.log \\\n  --port 9001 \\\n  --seed 4 >>out.log\n",
            "vllm serve m --port 9001 --seed 4 &> s.log\n",
            "vllm serve m --port 9001 < /dev/null --seed 4\n",
        ],
    )
    def test_words_behind_a_redirection_are_the_commands(self, text: str) -> None:
        assert words(text) == ["vllm", "serve", "m", "--port", "9001", "--seed", "4"]

    def test_words_behind_a_here_document_are_too(self) -> None:
        text = "torchrun fit.py <<END --lr 3\nsome text\nEND\n"
        assert words(text) == ["torchrun", "fit.py", "--lr", "3"]

    @pytest.mark.parametrize("flags", ["-r -d ''", "-rd ''", "-d ''"])
    def test_a_here_document_that_is_read_into_a_variable(self, flags: str) -> None:
        text = (
            f"read {flags} cmd <<EOF\npkg.train \\\n   --lr 3 \\\n   --seed 4\nEOF\n"
            "torchrun -m $cmd\n"
        )
        assert words(text) == ["torchrun", "-m", "pkg.train", "--lr", "3", "--seed", "4"]

    @pytest.mark.parametrize("read", ["read -r cmd", "read -r -d '' one cmd", "read -d ''"])
    def test_other_reads_are_not_followed(self, read: str) -> None:
        text = f"{read} <<EOF\npkg.train --lr 3\nEOF\ntorchrun -m pkg.train $cmd --seed 4\n"
        assert "--lr" not in words(text)

    def test_their_lines_are_kept(self) -> None:
        found = plan("vllm serve m > s.log \\\n  --port \\\n  9001\n")
        assert only(found).ports[0].value.place is not None
        assert only(found).ports[0].value.place.line == 3


class TestFileNames:
    def test_a_pattern_stays_symbolic(self) -> None:
        program = only(plan("torchrun fit.py --data /d/part-*.bin --out '/o/*.pt' --x ab\n"))
        data, out = program.flags["data"], program.flags["out"]
        assert (data.text, data.known) == ("/d/part-*.bin", False)
        assert (out.text, out.known) == ("/o/*.pt", True)
        assert program.flags["x"].known

    def test_a_pattern_in_a_variable_counts_where_it_is_not_quoted(self) -> None:
        program = only(plan('P=/d/*.bin\ntorchrun fit.py --a $P --b "$P"\n'))
        assert (program.flags["a"].known, program.flags["b"].known) == (False, True)

    def test_brackets_of_hydra_are_no_pattern(self) -> None:
        program = only(plan("torchrun fit.py --loggers ['console','wandb']\n"))
        assert program.flags["loggers"].text == "[console,wandb]"
        assert program.flags["loggers"].known

    def test_one_pattern_twice_is_one_text(self) -> None:
        program = only(plan("torchrun fit.py --a /d/*.bin --b /d/*.bin --c /e/*.bin\n"))
        assert program.flags["a"].same_as(program.flags["b"]) is True
        assert program.flags["a"].same_as(program.flags["c"]) is None


class TestValues:
    @pytest.mark.parametrize(
        "text",
        [
            "OUT=o/$A/$B/c_$A.yaml\ntorchrun fit.py $OUT\n",
            "export OUT=o/$A/$B/c_$A.yaml Z=1\ntorchrun fit.py $OUT\n",
            "f() { local OUT=o/$A/$B/c_$A.yaml; torchrun fit.py $OUT; }\nf\n",
            "ALL=(o/$A/$B/c_$A.yaml)\ntorchrun fit.py ${ALL[@]}\n",
            "for OUT in o/$A/$B/c_$A.yaml; do torchrun fit.py $OUT; done\n",
        ],
    )
    def test_a_path_of_several_variables_is_one_word(self, text: str) -> None:
        assert words("A=p\nB=q\n" + text) == ["torchrun", "fit.py", "o/p/q/c_p.yaml"]

    def test_the_command_behind_such_an_assignment_is_found(self) -> None:
        program = only(plan("A=p\nB=q\nOUT=o/$A/$B/$A torchrun fit.py\n"))
        assert program.command == ("torchrun", "fit.py")
        assert program.environment["OUT"].text == "o/p/q/p"

    def test_an_escaped_sign_behind_an_expansion_stays_in_its_word(self) -> None:
        assert words("for X in ${NONE:-0}\\$y; do torchrun fit.py $X; done\n")[2:] == ["0$y"]


class TestCallers:
    ARGUMENTS = """
        MODEL=""
        while [[ $# -gt 0 ]]; do
          case $1 in
            --model)
              MODEL="$2"
              shift 2
              ;;
            *)
              echo "what is $1"
              exit 1
              ;;
          esac
        done
        if [[ -z "$MODEL" ]]; then
          exit 1
        fi
        torchrun fit.py --model $MODEL
        """

    def test_branches_of_case_are_neither_flags_nor_prose(self) -> None:
        found = plan(self.ARGUMENTS)
        assert found.notes == ()
        assert only(found).command[:2] == ("torchrun", "fit.py")
        assert not only(found).flags["model"].known

    @pytest.mark.parametrize("test", ['[ -z "${BASE:-}" ]', '[[ -z "${BASE:-}" ]]'])
    def test_what_the_caller_must_set_is_not_taken_for_empty(self, test: str) -> None:
        text = f'if {test}; then\n  echo "set BASE"\n  exit 1\nfi\ntorchrun fit.py\n'
        assert words(text) == ["torchrun", "fit.py"]

    def test_what_the_script_itself_left_empty_is_empty(self) -> None:
        text = 'BASE=\nif [ -z "${BASE:-}" ]; then\n  exit 1\nfi\ntorchrun fit.py\n'
        assert plan(text).programs == ()

    def test_what_the_script_unset_is_empty(self) -> None:
        text = 'unset BASE\nif [ -z "${BASE:-}" ]; then\n  exit 1\nfi\ntorchrun fit.py\n'
        assert plan(text).programs == ()
