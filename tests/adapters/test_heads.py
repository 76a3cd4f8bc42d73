"""Classifiers of transformers, tiny and made on the spot: their head is a linear model like any other."""

import numpy as np
import pytest

import goalward as gw
from goalward.errors import BadParameter
from tests.conftest import need

need("torch")
need("transformers")
import torch  # noqa: E402
import transformers  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402

WORDS = ["[PAD]", "[UNK]", *(f"w{i}" for i in range(40))]
SMALL = {"vocab_size": 50, "num_labels": 3, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1}
ENCODER = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
}
DECODER = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40}


def bert():
    torch.manual_seed(0)
    made = transformers.BertConfig(**SMALL, **ENCODER)
    return transformers.BertForSequenceClassification(made).eval()


def gpt():
    torch.manual_seed(0)
    made = transformers.GPT2Config(**SMALL, **DECODER)
    return transformers.GPT2ForSequenceClassification(made).eval()


def tokenizer():
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]"
    )


def encoded(texts):
    return tokenizer()(texts, padding=True, return_tensors="pt")


def pooled(model, texts):
    with torch.no_grad():
        return model.bert(**encoded(texts)).pooler_output.double().numpy()


def last_token(model, texts):
    given = encoded(texts)
    with torch.no_grad():
        states = model.transformer(**given).last_hidden_state
    return states[torch.arange(len(texts)), given["attention_mask"].sum(1) - 1].double().numpy()


@pytest.fixture
def texts(rng):
    return [" ".join(rng.choice(WORDS[2:], size=rng.integers(2, 8))) for _ in range(40)]


@pytest.fixture
def y(rng):
    return rng.integers(0, 3, size=20)


@pytest.mark.parametrize(
    ("make", "features", "intercept"), [(bert, pooled, True), (gpt, last_token, False)]
)
def test_a_pipeline_of_transformers_is_asked_by_its_head(make, features, intercept, texts, y):
    model = make()
    before = {name: p.clone() for name, p in model.state_dict().items()}
    pipe = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer())
    found = gw.suggest(pipe, texts[:20], y, texts[20:], batch=5)
    rows = features(model, texts)
    own = gw.Logistic(C=1.0, fit_intercept=intercept, penalize_intercept=intercept)
    plain = gw.suggest(own, rows[:20], y, rows[20:], batch=5)
    assert found.rows.tolist() == plain.rows.tolist()
    # The network is in single precision.
    np.testing.assert_allclose(found.utility, plain.utility, rtol=1e-3, atol=1e-6)
    assert f"The head of {type(model).__name__} was fitted to 20 labels" in found.says
    assert all(torch.equal(p, before[name]) for name, p in model.state_dict().items())
    start = gw.suggest(pipe, None, None, texts[20:], batch=3)
    assert "until two classes" in start.says
    cover = gw.suggest(own, None, None, rows[20:], batch=3)
    assert start.rows.tolist() == cover.rows.tolist()


def test_from_torch_takes_what_a_tokenizer_returns(texts, y):
    model = bert()
    options = {"inputs": lambda rows: encoded(list(rows)), "weight_decay": 1.0, "polish": True}
    fitted = gw.adapters.from_torch(model, texts[:20], y, loss_reduction="sum", **options)
    own = gw.Logistic(C=1.0, penalize_intercept=True).fit(pooled(model, texts[:20]), y)
    np.testing.assert_allclose(
        np.asarray(fitted.predict_proba(texts[20:])),
        own.predict_proba(pooled(model, texts[20:])),
        atol=1e-5,
    )


def test_names_of_the_labels_are_those_of_the_logits(texts, y):
    model = bert()
    pipe = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer())
    plain = gw.suggest(pipe, texts[:20], y, texts[20:], batch=3).rows.tolist()
    names = np.array(["bad", "fair", "good"])
    with pytest.raises(BadParameter, match=r"LABEL_0.*Pass classes=\[...\]"):
        gw.suggest(pipe, texts[:20], names[y], texts[20:])
    with pytest.raises(BadParameter, match="in the order of the logits"):
        gw.suggest(pipe, texts[:20], y + 1, texts[20:])
    named = gw.suggest(pipe, texts[:20], names[y], texts[20:], batch=3, classes=list(names))
    assert named.rows.tolist() == plain
    model.config.id2label = dict(enumerate(names.tolist()))
    assert gw.suggest(pipe, texts[:20], names[y], texts[20:], batch=3).rows.tolist() == plain


def test_a_bare_module_takes_its_own_rows(rng, y):
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3))
    X = rng.normal(size=(40, 4)).astype(np.float32)
    found = gw.suggest(net, X[:20], y, X[20:], batch=4)
    rows = net[:2](torch.as_tensor(X)).detach().double().numpy()
    own = gw.Logistic(C=1.0, penalize_intercept=True)
    assert found.rows.tolist() == gw.suggest(own, rows[:20], y, rows[20:], batch=4).rows.tolist()
