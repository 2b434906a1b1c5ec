"""Learns to read digits while workers come and go.

The parameter server is the dispatcher of a tf.data service, worker 0 trains, and all others prepare batches for it. It
trains for so many steps, and then until the file /tmp/end is there.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, "/training")
import digits
import tensorflow as tf

STEPS = 400

service = tf.data.experimental.service
config = json.loads(os.environ["TF_CONFIG"])
cluster, task = config["cluster"], config["task"]
dispatcher = cluster["ps"][0]
if task["type"] == "ps":
    service.DispatchServer(service.DispatcherConfig(port=int(dispatcher.rpartition(":")[2]))).join()
if task["index"]:
    address = cluster["worker"][str(task["index"])]
    port = int(address.rpartition(":")[2])
    server = service.WorkerServer(service.WorkerConfig(dispatcher, worker_address=address, port=port))
    digits.tell("Preparing batches")
    server.join()

learned_from, held_out = digits.load()
network = digits.Network()
shared_steps = service.distribute(service.ShardingPolicy.OFF, service=f"grpc://{dispatcher}")
for step, pictures in enumerate(digits.batches(learned_from, 64, seed=1).apply(shared_steps)):
    gradients = network.gradients(digits.Pictures(*pictures))
    for variable, gradient in zip(network.trainable_variables, gradients, strict=True):
        variable.assign_sub(digits.LEARNING_RATE * gradient)
    if step % 100 == 0:
        digits.tell(f"Step {step}")
    if step >= STEPS and Path("/tmp/end").exists():
        break
digits.tell(f"Accuracy on {len(held_out.digits)} held-out digits: {network.accuracy(held_out):.1%}")
