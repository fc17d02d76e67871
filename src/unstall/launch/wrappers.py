"""Commands that only start another one: where the inner command begins.

Options are listed with whether they take a value, from each command's manual page (coreutils 9,
util-linux 2.39, OpenSSH 9, Slurm 24.05 srun, Open MPI 5 mpirun, Docker 27 ``docker run``,
Apptainer 1.3).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Peeled(msgspec.Struct, frozen=True):
    """One outer command.

    Attributes:
        name: ``srun``, ``mpirun``, ``docker``, ``ssh``, ``env``, ``nohup`` …
        options: option to its values, in the order given; ``""`` for those without a value.
        assigns: ``NAME=value`` words that it gives to the inner command's environment.
        operands: its own operands before the inner command (host, image, session).
        start: index of the inner command's first word; equal to the length where there is none.
        shell: the inner words are one shell text rather than a command's words.
    """

    name: str
    options: tuple[tuple[str, str], ...]
    assigns: tuple[int, ...]
    operands: tuple[str, ...]
    start: int
    shell: bool = False


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DOCKER = _words(
    "-a --attach --add-host --annotation --blkio-weight --blkio-weight-device --cap-add "
    "--cap-drop --cgroup-parent --cgroupns --cidfile --cpu-count --cpu-percent --cpu-period "
    "--cpu-quota --cpu-rt-period --cpu-rt-runtime -c --cpu-shares --cpus --cpuset-cpus "
    "--cpuset-mems --detach-keys --device --device-cgroup-rule --device-read-bps "
    "--device-read-iops --device-write-bps --device-write-iops --dns --dns-option --dns-search "
    "--domainname --entrypoint -e --env --env-file --expose --gpus --group-add --health-cmd "
    "--health-interval --health-retries --health-start-period --health-timeout -h --hostname "
    "--ip --ip6 --ipc --isolation --kernel-memory -l --label --label-file --link "
    "--link-local-ip --log-driver --log-opt --mac-address -m --memory --memory-reservation "
    "--memory-swap --memory-swappiness --mount --name --network --net --network-alias "
    "--oom-score-adj "
    "--pid --pids-limit --platform -p --publish --pull --restart --runtime --security-opt "
    "--shm-size --stop-signal --stop-timeout --storage-opt --sysctl --tmpfs --ulimit -u "
    "--user --userns --uts -v --volume --volume-driver --volumes-from -w --workdir "
)
_SRUN = _words(
    "-A --account --acctg-freq -B --extra-node-info --bcast --bb --bbf -C --constraint -c "
    "--cpus-per-task --cpus-per-gpu --comment --compress --container --cpu-bind --cpu-freq -d "
    "--dependency -D --chdir --chdir --delay-boot -e --error --export --epilog --exclude -x "
    "--gid --gpu-bind --gpu-freq -G --gpus --gpus-per-node --gpus-per-socket --gpus-per-task "
    "--gres --het-group --hint -i --input -J --job-name --jobid -K -k --kill-on-bad-exit -L "
    "--licenses -m --distribution --mail-type --mail-user --mcs-label --mem --mem-bind "
    "--mem-per-cpu --mem-per-gpu --mincpus --mpi --msg-timeout -N --nodes -n --ntasks "
    "--ntasks-per-core --ntasks-per-gpu --ntasks-per-node --ntasks-per-socket --network --nice -o "
    "--output "
    "--open-mode -p --partition --power --priority --profile --prolog -q --qos -r --relative "
    "--reservation --signal --slurmd-debug --sockets-per-node --switches -t --time "
    "--task-epilog --task-prolog -T --threads --threads-per-core --time-min --tmp --uid -w "
    "--nodelist -W --wait --wckey --container-image --container-mounts --container-workdir "
    "--container-name --container-env "
)
_MPI = _words(
    "-np -n -c --np --n -N -H --host -host --hostfile -hostfile --machinefile -machinefile "
    "-ppn --npernode -npernode -f -x --bind-to -bind-to --map-by -map-by --rank-by --prefix "
    "--wdir -wdir -hosts -genv -env --output-filename --timeout --report-uri --path -path "
    "--tag -iface -rr --ppn -perhost --tune -launcher --launcher "
)
_VALUED: dict[str, frozenset[str]] = {
    "nohup": frozenset(),
    "setsid": frozenset(),
    "time": frozenset(("-f", "-o")),
    "command": frozenset(),
    "builtin": frozenset(),
    "exec": frozenset(("-a",)),
    "sudo": frozenset(("-u", "-g", "-h", "-p", "-C", "-r", "-t")),
    "env": frozenset(("-u", "--unset", "-C", "--chdir", "-S")),
    "stdbuf": frozenset(("-i", "-o", "-e")),
    "nice": frozenset(("-n",)),
    "ionice": frozenset(("-c", "-n", "-p")),
    "taskset": frozenset(),
    "numactl": frozenset(("-N", "-m", "-C", "-i", "-p", "-P")),
    "timeout": frozenset(("-k", "-s", "--kill-after", "--signal")),
    "ssh": _words("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w"),
    "pdsh": frozenset(["-w", "-x", "-f", "-t", "-u", "-l", "-R"]),
    "srun": _SRUN,
    "mpirun": _MPI,
    "docker": _DOCKER,
    "singularity": _words(
        "-B --bind --env --env-file -H --home -W --workdir --pwd --overlay --scratch -S"
    ),
    "conda": frozenset(["-n", "--name", "-p", "--prefix", "--cwd"]),
    "uv": frozenset(
        ["--with", "--python", "-p", "--extra", "--group", "--project", "--directory", "--env-file"]
    ),
    "nsys": _words(
        "-t --trace -o --output -s --sample -f --force-overwrite -c --capture-range -d --duration "
        "-y --delay -e --env-var -w --show-output -x --stop-on-exit "
    ),
    "tmux": frozenset(["-s", "-n", "-c", "-t", "-x", "-y", "-e", "-F"]),
    "screen": frozenset(["-S", "-t", "-T", "-L", "-c", "-s"]),
    "xvfb-run": frozenset(["-n", "-s", "-e", "-f", "-w", "--server-args"]),
}
_SAME = {
    "mpiexec": "mpirun",
    "mpiexec.hydra": "mpirun",
    "orterun": "mpirun",
    "prterun": "mpirun",
    "mamba": "conda",
    "micromamba": "conda",
    "podman": "docker",
    "nvidia-docker": "docker",
    "apptainer": "singularity",
    "poetry": "uv",
    "pipenv": "uv",
    "pixi": "uv",
}
_OPERANDS = {"timeout": 1, "taskset": 1, "ssh": 1, "singularity": 1}


def peel(words: Sequence[str]) -> Peeled | None:
    """The outermost wrapper of a command, ``None`` where its first word is none."""
    if not words:
        return None
    own = words[0].rsplit("/", 1)[-1]
    name = _SAME.get(own, own)
    valued = _VALUED.get(name)
    if valued is None:
        return None
    at = 1
    needed = _OPERANDS.get(name, 0)
    if name in ("docker", "singularity", "conda", "uv", "nsys", "tmux"):
        verbs = {
            "docker": ("run", "exec", "create"),
            "singularity": ("exec", "run", "shell"),
            "conda": ("run",),
            "uv": ("run", "exec"),
            "nsys": ("profile", "launch"),
            "tmux": ("new", "new-session", "new-window", "neww", "split-window"),
        }[name]
        while at < len(words) and words[at].startswith("-") and name == "docker":
            at += 1 if "=" in words[at] or words[at] in ("-D", "--debug", "--tls") else 2
        if name == "docker" and words[at : at + 1] == ["container"]:
            at += 1
        if name == "docker" and words[at : at + 1] == ["compose"]:
            at += 1
        if at >= len(words) or words[at] not in verbs:
            return None
        if name == "docker":
            needed = 1
        verb = words[at]
        at += 1
        options: list[tuple[str, str]] = [("", verb)]
    else:
        options = []
    assigns: list[int] = []
    operands: list[str] = []
    attached = "" if name in ("mpirun", "taskset") else "".join(o[1] for o in valued if len(o) == 2)
    while at < len(words):
        word = words[at]
        if word == "--" and name != "docker":
            at += 1
            break
        if word.startswith("-") and len(word) > 1:
            flag, equals, value = word.partition("=")
            if name == "mpirun" and flag in ("--mca", "-mca", "-gmca", "--gmca"):
                options.append((flag, " ".join(words[at + 1 : at + 3])))
                at += 3
                continue
            if name == "mpirun" and flag in ("-genv", "-env") and at + 2 < len(words):
                if "=" in words[at + 1]:
                    options.append(("-x", words[at + 1]))
                    at += 2
                else:
                    options.append(("-x", f"{words[at + 1]}={words[at + 2]}"))
                    at += 3
                continue
            if equals and word.startswith("--"):
                options.append((flag, value))
                at += 1
            elif word in valued:
                options.append((word, words[at + 1] if at + 1 < len(words) else ""))
                at += 2
            elif (
                not word.startswith("--")
                and len(word) > 2
                and word[1] in attached
                and name
                in (
                    "srun",
                    "docker",
                    "ssh",
                    "env",
                    "stdbuf",
                    "nice",
                    "numactl",
                    "sudo",
                    "timeout",
                    "screen",
                    "conda",
                )
            ):
                options.append((word[:2], word[2:].lstrip("=")))
                at += 1
            elif (
                name in ("docker", "screen") and not word.startswith("--") and word[-1] in attached
            ):
                # a bundle whose last letter takes a value: `-itv`, `-dmS`
                options.append(("-" + word[-1], words[at + 1] if at + 1 < len(words) else ""))
                at += 2
            else:
                options.append((word, ""))
                at += 1
            continue
        if name in ("env", "sudo", "time") and "=" in word and word.split("=", 1)[0].isidentifier():
            assigns.append(at)
            at += 1
            continue
        if len(operands) < needed:
            operands.append(word)
            at += 1
            if name == "docker" or name == "singularity":
                break
            continue
        break
    shell = name in ("ssh", "pdsh", "tmux")
    return Peeled(name, tuple(options), tuple(assigns), tuple(operands), min(at, len(words)), shell)
