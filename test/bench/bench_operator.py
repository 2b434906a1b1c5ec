"""What jobs cost: the operator with its default flags, beside a bare client that makes only the writes it must.

    PYTHONPATH=test:hack .venv/bin/python test/bench/bench_operator.py [--only many --jobs 200] [--json FILE]

On real control planes with a fake kubelet: one small job's ``life``, write by write (a chief, two workers, a parameter
server); ``many`` such jobs at once; the same while all ``kinds`` are served, beside an operator of TFJobs alone; one
``large`` job; the same two with one Service for each job; many ``pods`` that run, whereupon nothing happens; and the
``takeover`` from a leader that ends. When it is asked for, ``pods100k`` has ten times as many, on the embedded API
server, because etcd would need an hour. Writes are counted in the audit log. Only the ratios within one run mean
anything, and on a busy machine only CPU and requests. With several rounds each figure is the median.

Exit code 1 when a target is missed; docs/performance.md says what was found.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

import python_build
import takeover
import targets
import works
from contenders import ALL_KINDS, FLOOR, OPERATOR
from works import Figures, Work

PARTS = ("life", "many", "many-one-service", "kinds", "large", "large-one-service", "pods", "takeover")
ON_REQUEST = ("pods100k",)


def main() -> int:
    """Run the parts, and print a table."""
    options = read_options()
    plans = (
        Work("life", 1, 2, "alone"),
        Work("many", options.jobs, 2, "alone"),
        Work("many-one-service", options.jobs, 2, "alone", mode="Job"),
        Work("kinds", options.jobs, 2, "alone"),
        Work("large", 1, options.workers, "together"),
        Work("large-one-service", 1, options.workers, "together", mode="Job"),
        Work("pods", options.large_jobs, 98, "never"),
        Work("pods100k", 1000, 98, "never", is_embedded=True),
    )
    results: dict[str, dict[str, Figures]] = {}
    say(f"all run with {python_build.in_words()}")
    for work in plans:
        if work.name in options.only:
            has_floor = not options.without_floor and (work.ends != "never" or options.all_floors)
            contenders = [FLOOR, OPERATOR] if has_floor else [OPERATOR]
            if work.name == "kinds":
                contenders = [OPERATOR, ALL_KINDS]
            say(f"\n{work.name}: {work}")
            results[work.name] = compared(work, contenders, rounds=options.rounds)
    if "takeover" in options.only:
        results["takeover"] = {OPERATOR: takeover.measured()}
    rows = targets.judged(results)
    if rows:
        say(f"\n{targets.table(rows)}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 1 if any(row["met"] is False for row in rows) else 0


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", choices=(*PARTS, *ON_REQUEST), help="may be repeated")
    parser.add_argument("--jobs", type=int, default=200, help="in the part 'many'")
    parser.add_argument("--workers", type=int, default=1000, help="in the part 'large'")
    parser.add_argument("--large-jobs", type=int, default=100, help="in the part 'pods', of 100 pods each")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--without-floor", action="store_true", help="only the operator")
    parser.add_argument("--all-floors", action="store_true", help="also for pods that only run, for minutes more")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there, too")
    options = parser.parse_args()
    options.only = options.only or PARTS
    return options


def compared(work: Work, contenders: list[str], *, rounds: int) -> dict[str, Figures]:
    """Every contender in turn, and that several times, so that a passing load does not hit only one."""
    runs: dict[str, list[Figures]] = {who: [] for who in contenders}
    for _ in range(rounds):
        for who in contenders:
            figures, told = works.measured(work, who)
            runs[who].append(figures)
            say(f"{who}: " + "\n".join(told))
    return {
        who: {figure: statistics.median(run[figure] for run in figures_of_runs) for figure in figures_of_runs[0]}
        for who, figures_of_runs in runs.items()
    }


def say(text: str) -> None:
    """To the one who runs it."""
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
