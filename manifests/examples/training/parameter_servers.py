"""Learns to read digits with tf.distribute.ParameterServerStrategy: run this in every replica of the job.

The chief hands out steps, workers take them, parameter servers keep the variables, and the evaluator tries each
checkpoint on digits that nobody has learned from. A worker may come and go: its steps are given to another one. When a
parameter server or the chief is lost, the chief begins again, from the last checkpoint.
"""

import logging
import sys

import digits
import tensorflow as tf
from digits import Network, Pictures, tell

# A worker does so many steps before it reports back; asking for each one would take longer than the step.
STEPS_AT_ONCE = 10


def main() -> None:
    """Do what TF_CONFIG says this replica is."""
    options = digits.flags(__doc__.splitlines()[0])
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    tell(f"This is {cluster.task_type} {cluster.task_id}.")
    if cluster.task_type in {"worker", "ps"}:
        serve(without_evaluator(cluster))
    elif cluster.task_type == "evaluator":
        evaluate(options)
    else:
        # A worker that is lost, and whose steps another one takes, is three long errors of TensorFlow's otherwise.
        logging.getLogger("tensorflow").setLevel(logging.CRITICAL)
        try:
            lead(without_evaluator(cluster), options)
        except digits.PEER_ERRORS as error:
            tell(f"A parameter server is lost ({type(error).__name__}).")
            sys.exit(digits.PEERS_LOST)


def without_evaluator(cluster):
    """Those who train; TensorFlow would wait for the evaluator, too, which has no server to answer."""
    members = cluster.cluster_spec().as_dict()
    members.pop("evaluator", None)
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(members), task_type=cluster.task_type, task_id=cluster.task_id, rpc_layer="grpc"
    )


def serve(cluster) -> None:
    """Wait for work; a worker and a parameter server never end by themselves."""
    tf.distribute.Server(
        cluster.cluster_spec(), job_name=cluster.task_type, task_index=cluster.task_id, protocol="grpc"
    ).join()


def lead(cluster, options) -> None:
    """Hand out steps until there have been enough; a checkpoint every now and then."""
    learned_from, held_out = digits.load()
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        network = Network()
        done = tf.Variable(0, dtype=tf.int64, trainable=False)

    @tf.function
    def learn(iterator):
        for _ in tf.range(STEPS_AT_ONCE):
            strategy.run(descend, args=(next(iterator),))

    def descend(pictures):
        for variable, gradient in zip(network.trainable_variables, network.gradients(Pictures(*pictures)), strict=True):
            variable.assign_sub(digits.LEARNING_RATE * gradient)

    per_worker = coordinator.create_per_worker_dataset(lambda: digits.batches(learned_from, options.batch, seed=1))
    iterator = iter(per_worker)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(network=network, done=done), options.checkpoints, 3)
    manager.restore_or_initialize()
    step = int(done.numpy())
    tell(f"Going on from step {step}." if step else "Beginning at step 0.")
    while step < options.steps:
        for _ in range(options.save_every // STEPS_AT_ONCE):
            coordinator.schedule(learn, args=(iterator,))
        coordinator.join()
        step += options.save_every
        done.assign(step)
        manager.save(checkpoint_number=step)
        tell(f"Saved step {step} of {options.steps}.")
    tell(f"Accuracy on {len(held_out.digits)} held-out digits: {network.accuracy(held_out):.1%}")


def evaluate(options) -> None:
    """Try each checkpoint as it appears, until the last one."""
    _, held_out = digits.load()
    network, done = Network(), tf.Variable(0, dtype=tf.int64, trainable=False)
    for path in tf.train.checkpoints_iterator(options.checkpoints):
        tf.train.Checkpoint(network=network, done=done).restore(path).expect_partial()
        tell(f"Step {int(done.numpy())}: {network.accuracy(held_out):.1%} of the held-out digits are read correctly.")
        if int(done.numpy()) >= options.steps:
            break


if __name__ == "__main__":
    main()
