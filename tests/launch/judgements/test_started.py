"""Ranks that are started against ranks that are waited for; each conflict beside its neighbour."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.launch.plans import judgements, lines, plan, wrong

JOB = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node={}\n"


class TestTasks:
    RUN = (
        "torchrun --nnodes {} --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint h:77 fit.py\n"
    )

    @pytest.mark.parametrize(("each", "bad"), [(1, False), (8, True)])
    def test_one_task_for_each_node(self, each: int, bad: bool) -> None:
        found = plan(JOB.format(each) + "srun " + self.RUN.format(2))
        assert (wrong(found) == {"tasks"}) == bad
        if bad:
            (row,) = judgements(found, "tasks")
            assert lines(row) == [4]
            assert row.correction == "srun --nodes=2 --ntasks-per-node=1 …"

    def test_a_step_that_names_its_nodes(self) -> None:
        text = JOB.format(8) + "srun --nodes=2 --ntasks-per-node=1 " + self.RUN.format(2)
        assert wrong(plan(text)) == set()

    def test_a_step_whose_number_slurm_ignores(self) -> None:
        text = JOB.format(8) + "srun --ntasks-per-node=1 " + self.RUN.format(2)
        assert wrong(plan(text)) == {"tasks"}

    @pytest.mark.parametrize(("nodes", "bad"), [("2", False), ("4", True), ("1:4", False)])
    def test_nodes_that_nobody_starts(self, nodes: str, bad: bool) -> None:
        found = plan(JOB.format(1) + "srun " + self.RUN.format(nodes))
        assert (wrong(found) == {"tasks"}) == bad

    def test_nodes_that_a_loop_starts_one_by_one(self) -> None:
        text = (
            JOB.format(1) + "for i in 0 1; do\n  srun -N 1 -n 1 -w n$i torchrun --nnodes 2 "
            "--node_rank $i --master_addr n0 --nproc_per_node 8 fit.py &\ndone\nwait\n"
        )
        assert wrong(plan(text)) == set()

    @pytest.mark.parametrize(
        ("machines", "expected"), [("--num_machines 2", None), ("", "suspicious")]
    )
    def test_accelerate(self, machines: str, expected: str | None) -> None:
        text = JOB.format(1) + (
            f"srun accelerate launch {machines} --num_processes 16 --main_process_ip h "
            "--rdzv_backend c10d fit.py\n"
        )
        rows = judgements(plan(text), "tasks")
        assert [r.judgement for r in rows] == ([expected] if expected else [])

    @pytest.mark.parametrize(
        ("words", "doubt"),
        [
            ("srun deepspeed --num_gpus 8 fit.py", True),
            ("srun -N 1 -n 1 deepspeed --num_gpus 8 fit.py", False),
            ("srun deepspeed --no_ssh --node_rank $R --num_gpus 8 fit.py", False),
            ("deepspeed --num_gpus 8 fit.py", False),
        ],
    )
    def test_deepspeeds_launcher_starts_all_ranks_itself(self, words: str, doubt: bool) -> None:
        rows = judgements(plan(JOB.format(1) + words + "\n"), "tasks")
        assert [r.judgement for r in rows] == (["suspicious"] if doubt else [])


class TestLightning:
    RUN = "python fit.py --trainer.devices {} --trainer.num_nodes {} --trainer.strategy ddp\n"

    @pytest.mark.parametrize(
        ("devices", "nodes", "expected"),
        [(4, 2, set()), (8, 2, {"devices"}), (4, 1, {"nodes"}), (-1, 2, set())],
    )
    def test_under_srun(self, devices: int, nodes: int, expected: set[str]) -> None:
        found = plan(JOB.format(4) + "srun " + self.RUN.format(devices, nodes))
        assert wrong(found) == expected

    def test_srun_is_missing(self) -> None:
        text = self.RUN.format(4, 1)
        job = "#SBATCH --nodes=1\n#SBATCH --ntasks-per-node={}\n"
        assert wrong(plan(job.format(4) + text)) == {"tasks"}
        assert wrong(plan(job.format(4) + "srun " + text)) == set()
        assert wrong(plan(job.format(1) + text)) == set()

    def test_tasks_that_are_not_told_by_node(self) -> None:
        text = "#SBATCH --nodes=1\n#SBATCH --ntasks={}\nsrun " + self.RUN.format(4, 1)
        assert wrong(plan(text.format(4))) == {"tasks"}
        assert wrong(plan("#SBATCH --ntasks-per-node=4\n" + text.format(4))) == set()

    @pytest.mark.parametrize(("devices", "bad"), [(4, False), (8, True)])
    def test_under_torchrun(self, devices: int, bad: bool) -> None:
        text = "torchrun --standalone --nproc_per_node 4 " + self.RUN.split(" ", 1)[1]
        assert (wrong(plan(text.format(devices, 1))) == {"devices"}) == bad


class TestPods:
    PYTORCH = """
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        metadata: {{name: fit}}
        spec:
          pytorchReplicaSpecs:
            Master:
              replicas: 1
              template: {{spec: {{hostIPC: true, containers: [{{name: pytorch, command:
                [torchrun, --nnodes={n}, --nproc_per_node=4, fit.py]}}]}}}}
            Worker:
              replicas: 1
              template: {{spec: {{hostIPC: true, containers: [{{name: pytorch, command:
                [torchrun, --nnodes={n}, --nproc_per_node=4, fit.py]}}]}}}}
    """
    JOBSET = """
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {{name: fit}}
        spec:
          replicatedJobs:
            - name: workers
              replicas: 2
              template:
                spec:
                  parallelism: 2
                  template: {{spec: {{hostIPC: true, containers: [{{name: fit, command: [bash, -c,
                    "torchrun --nnodes={n} --nproc_per_node=4 --node_rank=$JOB_COMPLETION_INDEX
                    --master_addr=fit-workers-0-0.fit fit.py"]}}]}}}}
    """

    @pytest.mark.parametrize(
        ("manifest", "nodes", "bad"),
        [(PYTORCH, 2, False), (PYTORCH, 3, True), (JOBSET, 4, False), (JOBSET, 5, True)],
    )
    def test_more_nodes_than_pods(self, manifest: str, nodes: int, bad: bool) -> None:
        found = plan(configs={"job.yaml": manifest.format(n=nodes)})
        assert len(found.programs) == 1
        assert (wrong(found) == {"nodes"}) == bad

    @pytest.mark.parametrize(("most", "bad"), [(2, True), (8, False)])
    def test_an_autoscaler_may_start_more(self, most: int, bad: bool) -> None:
        manifest = f"""
            apiVersion: kubeflow.org/v1
            kind: PyTorchJob
            metadata: {{name: fit}}
            spec:
              elasticPolicy: {{rdzvBackend: c10d, minReplicas: 1, maxReplicas: {most}}}
              pytorchReplicaSpecs:
                Worker:
                  replicas: 2
                  template: {{spec: {{hostIPC: true, containers: [{{name: pytorch, command:
                    [torchrun, --nnodes=3, --nproc_per_node=4, fit.py]}}]}}}}
        """
        found = plan(configs={"job.yaml": manifest})
        assert (wrong(found) == {"nodes"}) == bad
        (port,) = found.programs[0].ports
        assert port.host is not None
        assert (port.host.text, port.value.text) == ("fit-worker-0", "23456")

    JOB = """
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: {name}}}
        spec:
          {mode}
          parallelism: 1
          template: {{spec: {{hostIPC: true, containers: [{{name: fit, command: [torchrun,
            --nnodes=2, --nproc_per_node=4, "--node_rank={rank}", --master_addr=m, fit.py]}}]}}}}
    """

    @pytest.mark.parametrize(("mode", "bad"), [("", False), ("completionMode: Indexed", True)])
    def test_nodes_that_are_jobs_of_their_own(self, mode: str, bad: bool) -> None:
        parts = [self.JOB.format(name=f"n{n}", mode=mode, rank=n) for n in range(2)]
        found = plan(configs={"jobs.yaml": "---\n".join(dedent(part) for part in parts)})
        assert ("nodes" in wrong(found)) == bad

    def test_the_line_of_what_an_operator_hands_on(self) -> None:
        manifest = dedent(self.PYTORCH.format(n=2)).replace("--nproc_per_node=4, ", "")
        manifest = manifest.replace("spec:\n", 'spec:\n  nprocPerNode: "8"\n', 1)
        limited = manifest.replace("fit.py]}", "fit.py], resources: {limits: {x/gpu: 4}}}")
        (row,) = judgements(plan(configs={"job.yaml": limited.lstrip("\n")}), "devices")
        assert (row.judgement, lines(row)[0]) == ("conflict", 5)
