"""Checkpoints: the state of a run as bytes, written after each evaluation, and how a killed run resumes from one."""

import io
from typing import Any

import torch

from dp_bench.errors import invalid
from dp_bench.experiment.selected import Trial
from dp_bench.experiment.store import RunFolder, model_name
from dp_bench.training.background import Submit
from dp_bench.training.trainer import Training, best_row

Folder = RunFolder | Trial  # where training keeps what it has: on disk, or of a selection's trials, in memory


def save(training: Training, folder: Folder, submit: Submit, keep: str = "none") -> None:
    """The state as it is now, and models if they are kept; written in the background."""
    checkpoint, rows = checkpoint_of(training), list(training.rows)
    best = rows[-1] is best_row(training)
    name = {"all": model_name(training.step), "best": "best" if best else None}.get(keep)
    model = parameters_of(training) if name else b""

    def write() -> None:
        # Models after the checkpoint before them, which has the key of their noise, and before the one that follows: a
        # kill in between only writes the same bytes again.
        if name:
            folder.keep_model(name, model)
        if best and keep != "best":  # an earlier session may have kept one, which now is not the best
            folder.drop_model("best")
        folder.write_checkpoint(checkpoint)
        folder.write_metrics(rows, durable=False)  # the checkpoint has them too

    submit(write)


def checkpoint_of(training: Training) -> bytes:
    """All that the next steps depend on, the generators included: a resumed run draws what the killed one drew."""
    content = {
        "digest": training.spec.digest(),
        "machine": training.machine(),
        "step": training.step,
        "params": training.model.params,
        "state": training.state._asdict(),
        "rows": training.rows,
        "key": training.key,
        "batches": training.batches.state(),
        "noise": training.noise.state(),
    }
    usual = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)  # they take half of its time, and the store adds a stronger checksum
    try:
        return _bytes(content)
    finally:
        torch.serialization.set_crc32_options(usual)


def resume(training: Training, payload: bytes) -> None:
    """Bring a run that has just begun to where the checkpoint was written."""
    spec = training.spec
    saved = torch.load(io.BytesIO(payload), weights_only=True, map_location=training.device)
    if saved["digest"] != spec.digest():
        raise invalid(str(spec.folder), "its own checkpoint", "another protocol's", "move the folder away")
    # A secure run that starts over draws other noise: what the first attempt released stays released.
    spent = " (seed=secure: starting over spends the budget again)" if spec.secure else ""
    for name, ours in training.machine().items():
        if (theirs := saved["machine"].get(name)) != ours:
            raise invalid(
                str(spec.folder),
                f"a checkpoint made with {name} = {ours}, as its bits would change half-way",
                theirs,
                f"resume with the latter, or delete its checkpoint{spent}",
            )
    training.step, training.rows, training.key = saved["step"], saved["rows"], saved["key"]
    training.model.params.copy_(saved["params"])
    training.state = type(training.state)(**saved["state"])
    training.batches.restore(saved["batches"])
    training.noise.restore(saved["noise"])


def parameters_of(training: Training) -> bytes:
    """The model alone, for use elsewhere: `module.load_state_dict(torch.load(file))`."""
    # Copies: a view would bring along all of the flat tensor.
    parts = training.model.module.state_dict().items()
    return _bytes({name: tensor.cpu().clone(memory_format=torch.contiguous_format) for name, tensor in parts})


def _bytes(content: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()
