"""A folder of pictures as a pool: read, made numbers, labelled."""

import numpy as np
import polars as pl
import pytest
from PIL import Image, ImageDraw
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app
from goalward.errors import BadInput, PoolChanged
from goalward.studio.tables import Encoder, Table
from tests.conftest import need

SHAPES = ("disc", "bar")


def drawn(shape, seed):
    """Return a picture of a disc or a bar: anywhere, of any size and colour."""
    rng = np.random.default_rng(seed)
    colours = [tuple(int(v) for v in rng.integers(0, 255, 3)) for _ in range(2)]
    image = Image.new("RGB", (96, 64), colours[0])
    x, y, size = rng.integers(8, 40), rng.integers(4, 20), rng.integers(24, 40)
    box = (x, y, x + size, y + size) if shape == "disc" else (x, y + 10, x + size, y + 16)
    getattr(ImageDraw.Draw(image), "ellipse" if shape == "disc" else "rectangle")(
        tuple(map(int, box)), fill=colours[1]
    )
    return image


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "goalward.studio.tables.cache.user_cache_path", lambda name: tmp_path / "cache"
    )
    home = tmp_path / "shapes"
    home.mkdir()
    for i in range(120):
        drawn(SHAPES[i % 2], i).save(home / f"{i:03}.{'png' if i % 3 else 'jpg'}")
    return home


def test_a_folder_is_a_table(folder):
    (folder / "notes.txt").write_text("no picture")
    (folder / ".hidden.png").write_bytes(b"")
    table = Table(folder).settled()
    assert (table.image, table.embeddings) == ("picture", "pixels")
    assert table.says == "small grey pixels, edges and colours of picture"
    loaded = table.load()
    assert loaded.show(0) == {"row": 0, "image": "000.jpg", "columns": {"folder": ""}}
    assert loaded.X.shape == (120, 119)
    encoder = Encoder.restored(*loaded.encoder().state())
    frame, X = encoder.read(folder)
    assert frame.equals(loaded.frame)
    assert np.allclose(X, loaded.X, atol=1e-5)
    assert np.allclose(encoder.transform([str(folder / "005.png")]), X[5], atol=1e-5)


def test_pictures_are_learned_and_predicted(folder, tmp_path):
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n but no more")
    study = gw.Study.create(tmp_path / "s.db", pool=folder, classes=SHAPES)
    assert study.state.aside == {120}
    assert "1 pictures cannot be read (first broken.png)" in study.state.pool["notes"][-1]
    for _ in range(4):
        study.tell_many([(row, SHAPES[row % 2]) for row in study.ask(10)])
    right = study.predict().labels[:120] == np.array(SHAPES * 60)
    assert np.mean(right) >= 0.9
    with gw.Study.open(tmp_path / "s.db") as again:
        assert np.array_equal(again.pool.X, study.pool.X)


def test_subfolders_may_be_first_labels(folder, tmp_path):
    for i in range(20):
        name = f"{i:03}.{'png' if i % 3 else 'jpg'}"
        (folder / SHAPES[i % 2]).mkdir(exist_ok=True)
        (folder / name).rename(folder / SHAPES[i % 2] / name)
    done = CliRunner().invoke(app, ["label", str(folder), "--terminal"], input="q\n")
    assert done.exit_code == 0, done.output
    assert "Features: small grey pixels, edges and colours of picture." in done.output
    with gw.Study.open(tmp_path / "shapes.labels.db") as study:
        assert sorted(study.state.classes) == sorted(SHAPES)
        assert len(study.state.labels) == 20
        for row, label in study.state.labels.items():
            assert study.show(row)["image"].startswith(label)
        assert study.state.annotators == ("folder",)


def test_pictures_named_by_a_table_need_no_vectors(folder):
    rows = pl.DataFrame({"file": [f"shapes/{p.name}" for p in sorted(folder.iterdir())[:30]]})
    rows.write_csv(folder.parent / "rows.csv")
    table = Table(folder.parent / "rows.csv").settled()
    assert table.image == "file"
    whole = Table(folder).settled().encoder()
    assert np.any(table.load().X, axis=1).all()
    assert whole.transform([str(folder / "001.png")]).shape == (1, 119)


def test_a_folder_without_pictures_says_so(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match=r"holds no pictures .*\.png"):
        Table(tmp_path / "empty").settled()
    (tmp_path / "empty" / "a.png").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="got 0 of 1"):
        Table(tmp_path / "empty").settled().load().prepare(print)


@pytest.mark.heavy
def test_an_image_encoder_sees_them(folder, tmp_path):
    """One with random weights, made here: nothing is fetched."""
    need("sentence_transformers")
    random_encoder(tmp_path / "clip")
    table = Table(folder, embeddings=str(tmp_path / "clip")).settled()
    assert table.says == "clip vectors of picture"
    loaded = table.load()
    assert loaded.X.shape == (120, 24)
    encoder = Encoder.restored(*loaded.encoder().state())
    assert np.allclose(encoder.transform([str(folder / "005.png")]), loaded.X[5], atol=1e-4)
    with pytest.raises(BadInput, match="must be an encoder"):
        Table(folder, embeddings=str(tmp_path / "nowhere")).settled().load().prepare(print)


def random_encoder(out):
    """Write an image encoder that was never trained, of the kind that is published."""
    import json

    import torch
    from transformers import CLIPConfig, CLIPModel, CLIPTokenizer
    from transformers.models.clip import image_processing_pil_clip as clip

    torch.manual_seed(0)
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    small |= {"num_attention_heads": 2}
    signs = [chr(c) for c in range(33, 127)]
    words = [*signs, *(f"{c}</w>" for c in signs), "<|startoftext|>", "<|endoftext|>"]
    ends = {"bos_token_id": len(words) - 2, "eos_token_id": len(words) - 1, "pad_token_id": 0}
    text = {**small, **ends, "vocab_size": len(words), "max_position_embeddings": 64}
    vision = {**small, "image_size": 32, "patch_size": 8}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=24))
    model.save_pretrained(out)
    (out / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (out / "merges.txt").write_text("#version: 0.2\n")
    CLIPTokenizer(str(out / "vocab.json"), str(out / "merges.txt")).save_pretrained(out)
    crop = {"height": 32, "width": 32}
    clip.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=crop).save_pretrained(out)


def test_pictures_exchanged_for_others_of_their_size_are_noticed(folder, tmp_path):
    one, two = sorted(folder.glob("*.png"))[:2]
    size = max(path.stat().st_size for path in (one, two))
    for path in (one, two):
        path.write_bytes(path.read_bytes().ljust(size, b"\0"))
    study = gw.Study.create(tmp_path / "s.db", pool=folder, classes=SHAPES)
    study.tell_many([(0, "disc"), (1, "bar")])
    one.rename(folder / "third")
    two.rename(one)
    (folder / "third").rename(two)
    for look in (study.refresh, study.extend, lambda: gw.Study.open(study.url).pool):
        with pytest.raises(PoolChanged):
            look()
