"""A program in a real pod reports: by Helm's certificate, the kubelet's token and the cluster's DNS."""

from support.jobs.real_namespace import PATIENCE_SECONDS, Program, small_job
from support.settle import eventually

# As transformers' callback does it; test/scenarios/app/trainer_clients.yaml has its request and that of Kubeflow's SDK.
REPORT = """
import json, os, pathlib, ssl, urllib.request

status = {"progressPercentage": 34, "estimatedRemainingSeconds": 7200, "metrics": [{"name": "loss", "value": "0.21"}]}
token = pathlib.Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text().strip()
context = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
request = urllib.request.Request(
    os.environ["KUBEFLOW_TRAINER_SERVER_URL"],
    data=json.dumps({"trainerStatus": status}).encode("utf-8"),
    headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    method="POST",
)
for _ in range(2):  # through whichever replica the Service chooses
    with urllib.request.urlopen(request, timeout=15, context=context) as reply:
        print("reply", reply.status, flush=True)
"""


async def test_a_report_of_a_pod_is_in_the_status_of_its_job(here, images):
    job = small_job("reports", Program(images.operator, REPORT), backoffLimit=3)
    job["spec"]["runPolicy"]["progressPolicy"] = {"reports": True}
    here.kubectl.create(job)
    await here.wait_state("reports", "Succeeded")

    def reported():
        status = here.job("reports")["status"]["trainerStatus"]
        return (status["progressPercentage"], status["metrics"])

    assert await eventually(reported, within=PATIENCE_SECONDS, every=1.0) == (34, [{"name": "loss", "value": "0.21"}])
    assert here.log("reports", "worker-0") == "reply 200\n" * 2
