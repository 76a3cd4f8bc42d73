"""Encoders that a stranger put into the folder of a model, or beside a study, run nothing."""

import json
import pickle

import numpy as np
import pytest

import goalward as gw
from goalward.errors import BadInput
from goalward.studio.study import StudyModel
from goalward.studio.tables.embeddings import Sentences
from goalward.studio.tables.table import Table
from tests.conftest import need

need("sentence_transformers")

KIND = "code in a stranger's encoder"
ROOT = "sentence_transformers.models."
START = {"idx": 0, "name": "0", "path": "", "type": f"{ROOT}Transformer"}


class Evil:
    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return open, (self.canary, "w")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An encoder that was never trained, and a place that code of its own would write to."""
    import torch
    from sentence_transformers.util import import_module_class
    from transformers import BertConfig, BertModel, BertTokenizer

    torch.manual_seed(0)
    out = tmp_path / "model" / "enc"
    out.mkdir(parents=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film"]
    (out / "vocab.txt").write_text("\n".join(words))
    BertTokenizer(str(out / "vocab.txt")).save_pretrained(out)
    small = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    config = BertConfig(vocab_size=len(words), num_attention_heads=2, **small)
    BertModel(config).save_pretrained(out)
    code = f"open({str(tmp_path / 'canary')!r}, 'w')\n\n\nclass Evil:\n    pass\n"
    (out / "evil.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    # Up to 5.7 the library trusted local folders.
    trusting = lambda ref, model_name_or_path, **_: import_module_class(
        ref, model_name_or_path, trust_remote_code=True
    )
    monkeypatch.setattr("sentence_transformers.base.model.import_module_class", trusting)
    return out


def modules(folder, *others):
    listed = [{"idx": i, "name": f"{i}", **other} for i, other in enumerate(others, 1)]
    (folder / "modules.json").write_text(json.dumps([START, *listed]))


def own_module(folder, canary):
    modules(folder, {"path": "", "type": "evil.Evil"})


def installed_module(folder, canary):
    modules(folder, {"path": "", "type": "pickle.Unpickler"})


def module_of_the_library(folder, canary):
    modules(folder, {"path": "1", "type": "sentence_transformers.base.model.pickle"})


def word_tokenizer(folder, canary):
    modules(folder, {"path": "1", "type": f"{ROOT}WordEmbeddings"})
    (folder / "1").mkdir()
    (folder / "1" / "wordembedding_config.json").write_text('{"tokenizer_class": "evil.Evil"}')


def router(folder, canary):
    modules(folder, {"path": "1", "type": f"{ROOT}Router"})
    (folder / "1").mkdir()
    routes = {"types": {"a": "evil.Evil"}, "structure": {"a": ["a"]}, "parameters": {}}
    (folder / "1" / "router_config.json").write_text(json.dumps(routes))


def own_architecture(folder, canary):
    config = json.loads((folder / "config.json").read_text())
    named = {"auto_map": {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil"}, "model_type": "own"}
    (folder / "config.json").write_text(json.dumps(config | named))


def pickled_weights(folder, canary):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(canary)))


def pickled_layer(folder, canary):
    modules(folder, {"path": "1", "type": f"{ROOT}Pooling"}, {"path": "2", "type": f"{ROOT}Dense"})
    for name in ("1", "2"):
        (folder / name).mkdir()
    pooled = {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True}
    (folder / "1" / "config.json").write_text(json.dumps(pooled))
    dense = {"in_features": 8, "out_features": 8, "activation_function": "evil.Evil"}
    (folder / "2" / "config.json").write_text(json.dumps(dense))
    (folder / "2" / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(canary)))


def no_list(folder, canary):
    (folder / "modules.json").write_text('{"type": "evil.Evil"}')


EVILS = [own_module, installed_module, module_of_the_library, word_tokenizer, router]
EVILS += [own_architecture, pickled_weights, pickled_layer, no_list]


@pytest.mark.attack(KIND)
@pytest.mark.parametrize("evil", EVILS)
def test_the_folder_of_a_model_runs_no_code(folder, tmp_path, evil, tried):
    model = StudyModel(np.ones((9, 2)), ("good", "bad"), Sentences([], "model/enc", 1.0)).save(
        tmp_path / "m"
    )
    assert gw.load_model(model).predict(["good film"]).tolist() == ["good"]
    evil(folder, str(tmp_path / "canary"))
    with pytest.raises(BadInput, match=r"model/enc.*safetensors"):
        gw.load_model(model).predict(["good film"])
    assert not (tmp_path / "canary").exists()
    tried(1)


@pytest.mark.attack(KIND)
@pytest.mark.parametrize("evil", EVILS)
def test_a_study_runs_no_code(folder, tmp_path, evil, tried, monkeypatch):
    at = "goalward.studio.tables.cache.user_cache_path"
    monkeypatch.setattr(at, lambda name: tmp_path / "theirs")
    (tmp_path / "t.csv").write_text("text\n" + "\n".join(["good film", "bad film"] * 6))
    table = Table("t.csv", text="text", embeddings="model/enc")
    gw.Study.create("labels.db", pool=table, classes=["good", "bad"]).close()
    evil(folder, str(tmp_path / "canary"))
    monkeypatch.setattr(at, lambda name: tmp_path / "mine")
    with gw.Study.open("labels.db") as study, pytest.raises(BadInput, match="safetensors"):
        study.ask()
    assert not (tmp_path / "canary").exists()
    tried(1)
