"""Files that name code, or other files: nothing of that is run or followed."""

import json
import pickle

import numpy as np
import pytest

from goalward import errors
from goalward.scale import open_pool
from tests.conftest import need


class Canary:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def _v2(folder, **changes):
    folder.mkdir()
    meta = {
        "zarr_format": 2,
        "shape": [4, 3],
        "chunks": [4, 3],
        "dtype": "<f8",
        "compressor": None,
        "filters": None,
        "fill_value": 0,
        "order": "C",
    }
    (folder / ".zarray").write_text(json.dumps({**meta, **changes}))
    return folder


def _v3(folder, codecs, data_type="float64"):
    folder.mkdir()
    meta = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4, 3],
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 3]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": codecs,
        "attributes": {},
    }
    (folder / "zarr.json").write_text(json.dumps(meta))
    return folder


BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
INNER = {"chunk_shape": [4, 3], "codecs": [{"name": "numcodecs.pickle"}], "index_codecs": [BYTES]}
REFUSED = {
    "compressor": lambda at: _v2(at, compressor={"id": "pickle", "protocol": 4}),
    "filter": lambda at: _v2(at, dtype="|O", filters=[{"id": "pickle"}]),
    "filter of numbers": lambda at: _v2(at, filters=[{"id": "delta"}, {"id": "pickle"}]),
    "json": lambda at: _v2(at, compressor={"id": "json2"}),
    "objects": lambda at: _v2(at, dtype="|O"),
    "fields": lambda at: _v2(at, dtype=[["a", "<f8"]]),
    "no name": lambda at: _v2(at, compressor={}),
    "not a list": lambda at: _v2(at, filters="pickle"),
    "third": lambda at: _v3(at, [BYTES, {"name": "numcodecs.pickle"}]),
    "third, nested": lambda at: _v3(at, [{"name": "sharding_indexed", "configuration": INNER}]),
    "third, unknown": lambda at: _v3(at, [BYTES, {"name": "mine"}]),
    "third, texts": lambda at: _v3(at, [{"name": "vlen-utf8"}], "string"),
    "nothing": lambda at: at.mkdir() or at,
    "no json": lambda at: _v2(at) and (at / ".zarray").write_text("[") and at,
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_zarr_array_whose_codec_is_not_of_numbers_is_refused_unopened(
    case, tmp_path, monkeypatch
):
    need("zarr")
    import zarr

    opened = []
    monkeypatch.setattr(zarr, "open_array", lambda *a, **k: opened.append(a))
    folder, canary = tmp_path / "pool.zarr", tmp_path / "canary"
    REFUSED[case](folder)
    payload = pickle.dumps(Canary(canary), protocol=4)
    (folder / "0.0").write_bytes(payload)
    (folder / "c" / "0").mkdir(parents=True)
    (folder / "c" / "0" / "0").write_bytes(payload)
    with pytest.raises(errors.DataMissing, match="zarr"):
        open_pool(folder)[:]
    assert not opened
    assert not canary.exists()


@pytest.mark.parametrize("compressor", [None, {"id": "zlib", "level": 1}])
def test_numbers_in_usual_codecs_are_read(compressor, tmp_path):
    need("zarr")
    import zlib

    X = np.arange(12.0).reshape(4, 3)
    folder = _v2(tmp_path / "pool.zarr", compressor=compressor)
    content = X.tobytes()
    (folder / "0.0").write_bytes(zlib.compress(content) if compressor else content)
    np.testing.assert_array_equal(open_pool(folder)[:], X)


def test_an_hdf5_file_that_leads_to_other_files_is_refused(tmp_path):
    need("h5py")
    import h5py

    X = np.arange(12.0).reshape(4, 3)
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["X"] = X
    (tmp_path / "raw").write_bytes(X.tobytes())
    with h5py.File(tmp_path / "linked.h5", "w") as file:
        file["X"] = h5py.ExternalLink("secret.h5", "/X")
    with h5py.File(tmp_path / "stored.h5", "w") as file:
        file.create_dataset("X", (4, 3), "f8", external=[("raw", 0, 96)])
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((4, 3), "f8")
        layout[:] = h5py.VirtualSource("secret.h5", "X", (4, 3))
        file.create_virtual_dataset("X", layout)
    with h5py.File(tmp_path / "dangling.h5", "w") as file:
        file["X"] = h5py.SoftLink("/nowhere")
    for name in ("linked", "stored", "virtual"):
        for columns in (None, "X"):
            with pytest.raises(errors.DataMissing, match="another file"):
                open_pool(tmp_path / f"{name}.h5", columns=columns)
    with pytest.raises(errors.DataMissing, match="datasets none"):
        open_pool(tmp_path / "dangling.h5")
    with h5py.File(tmp_path / "own.h5", "w") as file:
        file["a/X"], file["link"] = X, h5py.SoftLink("/a/X")
    np.testing.assert_array_equal(open_pool(tmp_path / "own.h5", columns="link")[:], X)
