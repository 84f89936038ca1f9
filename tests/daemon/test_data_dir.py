"""The folder of a daemon: made for its owner, or a warning that says what is lost."""

from structlog.testing import capture_logs

from ragmon.daemon.data_dir import make_data_dir


def test_it_is_made_for_its_owner(tmp_path):
    with capture_logs() as lines:
        make_data_dir(tmp_path / "new" / "data")
        make_data_dir(tmp_path / "new" / "data")
    assert (tmp_path / "new" / "data").stat().st_mode & 0o777 == 0o700
    assert not lines


def test_where_it_cannot_be_made_the_daemon_goes_on_with_a_warning(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with capture_logs() as lines:
        make_data_dir(tmp_path / "file" / "data")
        make_data_dir(tmp_path / "file")
    assert [(line["event"], line["error"]) for line in lines] == [
        ("data_dir_not_writable", "Not a directory"),
        ("data_dir_not_writable", "File exists"),
    ]
    assert all("set data_dir" in line["remedy"] for line in lines)
