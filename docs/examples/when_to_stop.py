"""A study that says when its labels stop paying."""

import tempfile

from sklearn.datasets import load_digits

import goalward as gw
from goalward.plots import figure, quiet

X, y = load_digits(return_X_y=True)
price = 0.001  # nats per dev row that a label must bring
ends = None

place = tempfile.mkdtemp() + "/labels.db"
with gw.Study.create(place, pool=X / 16, classes=range(10), dev=0.25, refit=20) as study:
    for _ in range(20):
        for row in study.ask(20, by="ann"):
            study.tell(row, int(y[row]), by="ann")
        advice = study.stop(price)
        if advice.stop and ends is None:
            ends = len(study.state.labels)
            print(ends, advice.reason)
    curve = [line for line in study.curve() if line["metric"] == "dev"]

labels = [line["labels"] + line["dev_labels"] for line in curve]
fig = figure(7.6, 5.0)
top, bottom = fig.subplots(2, 1, sharex=True)
for axes, name in ((top, "accuracy"), (bottom, "gain")):
    quiet(axes)
    axes.plot(labels, [line[name] for line in curve], color="#17889b", marker="o", ms=3)
    if ends is not None:
        axes.axvline(ends, color="#d1495b", ls="--", lw=1.2, label="the study says: stop")
top.set(ylabel="accuracy on dev rows")
top.legend(frameon=False)
bottom.set(yscale="log", xlabel="labels, dev rows included", ylabel="predicted gain of a label")
fig.savefig("when_to_stop.png")
