"""Learns to read handwritten digits with Keras, in a minute; what is interrupted goes on where it was.

The digits come with scikit-learn: 1797 pictures of 8 x 8 points. Everything is written into one folder: a checkpoint
after each epoch, and at the end the model.
"""

import argparse
from pathlib import Path

import keras
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def main() -> None:
    """Train, test and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=Path("output"), help="where checkpoint and model go")
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()

    points, digits = load_digits(return_X_y=True)
    learned, held_out, answers, right = train_test_split(points / 16, digits, test_size=0.2, random_state=0)
    layers = [keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)]
    model = keras.Sequential([keras.Input([64]), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])

    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    going_on = keras.callbacks.BackupAndRestore(str(folder / "checkpoint"))
    model.fit(learned, answers, epochs=options.epochs, callbacks=[going_on], verbose=2)

    _, accuracy = model.evaluate(held_out, right, verbose=0)
    model.save(folder / "model.keras")
    print(f"Accuracy on {len(right)} held-out digits: {accuracy:.1%}. The model is {folder / 'model.keras'}.")


if __name__ == "__main__":
    main()
