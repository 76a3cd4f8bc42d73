"""Feature maps, fitted to unlabelled rows: a model is linear in φ(x), and all else applies as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, replace
from typing import Any, ClassVar

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import SplineTransformer
from sklearn.utils.validation import check_is_fitted

from goalward.core.arguments import check_count, described
from goalward.core.arrays import (
    Array,
    Rows,
    is_sparse,
    leading_eigenvectors,
    like,
    namespace,
    to_numpy,
)
from goalward.core.cores import one_blas_thread
from goalward.core.draws import reference_rows
from goalward.core.pool import check_pool, n_rows
from goalward.core.rows import check_finite, clean_rows
from goalward.errors import BadInput, BadParameter, NotFinite, Unsupported

__all__ = ["Features", "Landmarks", "Linear", "Splines"]

SAMPLE = 2000
"""Rows of the pool that a map is fitted to."""
FLAT = 1e-8
"""Directions of a kernel below this share of the largest are dropped."""
WIDE = 256
"""Columns from which "auto" tries no kernel: on vectors of texts none gained anything."""
KNOTS, FEW_VALUES = 5, 6
"""Quantiles at which cubic splines join; columns with at most so many values have none."""
SPLINES = 2.0
"""Factor of the splines beside the columns themselves."""
Learned = Mapping[str, Any]


@dataclass(frozen=True, repr=False)
class FeatureMap:
    """Columns to put beside a row's own; `fit` it to rows without labels.

    With `tame`, columns of numbers become asinh((x - median) / width) with mean 0 and deviation 1,
    and columns of two values 0 and 1.
    """

    _: KW_ONLY
    tame: bool = True

    kinds: ClassVar[dict[str, type[FeatureMap]]] = {}
    sparse: ClassVar[bool] = False
    """Whether it takes sparse rows."""
    replaces: ClassVar[bool] = False
    """Whether its columns take the place of a row's own."""

    def __init_subclass__(cls) -> None:
        cls.kinds[cls.__name__] = cls

    def __repr__(self) -> str:
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        usual = {each.name: each.default for each in fields(self)}
        other = [f"{name}={value!r}" for name, value in known.items() if value != usual[name]]
        return f"{type(self).__name__}({', '.join(other)})"

    def fit(self, X: Any) -> Features:
        """Return the map fitted to (a sample of) the rows of a pool."""
        rows = clean_rows(reference_rows(X, SAMPLE), "X_pool", finite=False)
        try:
            check_finite(rows, "X_pool")
        except NotFinite:
            check_pool(X, "X_pool")  # says in which row of the pool
            raise
        if is_sparse(rows):
            if self.tame or not self.sparse:
                raise Unsupported(
                    f"{self!r} needs dense rows, got a sparse matrix. Use features='linear' or "
                    "'components'."
                )
            return Features(self, self.learned(rows), int(rows.shape[1]))
        Z = np.asarray(to_numpy(rows), dtype=np.float64)
        learned: dict[str, Any] = _scales(Z) if self.tame else {}
        Z = _tamed(Z, learned) if self.tame else Z
        with one_blas_thread():
            return Features(self, learned | self.learned(Z), Z.shape[1])

    def learned(self, Z: Any) -> dict[str, NDArray[Any]]:
        """Return what the map learns of the rows of a sample, as arrays by name."""
        return {}

    def added(self, Z: Array, learned: Learned) -> Array | None:
        """Return the columns to add to rows of any array library; None for none."""
        return None

    def mapped(self, Z: Rows, learned: Learned) -> Rows:
        """Return φ of rows: their own columns, then those that are added."""
        added = None if is_sparse(Z) else self.added(Z, learned)
        return Z if added is None else namespace(Z).concat([Z, added], axis=1)

    def says(self, learned: Learned) -> str:
        """Return its columns, in words."""
        return ""

    def untamed(self) -> FeatureMap:
        """Return the map for columns that are on one scale already."""
        return replace(self, tame=False)

    def written(self) -> dict[str, Any]:
        """Return the map as plain data."""
        return {"kind": type(self).__name__, **asdict(self)}


@dataclass(frozen=True, repr=False)
class Linear(FeatureMap):
    """The columns alone, as they come or tamed.

    Examples
    --------
    >>> Linear(tame=True).fit([[1.0], [10.0], [100.0]]).transform([[10.0]]).round(2)
    array([[-0.56]])
    """

    _: KW_ONLY
    tame: bool = False

    sparse = True


@dataclass(frozen=True, repr=False)
class Components(FeatureMap):
    """The `n` leading components of the rows (a truncated SVD) in place of the columns: LSA for texts.

    Examples
    --------
    >>> Components(1).fit([[1.0, 1.0], [2.0, 2.0], [3.0, 3.1]]).transform([[2.0, 2.0]]).shape
    (1, 1)
    """

    n: int = 50
    _: KW_ONLY
    tame: bool = False

    sparse = True
    replaces = True

    def learned(self, Z: Any) -> dict[str, NDArray[Any]]:
        gram = Z @ Z.T if Z.shape[0] < Z.shape[1] else Z.T @ Z
        gram = gram.toarray() if is_sparse(gram) else gram
        count = min(self.n, int((np.array(Z.shape)).min()))
        values, vectors = leading_eigenvectors(np.asarray(gram, dtype=np.float64), count)
        kept = values > FLAT * max(float(values[-1]), 1e-300)
        kept[-1] = True
        values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
        if Z.shape[0] < Z.shape[1]:
            vectors = np.asarray(Z.T @ vectors) / np.sqrt(np.maximum(values, 1e-300))
        # As long as the rows themselves, so that the same penalties suit both.
        length = np.sqrt(float(np.trace(gram)) / max(float(values.sum()), 1e-300))
        return {"weights": length * vectors}

    def mapped(self, Z: Rows, learned: Learned) -> Rows:
        return Z @ learned["weights"]

    def says(self, learned: Learned) -> str:
        n = learned["weights"].shape[1]
        return f"{n} leading component{'s' * (n != 1)}"


@dataclass(frozen=True, repr=False)
class Landmarks(FeatureMap):
    """A kernel by its values at `n` landmarks, the centres of clusters (Nyström approximation).

    "rbf" is exp(-‖a - b‖² / h), "laplace" exp(-‖a - b‖₁ / h), with h `width` times the median distance
    of two rows. The columns are centred, and as long as the row's own.

    Examples
    --------
    >>> Landmarks(2).fit([[0.0], [1.0], [2.0], [3.0]]).transform([[0.0]]).shape
    (1, 3)
    """

    n: int = 100
    kernel: str = "rbf"
    width: float = 1.0

    def __post_init__(self) -> None:
        check_count("n", self.n)
        if self.kernel not in ("rbf", "laplace") or not self.width > 0:
            raise BadParameter(
                "Landmarks needs kernel 'rbf' or 'laplace' and a width above 0, got "
                f"{self.kernel!r} and {self.width!r}. Use Landmarks(100)."
            )

    def learned(self, Z: NDArray[Any]) -> dict[str, NDArray[Any]]:
        different = np.unique(Z, axis=0)
        count = min(self.n, len(different))
        centres = different
        if count < len(different):
            centres = KMeans(count, n_init=1, random_state=0).fit(Z).cluster_centers_
        far = pdist(Z, "sqeuclidean" if self.kernel == "rbf" else "cityblock")
        median = float(np.median(far)) if len(far) else 0.0
        size = {"centres": centres, "h": np.array(self.width * (median or far.max(initial=1.0)))}
        values, vectors = np.linalg.eigh(self.closeness(centres, size))
        kept = values > FLAT * values[-1]
        whitened = vectors[:, kept] / np.sqrt(values[kept])
        columns = self.closeness(Z, size) @ whitened
        mean = columns.mean(axis=0)
        spread = float(((columns - mean) ** 2).sum())  # 0 where all rows are equal
        length = np.sqrt((Z**2).sum() / spread) if spread > 1e-12 * len(Z) else 1.0
        return {**size, "weights": length * whitened, "mean": length * mean}

    def closeness(self, Z: Array, learned: Learned) -> Array:
        """Return k(z, landmark) of rows and landmarks, (n, m)."""
        xp, centres, h = namespace(Z), learned["centres"], learned["h"]
        if self.kernel == "rbf":
            far = (Z @ centres.T) * -2.0
            far += xp.sum(Z * Z, axis=1)[:, None]
            far += xp.sum(centres * centres, axis=1)[None, :]
        elif type(Z) is np.ndarray:
            far = cdist(Z, centres, "cityblock").astype(Z.dtype, copy=False)
        else:
            near = [xp.sum(xp.abs(Z - centres[k, :]), axis=1) for k in range(centres.shape[0])]
            far = xp.stack(near, axis=1)
        far *= -1.0 / h
        return np.exp(far, out=far) if type(far) is np.ndarray else xp.exp(far)

    def added(self, Z: Array, learned: Learned) -> Array | None:
        columns = self.closeness(Z, learned) @ learned["weights"]
        columns -= learned["mean"]
        return columns

    def says(self, learned: Learned) -> str:
        n = len(learned["centres"])
        return f"{n} landmark{'s' * (n != 1)}"


@dataclass(frozen=True, repr=False)
class Splines(FeatureMap):
    """Cubic splines of every column of numbers, linear beyond its range: an additive model.

    Examples
    --------
    >>> Splines().fit([[float(i)] for i in range(20)]).transform([[0.0]]).shape
    (1, 7)
    """

    def learned(self, Z: NDArray[Any]) -> dict[str, NDArray[Any]]:
        many = [j for j, column in enumerate(Z.T) if len(np.unique(column)) > FEW_VALUES]
        if not many:
            return {"columns": np.array([], dtype=np.int64)}
        knots = np.quantile(Z[:, many], np.linspace(0, 1, KNOTS), axis=0)
        # Quantiles that are equal would make splines of no width.
        rising = np.diff(knots, axis=0).min(axis=0) > 1e-9 * np.ptp(knots, axis=0)
        even = np.linspace(knots[0], knots[-1], KNOTS)
        knots = np.where(rising, knots, even)
        learned = {"columns": np.array(many), "knots": knots}
        return learned | {"mean": SPLINES * self._basis(Z[:, many], knots).mean(axis=0)}

    def _basis(self, Z: NDArray[Any], knots: NDArray[Any]) -> NDArray[Any]:
        splines = SplineTransformer(knots=knots, extrapolation="linear", include_bias=False)
        return np.asarray(splines.fit(knots).transform(Z))

    def added(self, Z: Array, learned: Learned) -> Array | None:
        columns = to_numpy(learned["columns"]).astype(np.int64)
        if not len(columns):
            return None
        chosen = np.asarray(to_numpy(Z)[:, columns], dtype=np.float64)
        # Beyond any use, values are held, so that their squares do not overflow; NaN is in Z itself.
        held = np.nan_to_num(np.clip(chosen, -1e9, 1e9))
        basis = SPLINES * self._basis(held, to_numpy(learned["knots"]))
        return like(basis - to_numpy(learned["mean"]), Z, dtype=Z.dtype)

    def says(self, learned: Learned) -> str:
        return f"splines of {len(learned['columns'])}" if len(learned["columns"]) else ""


class Fixed:
    """A map that is fitted, and stays as it is."""

    portable: ClassVar[bool] = False
    """Whether any thread and device may compute it."""

    def fit(self, X: Any) -> Any:
        return self

    def untamed(self) -> Any:
        return self


@dataclass(frozen=True, eq=False)
class Features(Fixed):
    """A map fitted to a pool: `transform` gives φ of rows, NumPy or torch, in blocks of any size."""

    portable = True
    map: FeatureMap
    learned: Learned = field(repr=False)
    width: int

    def transform(self, X: Any) -> Rows:
        """Return φ(x) of raw rows."""
        rows = clean_rows(X, "X", n_features=self.width, finite=False, least=0)
        known = self._as(rows)
        return self.map.mapped(_tamed(rows, known) if self.map.tame else rows, known)

    __call__ = transform

    def _as(self, rows: Array) -> dict[str, Any]:
        """Return what was learned as arrays of the library, device and precision of rows."""
        made: dict[Any, dict[str, Any]] = vars(self).setdefault("made", {})
        like_this = np.empty(0, dtype=rows.dtype) if is_sparse(rows) else rows
        key = type(like_this), str(rows.dtype), str(array_api_compat.device(like_this))
        if key not in made:
            made[key] = {
                name: like(value, like_this, dtype=rows.dtype)
                for name, value in self.learned.items()
            }
        return made[key]

    def __getstate__(self) -> dict[str, Any]:
        return {"map": self.map, "learned": self.learned, "width": self.width}

    @property
    def says(self) -> str:
        """The columns of the model, in words."""
        own = f"{self.width:,} column{'s' * (self.width != 1)}"
        more = self.map.says(self.learned)
        if self.map.replaces:
            return f"{more} of {own}"
        return f"{own} and {more}" if more else own

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state to store: data for JSON, and arrays by name."""
        plain = {**self.map.written(), "columns": self.width}
        return plain, {name: np.asarray(value) for name, value in self.learned.items()}

    @classmethod
    def restored(cls, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Features:
        """Return the map of a state; an unknown kind is `BadInput`."""
        options = dict(plain)
        kind, width = options.pop("kind", None), options.pop("columns", None)
        if kind not in FeatureMap.kinds:
            raise BadInput(
                f"A feature map must be one of {', '.join(FeatureMap.kinds)}, got {kind!r}. Upgrade goalward."
            )
        return cls(FeatureMap.kinds[kind](**options), dict(arrays), width)


@dataclass(frozen=True, eq=False)
class Brought(Fixed):
    """A user's own map: anything with `transform`."""

    own: Any

    def fit(self, X: Any) -> Brought:
        """Return the map; of scikit-learn and not fitted yet, a clone that is."""
        try:
            check_is_fitted(self.own)
        except NotFittedError:
            return Brought(clone(self.own).fit(reference_rows(X, SAMPLE)))
        except TypeError:
            pass  # not of scikit-learn: taken as it is
        return self

    def transform(self, X: Any) -> Any:
        return self.own.transform(X)

    __call__ = transform

    @property
    def says(self) -> str:
        return f"the columns of {type(self.own).__name__}"


WORDS: dict[str, tuple[FeatureMap, ...]] = {
    "linear": (Linear(),),
    "splines": (Splines(),),
    "landmarks": (Landmarks(),),
    "components": (Components(),),
    "auto": (Linear(tame=True), Landmarks(), Landmarks(width=0.25)),
}
"""Maps by name; of several, the first is used unless another predicts left-out labels better."""
PLAIN = WORDS["linear"]
WORDS["auto-1"] = WORDS["auto"]
"""What "auto" means in studies that are made now, whatever it will mean later."""


def maps_of(features: Any) -> tuple[Any, ...]:
    """Return the maps that a learner's `features` names; raise `BadParameter` for anything else."""
    if isinstance(features, str):
        if features not in WORDS:
            raise BadParameter(
                f"features must be one of {', '.join(map(repr, WORDS))}, a map or a list of maps, got "
                f"{features!r}. Use 'auto'."
            )
        return WORDS[features]
    if isinstance(features, Mapping):
        options = dict(features)
        return (FeatureMap.kinds[options.pop("kind")](**options),)
    if isinstance(features, Sequence):
        if not features:
            raise BadParameter("features must name at least 1 map, got none. Use 'linear'.")
        return tuple(map for each in features for map in maps_of(each))
    if hasattr(features, "untamed") and not isinstance(features, type):
        return (features,)
    if isinstance(features, type) or not hasattr(features, "transform"):
        raise BadParameter(
            f"features must be a word such as 'auto', or maps with `transform`, got {described(features)}."
        )
    return (Brought(features),)


def written_maps(features: Any) -> Any:
    """Return `features` as plain data, for `maps_of`; maps that are code are refused."""
    if isinstance(features, str | Mapping):
        return "auto-1" if features == "auto" else features
    if hasattr(features, "written"):
        return features.written()
    if isinstance(features, Sequence):
        return [written_maps(each) for each in features]
    raise BadParameter(
        f"features must be words or maps of gw.models.features where they are stored, got "
        f"{described(features)}. A study stores its features as parameters, never as code."
    )


def is_plain(features: Any) -> bool:
    """Return whether `features` names the columns as they come, and nothing else."""
    return maps_of(features) == PLAIN


def fitted_maps(features: Any, pool: Any, known: Any = None, *, encoded: bool = False) -> list[Any]:
    """Return the maps fitted to a pool, or to the known rows where fewer are left in the pool.

    What is fitted stays as it is. Columns that are `encoded` have one scale already.
    """
    maps, left = maps_of(features), 0 if pool is None else n_rows(pool)
    if known is not None and left < max(n_rows(known), 1):
        pool = known
    if encoded:
        maps = tuple(each.untamed() for each in maps)
    chooses = isinstance(features, str) and features.startswith("auto")
    if chooses and is_sparse(pool):
        maps = (Linear(),)
    first = maps[0].fit(pool)
    wide = chooses and first.width >= WIDE
    return [first] if wide else [first, *(each.fit(pool) for each in maps[1:])]


def _scales(X: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return median, width, mean and deviation of columns; of those with two values, as 0 and 1."""
    low, median, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
    deviation = X.std(axis=0)
    width = np.where(high > low, (high - low) / 1.349, np.where(deviation > 0, deviation, 1.0))
    tamed = np.arcsinh((X - median) / width)
    spread = tamed.std(axis=0)
    least, most = X.min(axis=0), X.max(axis=0)
    two = ((least == X) | (most == X)).all(axis=0)
    return {
        "median": np.where(two, least, median),
        "scale": np.where(two, np.where(most > least, most - least, 1.0), width),
        "centre": np.where(two, 0.0, tamed.mean(axis=0)),
        "spread": np.where(two | (spread == 0), 1.0, spread),
        "two": two,
    }


def _tamed(X: Array, known: Learned) -> Array:
    xp = namespace(X)
    scaled = X - known["median"]
    scaled /= known["scale"]
    bent, two = xp.asinh(scaled), xp.astype(known["two"], xp.bool)
    if bool(xp.any(two)):
        # A third value may come that the sample does not have.
        bent = xp.where(two, xp.clip(scaled, -1.0, 2.0), bent)
    bent -= known["centre"]
    bent /= known["spread"]
    return bent
