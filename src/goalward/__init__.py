"""goalward: goal-oriented active learning."""
from goalward import goals, utility, solvers
from goalward.learners import Logistic, LogisticClassifier, Fitted
