"""Names from three sources: nothing is imported before it is used, and no package can break another's names."""

import subprocess
import sys
from pathlib import Path

import pytest
from plugins import install

from dp_bench.errors import UserError
from dp_bench.files.checksummed import file_digest
from dp_bench.registry import Registry, snake_case
from dp_bench.strategies import STRATEGIES

BUILT_IN = {"first": "pathlib:Path", "second": "collections:OrderedDict"}


def made() -> Registry[type]:
    return Registry(
        "thing", "dp_bench.things", BUILT_IN, "a class", lambda found: found if isinstance(found, type) else None
    )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that this process finds; its modules are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("things_a", "things_b", "things_broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "things_a.py").write_text(
        "class MyThing: pass\nclass Named: name = 'other'\nclass First: pass\nx = 1\n"
    )
    (tmp_path / "things_b.py").write_text("class MyThing: pass\n")
    (tmp_path / "things_broken.py").write_text("raise RuntimeError('no such device')\n")
    return tmp_path


def test_built_in_names_come_first_and_nothing_is_imported_to_list_them(site: Path) -> None:
    install(site, "a", {"dp_bench.things": {"zeta": "things_a:MyThing", "alpha": "things_broken:X"}})
    things = made()
    assert list(things) == ["first", "second", "alpha", "zeta"]
    assert len(things) == 4
    assert "zeta" in things
    assert "nothing" not in things
    assert things.get("nothing") is None
    assert not {"things_a", "things_broken"} & set(sys.modules)
    assert things["first"] is Path
    assert things["zeta"].__name__ == "MyThing"
    assert (things.outside_path("zeta"), things.outside_path("first")) == ("things_a:MyThing", "")


def test_the_code_behind_a_name_is_the_file_that_defines_it_not_the_one_that_exports_it(site: Path) -> None:
    (site / "things_b.py").write_text("from things_a import MyThing\n")
    install(site, "a", {"dp_bench.things": {"zeta": "things_b:MyThing"}})
    assert made().outside_code("zeta") == file_digest(site / "things_a.py")


def test_an_entry_point_that_fails_is_named_when_it_is_used_and_breaks_nothing_else(site: Path) -> None:
    install(site, "bad", {"dp_bench.things": {"broken": "things_broken:X", "gone": "things_a:Missing"}})
    install(site, "good", {"dp_bench.things": {"fine": "things_a:MyThing", "number": "things_a:x"}})
    things = made()
    assert things["fine"].__name__ == "MyThing"
    with pytest.raises(
        UserError, match=r"thing: .*things_broken:X: RuntimeError: no such device; is it installed"
    ) as e:
        things["broken"]
    assert "\n" not in str(e.value)
    with pytest.raises(UserError, match="things_a:Missing: AttributeError"):
        things["gone"]
    with pytest.raises(UserError, match="thing: expected a class, got things_a:x"):
        things["number"]
    assert list(things.loadable()) == ["first", "second", "fine"]


def test_a_name_that_is_taken_is_refused(site: Path) -> None:
    install(
        site, "a", {"dp_bench.things": {"first": "things_a:First", "both": "things_a:MyThing", "so so": "things_a:x"}}
    )
    install(site, "b", {"dp_bench.things": {"both": "things_b:MyThing"}})
    things = made()
    assert things["first"] is Path
    assert list(things) == ["first", "second", "both"]
    refused = things.refused()
    assert len(refused) == 2
    assert "first of a: expected a name of its own, got that of a built-in" in refused[0]
    assert "'so so'" in refused[1]
    with pytest.raises(UserError, match="'both': two packages have it, as things_a:MyThing and things_b:MyThing"):
        things["both"]
    assert things.add("things_b:MyThing") == "my_thing", "an import path says which"


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(UserError) as refusal:
        made()["frist"]
    assert str(refusal.value) == "thing: expected one of first, second, got frist; did you mean `first`?"
    with pytest.raises(UserError, match="see dp-bench run --help"):
        made()["quite another"]


def test_the_nearest_name_of_a_module_is_offered() -> None:
    with pytest.raises(UserError, match=r"has no attribute 'Onlin'; did you mean `Online`\?$"):
        STRATEGIES.add("dp_bench.strategies.online:Onlin")
    with pytest.raises(UserError, match=r"is it installed, or its folder on PYTHONPATH\?$"):
        STRATEGIES.add("no_such_package.online:Onlin")


def test_an_import_path_gets_a_name_of_its_own(site: Path) -> None:
    things = made()
    assert things.add("things_a:MyThing") == things.add("things_a:MyThing") == "my_thing"
    assert things.add("things_a:Named") == "other"
    assert list(things) == ["first", "second", "my_thing", "other"]
    assert (things.word("my_thing"), things.word("first")) == ("things_a:MyThing", "first")
    assert things.add("pathlib:Path") == "first", "a built-in by its path"
    with pytest.raises(UserError, match="things_a:First, whose name first is that of a built-in"):
        things.add("things_a:First")
    with pytest.raises(UserError, match="things_b:MyThing, whose name my_thing is that of things_a:MyThing"):
        things.add("things_b:MyThing")
    with pytest.raises(UserError, match="ModuleNotFoundError"):
        things.add("no_such_package:Thing")


def test_an_entry_point_has_the_name_that_its_object_says(site: Path) -> None:
    install(site, "a", {"dp_bench.things": {"other": "things_a:Named", "another": "things_a:Named"}})
    things = made()
    assert things["other"].name == "other"
    with pytest.raises(UserError, match="things_a:Named under its own name other, got another"):
        things["another"]


def test_an_import_path_of_an_entry_point_gets_its_name(site: Path) -> None:
    install(site, "a", {"dp_bench.things": {"mine": "things_a:MyThing"}})
    things = made()
    assert things.add("things_a:MyThing") == "mine"
    assert things.word("mine") == "mine"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Online", "online"), ("FixedThreshold", "fixed_threshold"), ("NoDP", "no_dp"), ("AdamWOSM", "adam_wosm")],
)
def test_snake_case(name: str, expected: str) -> None:
    assert snake_case(name) == expected


def test_help_loads_no_strategy() -> None:
    code = "import sys; from dp_bench.cli import main; main(['--help']); print('dp_bench.strategies' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_the_papers_strategies_come_first_in_its_order() -> None:
    assert list(STRATEGIES)[:5] == ["online", "fixed_threshold", "fixed_quantile", "adam_wosm", "no_dp"]
