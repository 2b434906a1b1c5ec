"""Who makes room, against a slow definition of it."""

from collections import Counter
from dataclasses import dataclass
from random import Random

import pytest

from tf_operator.machinery.serving.places import Claim, ConnectionPlaces, ConnectionStage

MOST = 12


@dataclass(eq=False)
class Holder:
    client: str
    stage: ConnectionStage = ConnectionStage.SILENT
    claim: Claim = Claim.NONE


def defined_least_claim(holders, client):
    """As the module has it, with a look at all; ``holders`` from the one that came into its row first to the last."""
    counts = Counter(holder.client for holder in holders if holder.claim is not Claim.SHARED)
    most = max(counts.values(), default=0)
    greedy = {name for name, count in counts.items() if count == most > counts[client] + 1}
    silent_or_waiting = [holder for holder in holders if holder.stage.value <= ConnectionStage.WAITING.value]
    sending = [holder for holder in holders if holder.stage is ConnectionStage.SENDING]
    preparing = [holder for holder in holders if holder.stage is ConnectionStage.PREPARING]
    few = len(silent_or_waiting) < MOST // 2
    for group in (*((sending, silent_or_waiting) if few else (silent_or_waiting, sending)), preparing * bool(greedy)):
        possible = [holder for holder in group if not greedy or holder.client in greedy]
        if possible:
            return min(possible, key=lambda holder: holder.claim), greedy
    return None, greedy


def row_of(holder):
    return max(holder.stage.value, ConnectionStage.WAITING.value), holder.claim


@pytest.mark.parametrize("seed", range(20))
def test_who_makes_room_is_as_defined_whatever_happened_before(seed):
    random, places, holders = Random(seed), ConnectionPlaces(MOST), []
    made_room = 0
    for _ in range(500):
        client = random.choice("aabcd")
        if not holders or random.random() < 0.4:
            if places.all_taken:
                defined, greedy = defined_least_claim(holders, client)
                least = places.least_claim(client)
                # Of two clients that have most, either is the greediest.
                assert least is defined or (len(greedy) > 1 and least.client in greedy)
                if least is None:
                    continue
                places.leave(least)
                holders.remove(least)
                made_room += 1
            holders.append(Holder(client))
            places.take(holders[-1])
        else:
            holder = random.choice(holders)
            if random.random() < 0.1:
                places.leave(holder)
                holders.remove(holder)
                assert holder not in places
                continue
            before = row_of(holder)
            places.move(holder, random.choice(list(ConnectionStage)), random.choice([Claim.NONE, *Claim]))
            if row_of(holder) != before:
                holders.remove(holder)
                holders.append(holder)
        assert len(places) == len(holders)
    assert made_room > 50
