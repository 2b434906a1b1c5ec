"""Learns to read digits with tf.distribute.MultiWorkerMirroredStrategy: run this in every worker of the job.

All workers take each step together, each on its share of the batch, and all have the same weights. When one of them
is lost, the others cannot go on: they end too, are started again like the lost one, and all go on from the last
checkpoint, which is on a volume that all of them see.
"""

import sys
import tempfile

import digits
import tensorflow as tf
from digits import Network, Pictures, tell


def main() -> None:
    """Learn, and end in a way that restartPolicy ExitCode understands when another worker is lost."""
    options = digits.flags(__doc__.splitlines()[0])
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    tell(f"This is {cluster.task_type} {cluster.task_id}.")
    try:
        learn(cluster, options)
    except digits.PEER_ERRORS as error:
        tell(f"Another worker is lost ({type(error).__name__}).")
        sys.exit(digits.PEERS_LOST)


def learn(cluster, options) -> None:
    """Take steps together until there have been enough; a checkpoint every now and then."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster)
    learned_from, held_out = digits.load()
    with strategy.scope():
        network = Network()
        done = tf.Variable(0, dtype=tf.int64, trainable=False)
    share = strategy.experimental_distribute_dataset(digits.batches(learned_from, options.batch, seed=1))
    iterator = iter(share)

    @tf.function
    def take_steps(iterator):
        for _ in tf.range(options.save_every):
            strategy.run(descend, args=(next(iterator),))

    def descend(pictures):
        gradients = network.gradients(Pictures(*pictures))
        mean = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        for variable, gradient in zip(network.trainable_variables, mean, strict=True):
            variable.assign_sub(digits.LEARNING_RATE * gradient)

    # All workers have to save, because reading a shared variable is a step of all; only the first one's is kept.
    is_first = cluster.task_id == 0
    folder = options.checkpoints if is_first else tempfile.mkdtemp()
    checkpoint = tf.train.Checkpoint(network=network, done=done)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=3)
    checkpoint.restore(tf.train.latest_checkpoint(options.checkpoints))
    step = int(done.numpy())
    tell(f"Going on from step {step}." if step else "Beginning at step 0.")
    while step < options.steps:
        take_steps(iterator)
        step += options.save_every
        done.assign(step)
        manager.save(checkpoint_number=step)
        tell(f"Saved step {step} of {options.steps}.")
    tell(f"Accuracy on {len(held_out.digits)} held-out digits: {network.accuracy(held_out):.1%}")


if __name__ == "__main__":
    main()
