"""Signatures as AWS publishes them."""

import pytest

from ragmon.s3.credentials import Credentials
from ragmon.s3.signing import authorization

# https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
KEY = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
HOST = "examplebucket.s3.amazonaws.com"


@pytest.mark.parametrize(
    ("method", "path", "headers", "signature"),
    [
        pytest.param(
            "GET",
            "/test.txt",
            {"Range": "bytes=0-9"},
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            id="get an object",
        ),
        pytest.param(
            "PUT",
            "/test%24file.text",
            {
                "Date": "Fri, 24 May 2013 00:00:00 GMT",
                "x-amz-storage-class": "REDUCED_REDUNDANCY",
                "x-amz-content-sha256": (
                    "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
                ),
            },
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            id="put an object",
        ),
        pytest.param(
            "GET",
            "/?lifecycle",
            {},
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            id="a query without a value",
        ),
        pytest.param(
            "GET",
            "/?prefix=J&max-keys=2",
            {},
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            id="list objects",
        ),
    ],
)
def test_published_examples(method, path, headers, signature):
    sent = {"host": HOST, "x-amz-content-sha256": EMPTY, "x-amz-date": "20130524T000000Z"}
    value = authorization(method, f"https://{HOST}{path}", sent | headers, KEY, "us-east-1")
    assert value.endswith(f"Signature={signature}")
    scope = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"
    assert value.startswith(f"AWS4-HMAC-SHA256 Credential={scope},SignedHeaders=")
