"""FlushJob: it syncs its files, records failures, and skips deleted files."""

from barnabas.storage.log.checkpoints import LeaderEpochCheckpointFile
from barnabas.storage.log.flush import FlushJob
from tests.storage.fault_env import FaultEnv, nth


def new_job(env: FaultEnv, directory: str | None = "/d") -> FlushJob:
    return FlushJob(
        env,
        up_to_offset=7,
        generation=0,
        files=[env.open("/d/log")],
        paths=["/d/index"],
        directory=directory,
        sealed_segments=(),
    )


def new_env() -> FaultEnv:
    env = FaultEnv()
    env.mkdir("/d")
    env.sync_dir("/")
    for name in ("log", "index"):
        env.write_file(f"/d/{name}", name.encode())
    return env


def test_files_paths_directory_and_epochs_are_made_durable() -> None:
    env = new_env()
    job = new_job(env)
    job.include_epochs(LeaderEpochCheckpointFile(env, "/d/epochs"), [(3, 5)])
    job.run()
    assert (job.is_done, job.error) == (True, None)
    env.crash()
    assert {name: env.read_file(f"/d/{name}") for name in env.listdir("/d")} == {
        "log": b"log",
        "index": b"index",
        "epochs": b"0\n1\n3 5\n",
    }


def test_a_failure_of_any_sync_is_recorded() -> None:
    operation, error = 0, True
    while error:
        env = new_env()
        job = new_job(env)
        job.include_epochs(LeaderEpochCheckpointFile(env, "/d/epochs"), [(3, 5)])
        env.inject(nth(operation))
        job.run()
        assert job.is_done
        error = job.error is not None
        assert error == (env.operations > operation)
        operation += 1
    assert operation > 8


def test_deleted_files_are_skipped() -> None:
    env = new_env()
    job = new_job(env)
    job.include_epochs(LeaderEpochCheckpointFile(env, "/d/epochs"), [(3, 5)])
    env.rename("/d", "/gone")
    job.run()
    assert job.error is None
