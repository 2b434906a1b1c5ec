"""Any job: the size of a TF_CONFIG is known without writing it."""

from hypothesis import given
from hypothesis import strategies as st

from support.jobs.builders import tfjob
from support.jobs.snapshots import job_of
from tf_operator.planning.bodies import cluster_spec

KINDS = ["Chief", "PS", "Worker", "Evaluator"]


@st.composite
def jobs(draw):
    """A job with any of the types, in any of the three forms, with either kind of Services."""
    job = tfjob(draw(st.from_regex(r"[a-z]{1,20}", fullmatch=True)))
    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=1, unique=True)):
        counts = [0, 1] if kind == "Chief" else [0, 1, 9, 10, 11, 123]
        job = job.replicas(kind, draw(st.sampled_from(counts)))
    job = job.dynamic_workers() if draw(st.booleans()) else job
    job = job.service_mode(draw(st.sampled_from(["Replica", "Job"])))
    return job_of(job.tf_config_format(draw(st.sampled_from(["Full", "Sparse"]))))


@given(jobs(), st.sampled_from(["", "cluster.local", "bücher.example"]))
def test_the_size_is_that_of_the_longest_text(job, domain):
    for spec in job.replicas:
        if spec.count:
            texts = (cluster_spec.tf_config(job, spec.type, index, domain=domain) for index in range(spec.count))
            assert cluster_spec.size(job, spec, domain=domain) == max(map(len, texts))
