"""scikit-activeml's own template for query strategies, run from where it lies.

Its wheel leaves the template out. `GOALWARD_SKACTIVEML=/path/to/clone` names a clone of scikit-activeml:

    GOALWARD_SKACTIVEML=../scikit-activeml python -m pytest tests/adapters/test_skactiveml_template.py
"""

import os
import unittest
import warnings
from importlib import import_module
from importlib.util import find_spec

import pytest

import goalward as gw
from tests.conftest import need

need("skactiveml")
import skactiveml  # noqa: E402

from tests.adapters.skactiveml_cases import CASES, CLASSES, X, Y, clf  # noqa: E402

if clone := os.environ.get("GOALWARD_SKACTIVEML"):
    skactiveml.__path__.append(f"{clone}/skactiveml")
elif find_spec("skactiveml.tests") is None:
    pytest.skip(
        "GOALWARD_SKACTIVEML names no clone of scikit-activeml, and its wheel has no template: "
        "test_skactiveml.py checks the same properties",
        allow_module_level=True,
    )
template = import_module("skactiveml.tests.template_query_strategy")


class Dummy:
    """Nothing that could be a goal or a part of a strategy."""


def case(options):
    """Return the template's tests of `GoalQuery` with some options."""

    class Case(template.TemplateSingleAnnotatorPoolQueryStrategy, unittest.TestCase):
        def setUp(self):
            super().setUp(
                qs_class=gw.adapters.skactiveml.GoalQuery,
                init_default_params=options(CLASSES),
                query_default_params_clf={"X": X, "y": Y, "clf": clf()},
            )

        def _test_param(self, func, param, cases, replace_init_params=None, **more):
            # Dev labels are of the classes that the template tries.
            tried = (more.get("replace_query_params") or {}).get("clf")
            own = {} if tried is None else options(tried.classes)
            super()._test_param(func, param, cases, {**own, **(replace_init_params or {})}, **more)

        def test_query_param_clf(self):
            super().test_query_param_clf(test_cases=[])

        def test_query(self):
            rows, utilities = self.qs_class(**self.init_default_params).query(
                **self.query_default_params_clf, batch_size=3, return_utilities=True
            )
            assert len(set(rows.tolist()) & set(range(4, 12))) == 3
            assert utilities.shape == (3, 12)

        def test_init_param_goal(self):
            self._test_param("init", "goal", [(Dummy(), (TypeError, ValueError))])

        def test_init_param_operator(self):
            self._test_param("init", "operator", [("none such", ValueError)])

        def test_init_param_utility(self):
            self._test_param("init", "utility", [("none such", ValueError)])

        def test_init_param_selection(self):
            self._test_param("init", "selection", [("none such", ValueError)])

        def test_init_param_strategy(self):
            self._test_param("init", "strategy", [(Dummy(), ValueError), ("none such", ValueError)])

    return Case


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_every_goal_and_recipe_passes_the_template(options):
    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unittest.defaultTestLoader.loadTestsFromTestCase(case(options)).run(result)
    assert result.testsRun >= 24
    assert not [f"{test}: {said}" for test, said in result.failures + result.errors]
