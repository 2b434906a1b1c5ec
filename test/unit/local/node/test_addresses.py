"""Names and ports of a cluster, as they reach processes on one machine."""

import json

import pytest

from tf_operator.local.node.addresses import Addresses, NoPortLeft, PodNames, ServicePort
from tf_operator.meta import ObjectKey

WORKER = ObjectKey("ns", "job-worker-0")


def names(addresses=None, *, uid="u", own=WORKER, own_ports=(2222,)):
    addresses = addresses or Addresses(is_free=lambda _port: True)
    return PodNames(addresses, uid, "ns", hosts={"seen"}, own=lambda: own, own_ports=own_ports)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("job-ps-0.ns.svc:2222", "127.0.0.1:20000"),
        ("job-ps-0.ns.svc.cluster.local:2222", "127.0.0.1:20000"),
        ("grpc://job-ps-0.ns.svc:2222/x", "grpc://127.0.0.1:20000/x"),
        ("seen:80,seen.ns:80,seen.ns.svc:80", "127.0.0.1:20000,127.0.0.1:20000,127.0.0.1:20000"),
        ("job-ps-0.ns.svc", "127.0.0.1"),
        ("seen.ns.svc and seen", "127.0.0.1 and seen"),
        ("0.0.0.0:2222 localhost:2222 [::]:2222", "127.0.0.1:20000 127.0.0.1:20000 127.0.0.1:20000"),
        ("localhost:8080", "localhost:8080"),
        ("unseen:80 unseen.ns:80", "unseen:80 unseen.ns:80"),
        ("example.org:443 a.b.svcx:1", "example.org:443 a.b.svcx:1"),
        ("/data/seen:ro my-seen:80", "/data/seen:ro my-seen:80"),
        ("a.job.ns.svc:2222 b.job.ns.svc.cluster.local:2222", "127.0.0.1:20000 127.0.0.1:20001"),
        ("a.seen.ns.svc:80,a.seen.ns:80,a.seen:80 seen.ns:80", ",".join(["127.0.0.1:20000"] * 3) + " 127.0.0.1:20001"),
        (
            "a.seen.other:80 a.unseen:80 a.unseen.ns:80 www.seen.org:80",
            "a.seen.other:80 a.unseen:80 a.unseen.ns:80 www.seen.org:80",
        ),
        ("a.job.ns.svc", "127.0.0.1"),
    ],
)
def test_a_name_that_reaches_a_process_becomes_an_address(text, expected):
    assert names().replaced(text) == expected


def test_the_name_of_the_service_in_which_the_pod_is_a_host_may_be_a_word_of_its_program():
    digits = names()._replace(hosts={"digits", "seen"}, domain="digits")
    text = "tfds://digits:1 digits.ns:1 seen:80 digits-worker-0.digits:2222"
    assert digits.replaced(text) == "tfds://digits:1 digits.ns:1 127.0.0.1:20000 127.0.0.1:20001"


def test_all_pods_of_a_job_read_the_same_ports_in_tf_config():
    cluster = {"ps": ["job-ps-0.ns.svc:2222"], "worker": [f"job-worker-{index}.ns.svc:2222" for index in range(3)]}
    text, addresses = json.dumps({"cluster": cluster}), Addresses(is_free=lambda _port: True)
    first, second = (names(addresses, uid=uid).replaced(text) for uid in "ab")
    assert first == second
    hosts = json.loads(first)["cluster"]
    assert len({*hosts["ps"], *hosts["worker"]}) == 4
    assert names(addresses).port_of(2222) == int(hosts["worker"][0].rpartition(":")[2])


def test_ports_in_use_are_passed_over_and_kept_until_no_pod_mentions_them():
    addresses = Addresses(is_free=lambda port: port != 20001)
    first, second = ServicePort(ObjectKey("ns", "a"), 1), ServicePort(ObjectKey("ns", "b"), 1)
    assert [addresses.port(first, "x"), addresses.port(second, "x"), addresses.port(first, "y")] == [
        20000,
        20002,
        20000,
    ]
    addresses.release("x")
    assert addresses.port(first, "z") == 20000
    assert addresses.port(second, "z") == 20003


def test_a_pod_that_mentions_too_many_addresses_is_refused():
    with pytest.raises(NoPortLeft, match="no port of this machine is free between 20000 and 32000"):
        names(Addresses(is_free=lambda port: port < 20010)).replaced(" ".join(f"a{n}.ns.svc:1" for n in range(11)))
