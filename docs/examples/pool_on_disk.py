"""A pool that stays on disk."""

import tempfile

import numpy as np

import goalward as gw
from goalward.lab.plots import figure, quiet

rng = np.random.default_rng(0)
path = tempfile.mkdtemp() + "/pool.npy"
weights = rng.normal(size=32)
rows = rng.normal(size=(200_000, 32)).astype("float32")
np.save(path, rows)  # in life: embeddings that something else wrote
truth = lambda part: (part @ weights + rng.normal(size=len(part)) > 0).astype(int)

pool = gw.scale.open_pool(path)
known, dev = np.arange(50), np.arange(50, 250)
fitted = gw.Logistic(C=1.0).fit(pool[known], truth(pool[known]))
goal = gw.goals.DevLoss(pool[dev], truth(pool[dev]))
ranking = gw.scale.rank(
    pool, fitted, goal, operator=gw.labels.Spread(), batch=100, exclude=np.arange(250)
)
print(ranking.rows[:10], f"{ranking.n_rows:,} rows in {ranking.seconds:.2f} s")

operator = gw.labels.Spread()
sample = pool[np.sort(rng.choice(len(pool), 20_000, replace=False))]
score = operator(gw.utility.FirstOrder()(fitted, goal, sample), fitted, sample)
fig = figure(7.6, 3.6)
axes = fig.subplots()
quiet(axes)
axes.hist(score, bins=120, color="#17889b", alpha=0.6)
axes.axvline(ranking.utility.min(), color="black", lw=1.2)
axes.annotate(
    "the 100 rows asked for\nlie to the right of this",
    (ranking.utility.min(), axes.get_ylim()[1] * 0.8),
    xytext=(-6, 0),
    textcoords="offset points",
    ha="right",
    fontsize=9,
)
axes.set(xlabel="score: how much the label matters to the goal", ylabel="rows, of 20,000 drawn")
fig.savefig("pool_on_disk.png")
