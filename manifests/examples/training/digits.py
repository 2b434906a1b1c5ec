"""What both trainings share: handwritten digits, a small network that reads them, and the flags.

The digits come with scikit-learn (1797 pictures of 8 x 8 points), so nothing is downloaded. A fifth of them is held
out: no training step ever sees it.
"""

import argparse
from typing import NamedTuple

import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

POINTS, DIGITS, HIDDEN = 64, 10, 64
LEARNING_RATE = 0.2
# What a process ends with that lost the others: restartPolicy ExitCode takes 128 and above for a mishap, and starts it
# again. An exception would end it with 1, which counts as a mistake in the program.
PEERS_LOST = 143
# What TensorFlow says when another process of the cluster has gone away.
PEER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


class Pictures(NamedTuple):
    """Pictures, and what digit each of them shows."""

    points: tf.Tensor
    digits: tf.Tensor


def load() -> tuple[Pictures, Pictures]:
    """What is learned from, and what is held out; the same split in every process."""
    points, digits = load_digits(return_X_y=True)
    parts = train_test_split((points / 16).astype("float32"), digits.astype("int32"), test_size=0.2, random_state=0)
    return Pictures(parts[0], parts[2]), Pictures(parts[1], parts[3])


def batches(pictures: Pictures, size: int, *, seed: int) -> tf.data.Dataset:
    """Shuffled batches without end."""
    return tf.data.Dataset.from_tensor_slices(pictures).shuffle(len(pictures.digits), seed=seed).repeat().batch(size)


class Network(tf.Module):
    """One hidden layer; in TensorFlow's own terms, so that every strategy can place its variables."""

    def __init__(self) -> None:
        """Begin with small random weights."""
        super().__init__(name="network")
        start = tf.random.stateless_normal
        self.hidden = tf.Variable(start([POINTS, HIDDEN], seed=[0, 1]) * 0.1)
        self.hidden_bias = tf.Variable(tf.zeros([HIDDEN]))
        self.output = tf.Variable(start([HIDDEN, DIGITS], seed=[0, 2]) * 0.1)
        self.output_bias = tf.Variable(tf.zeros([DIGITS]))

    def scores(self, points: tf.Tensor) -> tf.Tensor:
        """How much each picture looks like each digit."""
        seen = tf.nn.relu(points @ self.hidden + self.hidden_bias)
        return seen @ self.output + self.output_bias

    def gradients(self, pictures: Pictures) -> list[tf.Tensor]:
        """In which direction the loss grows."""
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(pictures.digits, self.scores(pictures.points))
            loss = tf.reduce_mean(losses)
        return tape.gradient(loss, self.trainable_variables)

    def accuracy(self, pictures: Pictures) -> float:
        """How many of the pictures are read correctly, from 0 to 1."""
        read = tf.argmax(self.scores(pictures.points), axis=1, output_type=tf.int32)
        return float(tf.reduce_mean(tf.cast(read == pictures.digits, tf.float32)))


def flags(description: str) -> argparse.Namespace:
    """The flags of a training."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--checkpoints", default="/checkpoints", help="folder of the checkpoints, on a shared volume")
    parser.add_argument("--steps", type=int, default=1000, help="how many steps to learn for")
    parser.add_argument("--save-every", type=int, default=100, help="steps from one checkpoint to the next")
    parser.add_argument("--batch", type=int, default=64, help="pictures in one step")
    return parser.parse_args()


def tell(text: str) -> None:
    """A line for whoever reads the log, now."""
    print(text, flush=True)
