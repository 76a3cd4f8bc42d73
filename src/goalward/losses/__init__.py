"""What a label costs, row by row, in logit space."""

from goalward.losses.cross_entropy import CrossEntropy, contrasts

__all__ = ["CrossEntropy", "contrasts"]
