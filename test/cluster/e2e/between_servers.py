"""Learns to read digits with whatever parameter servers the job has: the master and all workers run this.

The image of the trainings has the digits and the network. There are no checkpoints: they would need a volume that the
parameter servers see, too.
"""

import json
import logging
import os
import sys

sys.path.insert(0, "/training")
import digits
import tensorflow as tf

BATCHES, STEPS_AT_ONCE = 40, 10

config = json.loads(os.environ["TF_CONFIG"])
# What is called master in the oldest versions of TFJob, TensorFlow 2 calls chief.
cluster = tf.train.ClusterSpec({name.replace("master", "chief"): hosts for name, hosts in config["cluster"].items()})
kind, index = config["task"]["type"].replace("master", "chief"), config["task"]["index"]
if kind == "worker":
    tf.distribute.Server(cluster, job_name=kind, task_index=index).join()

resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
    cluster, task_type=kind, task_id=index, rpc_layer="grpc"
)
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
learned_from, held_out = digits.load()
with strategy.scope():
    network = digits.Network()


def descend(pictures):
    gradients = network.gradients(digits.Pictures(*pictures))
    for variable, gradient in zip(network.trainable_variables, gradients, strict=True):
        variable.assign_sub(digits.LEARNING_RATE * gradient)


@tf.function(autograph=False)
def learn(iterator):
    for _ in range(STEPS_AT_ONCE):
        strategy.run(descend, args=(next(iterator),))


batches = iter(coordinator.create_per_worker_dataset(lambda: digits.batches(learned_from, 64, seed=1)))
for _ in range(BATCHES):
    coordinator.schedule(learn, args=(batches,))
coordinator.join()
devices = sorted({variable.device for variable in network.trainable_variables})
logging.getLogger("digits").warning("Variables on %s", devices)
digits.tell(f"Accuracy on {len(held_out.digits)} held-out digits: {network.accuracy(held_out):.1%}")
