"""What the client repeats of the server, because it is installed without it."""

import ragmon
from ragmon import records
from ragmon.client import limits


def test_the_client_has_the_version_of_the_server():
    assert ragmon.__version__ == limits.VERSION


def test_the_client_cuts_where_the_server_would_refuse():
    sizes = {name: value for name, value in vars(limits).items() if name.startswith("MAX_")}
    assert len(sizes) == 7
    assert sizes == {name: getattr(records, name) for name in sizes}
