"""Lines for other languages in the guide, and clients generated from the OpenAPI document."""

import json
import os
import shutil
import subprocess

import msgspec
import pytest

from ragmon.web import openapi
from tests.support import golden
from tests.support.daemons import running
from tests.support.markdown import Page
from tests.support.openapi30 import downgraded
from tests.support.paths import ROOT
from tests.support.tools import OWN

pytestmark = pytest.mark.end_to_end

REFERENCE = ROOT / "deploy" / "docs" / "reference"
GUIDE = Page(ROOT / "deploy" / "docs" / "guides" / "languages.md")
DOCUMENTED = "http://127.0.0.1:8321"
TYPESCRIPT = OWN / "typescript" / "node_modules"
GO_CLIENT = OWN / "go-client"
COMPILER = ("--strict", "--module", "nodenext", "--moduleResolution", "nodenext", "--target",
            "es2022", "--types", "node")  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with running(tmp_path_factory.mktemp("languages") / "data") as built:
        yield built


def needed(name):
    """The path of a program; a skip with the reason where there is none."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def installed(folder):
    if not folder.exists():
        pytest.skip(f"{folder.relative_to(OWN.parent)} is missing; run `make tools`")
    return folder


def do(command, folder, **environment):
    result = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-4_000:] + result.stderr[-4_000:]
    return result.stdout


def block(language, url):
    """The first block of a language in the guide, for this server."""
    text = next(fence.text for fence in GUIDE.fences if fence.language == language)
    assert DOCUMENTED in text
    return text.replace(DOCUMENTED, url)


def compiled(folder, text):
    """The JavaScript of a program in TypeScript, and its packages beside it."""
    node = needed("node")
    (folder / "node_modules").symlink_to(installed(TYPESCRIPT))
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "main.ts").write_text(text)
    do([node, TYPESCRIPT / "typescript" / "bin" / "tsc", *COMPILER, "main.ts"], folder)
    return [node, "main.js"]


def run_curl(folder, url):
    do([needed("sh"), "-e", "-c", block("sh", url)], folder) if needed("curl") else None


def run_typescript(folder, url):
    do(compiled(folder, block("ts", url)), folder)


def run_go(folder, url):
    go = needed("go")
    (folder / "main.go").write_text(block("go", url))
    do([go, "run", "main.go"], folder, GOFLAGS="", GOPROXY="off")


def run_java(folder, url):
    java = needed("java")
    (folder / "Send.java").write_text(block("java", url))
    do([java, "Send.java"], folder)


def run_ruby(folder, url):
    ruby = needed("ruby")
    (folder / "send.rb").write_text(block("ruby", url))
    do([ruby, "send.rb"], folder)


@pytest.mark.parametrize(
    ("run", "query_id"),
    [
        pytest.param(run_curl, "curl-1", id="curl"),
        pytest.param(run_typescript, "ts-1", id="TypeScript"),
        pytest.param(run_go, "go-1", id="Go"),
        pytest.param(run_java, "java-1", id="Java"),
        pytest.param(run_ruby, "ruby-1", id="Ruby"),
    ],
)
def test_the_lines_of_the_guide_send_a_query_and_its_feedback(site, tmp_path, run, query_id):
    run(tmp_path, site.url)
    stored = site.get(f"/v1/queries/{query_id}").json
    assert stored["record"]["chunks"][0] == {"id": "fees-1", "score": 0.91}
    assert stored["feedback"]["rating"] == 1.0


def test_the_guide_has_six_languages():
    languages = [fence.language for fence in GUIDE.fences]
    assert languages == ["sh", "ts", "go", "java", "csharp", "ruby", "sh"]


def test_the_documentation_has_the_document_in_the_words_of_3_0():
    document = downgraded(json.loads(openapi.encoded()))
    text = msgspec.json.format(msgspec.json.encode(document), indent=1).decode()
    assert '"type":"null"' not in text.replace(" ", "")
    golden.same("openapi-3.0.json", text + "\n", REFERENCE)


CLIENT_TS = """
import createClient from "openapi-fetch";
import type { paths } from "./ragmon.js";

const ragmon = createClient<paths>({ baseUrl: process.argv[2] });
const sent = await ragmon.POST("/v1/queries", {
  body: { query_id: "generated-ts", query: "What is the fee?", chunks: [{ id: "fees-1" }] },
});
if (!sent.data) throw new Error(JSON.stringify(sent.error));
const read = await ragmon.GET("/v1/queries/{query_id}", {
  params: { path: { query_id: "generated-ts" } },
});
console.log(sent.data.accepted, read.data?.record.query);
"""


def test_a_client_in_typescript_is_generated_and_works(site, tmp_path):
    node = needed("node")
    packages = installed(TYPESCRIPT)
    (tmp_path / "openapi.json").write_bytes(openapi.encoded())
    generator = packages / "openapi-typescript" / "bin" / "cli.js"
    options = ["--default-non-nullable", "false", "-o", "ragmon.d.ts"]
    do([node, generator, "openapi.json", *options], tmp_path)
    printed = do([*compiled(tmp_path, CLIENT_TS), site.url], tmp_path)
    assert printed.split(maxsplit=1) == ["1", "What is the fee?\n"]
    wrong = CLIENT_TS.replace('query: "What', 'query: 7 ?? "What')
    (tmp_path / "main.ts").write_text(wrong)
    check = [node, packages / "typescript" / "bin" / "tsc", *COMPILER, "main.ts"]
    refused = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "is not assignable" in refused.stdout


CLIENT_GO = """package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"client/ragmon"
)

func main() {
	client, err := ragmon.NewClientWithResponses(os.Args[1])
	if err != nil {
		panic(err)
	}
	id, query := "generated-go", "What is the fee?"
	record, _ := json.Marshal(ragmon.QueryRecord{QueryId: &id, Query: &query})
	sent, err := client.SendQueriesWithBodyWithResponse(
		context.Background(), "application/json", bytes.NewReader(record))
	if err != nil || sent.JSON200 == nil {
		panic(fmt.Sprint(err, string(sent.Body)))
	}
	fmt.Println(sent.JSON200.Accepted)
}
"""


def test_a_client_in_go_is_generated_and_works(site, tmp_path):
    go = needed("go")
    tools = installed(GO_CLIENT)
    for name in ("go.mod", "go.sum"):
        shutil.copy(tools / name, tmp_path)
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(downgraded(json.loads(openapi.encoded()))))
    generated = do(
        [tools / "oapi-codegen", "-generate", "types,client", "-package", "ragmon", document],
        tmp_path,
    )
    (tmp_path / "ragmon").mkdir()
    (tmp_path / "ragmon" / "ragmon.go").write_text(generated)
    (tmp_path / "main.go").write_text(CLIENT_GO)
    printed = do(
        [go, "run", ".", site.url], tmp_path, GOFLAGS="-mod=mod", GOPROXY="off", GOSUMDB="off"
    )
    assert printed == "1\n"
    assert site.get("/v1/queries/generated-go").json["record"]["query"] == "What is the fee?"
