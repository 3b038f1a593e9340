"""How batches are drawn: train.sampling, or as the accountant assumes; never batches that no accountant counts."""

import pytest
import torch
from running import POINT, composed, data_of, smoke

from dp_bench.errors import UserError
from dp_bench.experiment.spec import RunSpec
from dp_bench.mechanism import sampling
from dp_bench.training.trainer import Training

pytestmark = pytest.mark.usefixtures("without_data")


def sizes_of_batches(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    drawn: list[torch.Tensor] = []
    for name in ("poisson", "fixed_size"):
        function = getattr(sampling, name)
        monkeypatch.setattr(sampling, name, lambda *given, f=function: drawn.append(f(*given)) or drawn[-1])
    trainer = Training(spec, data_of(spec), torch.device("cpu"))
    for _ in range(4):
        trainer.advance()
    return [len(members) for members in drawn]


@pytest.mark.parametrize("accountant", ["rdp_wor", "rdp_wor_10"])
@pytest.mark.slow(reason="composes configurations through Hydra")
def test_an_accountant_alone_says_how_batches_are_drawn(accountant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = smoke("online", f"privacy.accountant={accountant}")[0]
    assert spec.sampling == "fixed_size"
    assert "sampling" not in spec.variant
    assert "sampling" not in spec.protocol()["train"], "as runs that were stored before there was such a key"
    assert sizes_of_batches(spec, monkeypatch) == [100] * 4


@pytest.mark.slow(reason="composes configurations through Hydra")
def test_batches_are_poisson_samples_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = smoke("online")[0]
    assert spec.sampling == "poisson"
    assert len(set(sizes_of_batches(spec, monkeypatch))) > 1


@pytest.mark.parametrize(("accountant", "implied"), [("rdp", "poisson"), ("pld", "poisson"), ("rdp_wor", "fixed_size")])
@pytest.mark.slow(reason="composes configurations through Hydra")
def test_saying_what_follows_anyway_is_the_same_run(accountant: str, implied: str) -> None:
    chosen = f"privacy.accountant={accountant}"
    plain, said = (smoke("online", chosen, *more)[0] for more in ((), (f"train.sampling={implied}",)))
    assert (said, said.folder, said.digest()) == (plain, plain.folder, plain.digest())


@pytest.mark.slow(reason="composes configurations through Hydra")
def test_the_baseline_follows_no_accountant_and_may_draw_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = smoke("no_dp")[0]
    assert smoke("no_dp", "privacy.accountant=rdp_wor")[0] == plain
    assert plain.sampling == "poisson"
    other = smoke("no_dp", "train.sampling=fixed_size")[0]
    assert "train.sampling=fixed_size" in other.variant
    assert other.protocol()["train"]["sampling"] == "fixed_size"
    assert sizes_of_batches(other, monkeypatch) == [100] * 4


@pytest.mark.parametrize(
    ("accountant", "chosen", "told"),
    [
        (
            "rdp",
            "fixed_size",
            "train.sampling: expected poisson, which privacy.accountant=rdp is about, got fixed_size; "
            "leave it out, or choose privacy.accountant=rdp_wor or rdp_wor_10",
        ),
        (
            "rdp_wor_10",
            "poisson",
            "train.sampling: expected fixed_size, which privacy.accountant=rdp_wor_10 is about, got poisson; "
            "leave it out, or choose privacy.accountant=rdp or pld or prv",
        ),
        ("rdp", "fixed", "train.sampling: expected one of poisson, fixed_size, got fixed; did you mean `fixed_size`?"),
    ],
)
def test_batches_that_the_accountant_does_not_count_are_refused(accountant: str, chosen: str, told: str) -> None:
    with pytest.raises(UserError) as refusal:
        composed(f"privacy.accountant={accountant}", f"train.sampling={chosen}", *POINT["online"])
    assert str(refusal.value) == told
