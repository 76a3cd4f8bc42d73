"""A strategy that changes with the labels."""

import numpy as np
import pytest

import goalward as gw
from goalward.errors import BadParameter
from goalward.goals import LeaveOneOut
from goalward.strategies import Margin, Random, Then, WhileUnseen
from goalward.testing import check_strategy, problem


def test_it_is_the_first_until_the_model_has_so_many_labels_and_then_the_other():
    task = problem(n_labelled=30)
    first, later = Random(3), Margin(5)
    for labels, inner in ((30, later), (31, first)):
        then = Then(first, later, labels=labels)
        found = then.suggest(task.fitted, task.X_pool, 5, [0, 1])
        expected = inner.suggest(task.fitted, task.X_pool, 5, [0, 1])
        np.testing.assert_array_equal(found.rows, expected.rows)
        np.testing.assert_array_equal(found.utility, expected.utility)


def test_goals_that_change_with_the_round_do_so_within():
    task = problem()
    inner = gw.GoalOriented(LeaveOneOut(), operator=gw.labels.Spread())
    found = Then(inner, Margin(), labels=1000).suggest(task.fitted, task.X_pool, 5)
    np.testing.assert_array_equal(found.rows, inner.suggest(task.fitted, task.X_pool, 5).rows)
    check_strategy(Then(inner, Margin(), labels=40))


def test_as_a_recipe():
    text = "decision-risk until 50 then margin"
    recipe = gw.recipe(text)
    assert str(recipe) == "decision-risk/average/information/sequential until 50 then margin"
    assert gw.recipe(str(recipe)) == recipe
    assert recipe.needs == {"pool"}
    assert gw.recipe("random until 9 then dev/spread").needs == {"dev"}
    built = recipe.build(pool=np.eye(3), seed=2)
    assert built.labels == 50
    assert built.later == Margin(2)
    for wrong in ("decision-risk until 0 then margin", "margin until 5 then warp"):
        with pytest.raises(BadParameter):
            gw.recipe(wrong)
    with pytest.raises(BadParameter, match="labels=0"):
        Then(Random(), Margin(), labels=0)


def test_a_strategy_of_two_parts_brings_the_labels_of_both():
    """Dev labels are charged, whoever holds them."""
    task = problem()
    dev = gw.GoalOriented(task.goal)
    held = dev.labels_held
    assert held > 0
    assert Then(Random(), dev).labels_held == held
    assert gw.strategies.Among(dev, by="random").labels_held == held


def test_classes_without_a_label_are_looked_for_while_one_is_likely():
    X = np.linspace(0, 1, 40)[:, None]
    learner = gw.Logistic(classes=["a", "b", "c"], penalize_intercept=True)
    strategy = WhileUnseen(Random(3), Margin(5), likely=0.3)
    for labels, inner in (
        (["a", "b"], Random(3)),  # c has none, and each label is the only one of its class
        (["a", "a", "b"], Random(3)),
        (["a", "a", "b", "b"], Margin(5)),  # a third class is not likely any more
        (["a", "b", "c"], Margin(5)),  # there is none to look for
    ):
        fitted = learner.fit(X[: len(labels)], labels)
        found = strategy.suggest(fitted, X[10:], 5)
        np.testing.assert_array_equal(found.rows, inner.suggest(fitted, X[10:], 5).rows)
    check_strategy(WhileUnseen(Random(), Margin()))
    with pytest.raises(BadParameter, match="likely=0"):
        WhileUnseen(Random(), Margin(), likely=0.0)


@pytest.mark.parametrize(
    "text", ["random until 9 then hedged", "random while classes are unseen then tcm"]
)
def test_a_word_among_others_is_what_it_is_alone(text):
    """Turns are one part of a recipe, not several."""
    whole, word = gw.recipe(text), text.rpartition(" ")[2]
    assert gw.recipe(str(whole)) == whole
    built = whole.build(pool=np.eye(3))
    assert built.first == Random()
    assert repr(built.later) == repr(gw.recipe(word).build(pool=np.eye(3)))


def test_parentheses_hold_a_part_together():
    turns = gw.recipe("random until 9 then (margin, entropy in turn)").build().later
    assert turns == gw.recipe("margin, entropy in turn").build()
    assert gw.recipe("((margin, entropy in turn))") == gw.recipe("margin, entropy in turn")
    nested = gw.recipe("margin, (random, entropy in turn) in turn").build()
    assert len(nested.parts) == 2
