"""The process: leadership by client-go's names, events, and an event loop that is late or does not turn at all."""

from tf_operator.app.metrics.process import ElectionMetrics, LoopMetrics, RecorderMetrics


def test_who_leads_is_a_gauge_and_the_rest_of_an_election_is_counted(registry):
    election = ElectionMetrics(registry, name="lease")

    def values():
        lease = {"name": "lease"}
        return [
            registry.get_sample_value("leader_election_master_status", lease),
            registry.get_sample_value("leader_election_slowpath_total", lease),
            registry.get_sample_value("tf_operator_leader_election_transitions_total", lease),
            registry.get_sample_value("tf_operator_leader_election_attempts_total", {"outcome": "ours", **lease}),
            registry.get_sample_value("tf_operator_leader_election_attempts_total", {"outcome": "theirs", **lease}),
        ]

    assert values() == [0, 0, 0, 0, 0]
    election.leading(is_leader=True)
    election.attempted("ours")
    election.attempted("theirs")
    election.slow_path()
    election.transition()
    assert values() == [1, 1, 1, 1, 1]
    election.leading(is_leader=False)
    assert values() == [0, 1, 1, 1, 1]


def test_events_are_counted_as_sent_or_lost_by_cause(registry):
    recorder = RecorderMetrics(registry)
    assert registry.get_sample_value("tf_operator_events_dropped_total", {"cause": "rate"}) == 0

    recorder.sent()
    recorder.lost("rate")

    assert registry.get_sample_value("tf_operator_events_sent_total") == 1
    assert registry.get_sample_value("tf_operator_events_dropped_total", {"cause": "rate"}) == 1


def test_the_age_of_the_heartbeat_is_read_in_the_moment_of_looking(registry):
    loop, ages = LoopMetrics(registry), [3.0, 4.0]
    loop.read_age_by(lambda: ages.pop(0))
    loop.lagged(0.3)

    name = "tf_operator_event_loop_heartbeat_age_seconds"
    assert [registry.get_sample_value(name), registry.get_sample_value(name)] == [3, 4]
    assert registry.get_sample_value("tf_operator_event_loop_lag_seconds_sum") == 0.3
