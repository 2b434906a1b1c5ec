"""The cost of the initial list of ten thousand pods: time, CPU, memory, stalls of the event loop.

    .venv/bin/python test/bench/bench_informer.py [--pods 10000] [--rounds 3]
    .venv/bin/python test/bench/bench_informer.py --pods 400 --annotation 1300000 --only 'our informer, by pages'

The second one is about memory: objects as large as a cluster stores them.

Each contender gets a process of its own, the same pods over TLS from the same server (pod_server.py), and a ticker in
its event loop that wants to run every millisecond. How late it runs is told twice: in time, which on a busy machine
is mostly the time of other processes (``nothing`` is the ticker alone), and in CPU of the contender's own, which is
what it has held the loop for. A contender is told by the median of its rounds.

Exit code 1 when a target is missed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pod_server
from kubernetes import client

from tf_operator.dialects import registry
from tf_operator.projections.pods import pod_reader

HERE = Path(__file__).parent
OURS = "our informer, streamed"
CONTENDERS = {
    "nothing": ["contender_nothing.py"],
    OURS: ["contender_ours.py", "{url}", "{ca}"],
    "our informer, by pages": ["contender_ours.py", "{url}/paged", "{ca}"],
    "kubernetes SharedInformer": ["contender_package.py", "informer", "{url}", "{ca}"],
    "kubernetes models, by pages": ["contender_package.py", "pages", "{url}", "{ca}"],
}
COLUMNS = {
    "wall": "wall s",
    "cpu": "CPU s",
    "growth": "growth MB",
    "peak": "peak MB",
    "late p50": "late ms p50",
    "late p99.9": "p99.9",
    "late worst": "worst",
    "held p50": "held ms p50",
    "held p99.9": "p99.9",
    "held worst": "worst",
}
TARGETS = {"held p99.9": (100.0, "ms at p99.9 in which the loop was held"), "growth": (25.0, "MB of growth")}

Figures = dict[str, float]


def main() -> int:
    """Run everything, print the tables, and say whether the targets are met."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--annotation", type=int, default=0, metavar="BYTES", help="bytes that each pod has more")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=CONTENDERS, help="may be repeated")
    options = parser.parse_args()
    results = measure_all(
        options.only or list(CONTENDERS), pods=options.pods, annotation=options.annotation, rounds=options.rounds
    )
    say(f"Initial list of {options.pods} pods, median of {options.rounds}; in brackets: times ours.\n")
    say(table(results))
    say("\nDecoding one pod, CPU:\n")
    say(decoding_table(measure_decoding(rounds=options.rounds)))
    return judge(results)


def measure_all(names: list[str], *, pods: int, annotation: int, rounds: int) -> dict[str, Figures]:
    """Every contender in turn, and that several times, so that a passing load does not hit only one."""
    runs: dict[str, list[Figures]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as directory:
        sizes = ["--pods", str(pods), "--annotation", str(annotation)]
        command = [sys.executable, str(HERE / "pod_server.py"), *sizes, directory]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                url = f"https://127.0.0.1:{server.stdout.readline().strip()}"
                for _ in range(rounds):
                    for name in names:
                        figures = run_one(CONTENDERS[name], url=url, ca=f"{directory}/ca.pem")
                        assert figures.pop("pods") in {0, pods}, f"{name} has not read all pods"
                        runs[name].append(figures)
            finally:
                server.kill()
    return {
        name: {field: statistics.median(run[field] for run in figures_of_runs) for field in COLUMNS}
        for name, figures_of_runs in runs.items()
    }


def run_one(script: list[str], **places: str) -> Figures:
    """One contender, once."""
    name, *arguments = (part.format(**places) for part in script)
    command = [sys.executable, str(HERE / name), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300, env=environment)
    return json.loads(process.stdout.splitlines()[-1])


def measure_decoding(*, rounds: int) -> dict[str, float]:
    """Microseconds of CPU for a pod, with everything that makes something of its JSON; the best round."""
    models = client.ApiClient()
    decoders = {
        "our projection": pod_reader((registry.DEFAULT,)),
        "msgspec to dict": msgspec.json.Decoder().decode,
        "json to dict": json.loads,
        "kubernetes models": lambda text: models.deserialize(text.decode(), "V1Pod", "application/json"),
    }
    if find_spec("orjson"):
        decoders["orjson to dict"] = import_module("orjson").loads
    pods = pod_server.make_pods(1000)
    return {name: min(cost_of(decode, pods) for _ in range(rounds)) for name, decode in decoders.items()}


def cost_of(decode, pods: list[bytes]) -> float:
    """Microseconds of CPU for each."""
    began = time.process_time()
    for pod in pods:
        decode(pod)
    return (time.process_time() - began) / len(pods) * 1e6


def table(results: dict[str, Figures]) -> str:
    """A row for each contender; its figures, and how many times ours they are."""
    ours = results.get(OURS)
    rows = [f"{'':28}" + "".join(f"{title:>15}" for title in COLUMNS.values())]
    for name, figures in results.items():
        row = f"{name:28}"
        for field in COLUMNS:
            is_comparable = ours and ours[field] > 0 and name not in {OURS, "nothing"}
            ratio = f"({figures[field] / ours[field]:.1f})" if is_comparable else ""
            row += f"{figures[field]:8.2f}{ratio:>7}"
        rows.append(row)
    return "\n".join(rows)


def decoding_table(costs: dict[str, float]) -> str:
    """The cheapest first."""
    ours = costs["our projection"]
    rows = sorted(costs.items(), key=lambda row: row[1])
    return "\n".join(f"{name:28}{cost:9.1f} us {f'({cost / ours:.1f})':>7}" for name, cost in rows)


def judge(results: dict[str, Figures]) -> int:
    """Say of each target whether it is met."""
    missed = 0
    say("")
    for name in results:
        for field, (most, unit) in TARGETS.items() if name.startswith("our ") else ():
            figure = results[name][field]
            missed += figure > most
            say(f"{'MISSED' if figure > most else 'met':7}{name}: {figure:.1f} {unit}, at most {most:g}")
    return 1 if missed else 0


def say(text: str) -> None:
    """To the one who runs it."""
    print(text)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
