"""Files of tokens and certificates: taken into use when they change, or the former ones stay."""

from ragmon.daemon.secret_files import SecretFiles, SecretWatch
from ragmon.errors import SettingsError
from ragmon.exposition.own import OwnMetrics


class Rig:
    def __init__(self, path):
        self.path = path
        self.applied, self.outcomes = [], []
        self.own = OwnMetrics()
        files = SecretFiles(name="tokens", paths=[path], apply=self.apply)
        self.watch = SecretWatch([files], self.own, lambda *given: self.outcomes.append(given))

    def apply(self):
        text = self.path.read_text()
        if not text:
            raise SettingsError("is empty")
        self.applied.append(text)

    def usable(self):
        return self.own.total("ragmon_secret_files_usable", files="tokens")


def test_a_change_is_applied_once(tmp_path):
    path = tmp_path / "token"
    path.write_text("old")
    rig = Rig(path)
    rig.watch.check()
    assert rig.applied == []
    path.write_text("new")
    rig.watch.check()
    rig.watch.check()
    assert rig.applied == ["new"]
    assert rig.outcomes == [("tokens", "reloaded")]


def test_a_link_that_leads_elsewhere_is_a_change(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
    data = tmp_path / "..data"
    data.symlink_to("one")
    (tmp_path / "token").symlink_to("..data/token")
    rig = Rig(tmp_path / "token")
    swapped = tmp_path / "..data_tmp"
    swapped.symlink_to("two")
    swapped.rename(data)  # as the kubelet does it
    rig.watch.check()
    assert rig.applied == ["two"]


def test_what_cannot_be_used_is_reported_once_and_tried_again(tmp_path):
    path = tmp_path / "token"
    path.write_text("old")
    rig = Rig(path)
    path.write_text("")
    for _ in range(3):
        rig.watch.check()
    assert rig.outcomes == [("tokens", "failed")]
    assert rig.usable() == 0
    path.write_text("new")
    rig.watch.check()
    assert (rig.applied, rig.usable()) == (["new"], 1)


def test_a_file_that_goes_and_comes_back_changes_nothing(tmp_path):
    path = tmp_path / "token"
    path.write_text("old")
    rig = Rig(path)
    path.unlink()
    rig.watch.check()
    assert (rig.applied, rig.usable()) == ([], 0)
    path.write_text("old")
    rig.watch.check()
    assert (rig.applied, rig.usable()) == ([], 1)
