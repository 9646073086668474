"""`stateward update`: newer templates come into a project, and nothing that a person wrote is lost."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from stateward.cli.main import app
from stateward.cli.project import init as init_command
from stateward.cli.project import project_files
from stateward.cli.project.init import init
from stateward.cli.project.layout_record import FILE, read_record
from stateward.cli.project.new import new_stream
from stateward.cli.project.project_files import NoProjectError
from stateward.cli.project.template_merge import Kind
from stateward.cli.project.update import UpdateError, apply, plan_update
from stateward.contract.process_output import UpdateExit
from stateward.contract.reading import InvalidDocumentError
from stateward.contract.storage import CorruptDocumentError, replace_file
from stateward.project.spec_schema import SCHEMA_FILE

Release = Callable[[str], Path]


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    """Makes this library another release, with templates of its own that a test may edit."""
    shipped = project_files.FOLDER

    def become(version: str) -> Path:
        folder = tmp_path / f"templates-{version}"
        shutil.copytree(shipped, folder)
        monkeypatch.setattr(project_files, "FOLDER", folder)
        monkeypatch.setattr(init_command, "version", lambda name: version)
        return folder

    return become


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: Release) -> Path:
    """A project that release 1.0 laid out."""
    folder = tmp_path / "shop"
    monkeypatch.setenv("STATEWARD_PROJECT", str(folder))
    release("1.0")
    init(folder)
    return folder


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def content(project: Path) -> dict[str, tuple[bytes, int]]:
    """Each file of a project, with the time of its last change."""
    files = sorted(file for file in project.rglob("*") if file.is_file())
    return {str(file.relative_to(project)): (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


def run(*options: str) -> Result:
    return CliRunner().invoke(app, ["update", *options])


def changes(project: Path, fresh: Path | None = None) -> dict[str, Kind]:
    """Update the project, and return what was done with its files."""
    plan = plan_update(project, fresh)
    apply(project, plan)
    return {str(change.path): change.kind for change in plan.changes}


def test_an_edit_and_a_change_of_the_template_both_survive(project: Path, release: Release) -> None:
    edit(project / "Dockerfile", "openjdk-17-jre-headless procps", "openjdk-17-jre-headless procps git")
    newer = release("2.0")
    edit(
        newer / "project" / "Dockerfile.j2",
        "COPY --chown=stateward dags",
        "COPY --chown=stateward --link dags",
    )
    edit(newer / "docker-compose.yaml", "restart: unless-stopped", "restart: always")

    assert changes(project) == {
        "Dockerfile": Kind.MERGED,
        "docker-compose.yaml": Kind.UPDATED,
        "requirements.txt": Kind.UPDATED,
        "requirements-dev.txt": Kind.UPDATED,
    }
    dockerfile = (project / "Dockerfile").read_text()
    assert "procps git" in dockerfile and "--link dags" in dockerfile
    compose = (project / "docker-compose.yaml").read_text()
    assert "restart: always" in compose and "\nname: shop\n" in compose
    assert "stateward[embedded]==2.0" in (project / "requirements.txt").read_text()


def test_a_second_update_changes_nothing(project: Path, release: Release) -> None:
    edit(project / "requirements.txt", "asyncpg\n", "asyncpg\nrequests\n")
    release("2.0")
    assert run().exit_code == UpdateExit.DONE
    before = content(project)
    again = run()
    assert again.exit_code == UpdateExit.DONE and "0 files changed" in again.output
    assert content(project) == before
    assert init(project).new == ()
    assert content(project) == before


def test_a_conflict_is_marked_and_named_and_nothing_changes_until_it_is_resolved(
    project: Path, release: Release
) -> None:
    edit(project / "requirements.txt", "==1.0", ">=1.0,<1.5")
    release("2.0")
    first = run()
    assert first.exit_code == UpdateExit.CONFLICT
    assert "Conflicts in requirements.txt. Both versions are in the file" in first.stderr
    marked = (project / "requirements.txt").read_text()
    wanted = (
        "<<<<<<< yours\nstateward[embedded]>=1.0,<1.5\n||||||| template of 1.0\nstateward[embedded]==1.0\n"
        "=======\nstateward[embedded]==2.0\n>>>>>>> template of 2.0\n"
    )
    assert wanted in marked

    release("3.0")
    before = content(project)
    second = run()
    assert second.exit_code == UpdateExit.CONFLICT
    assert (
        "Nothing was changed: conflicts of an earlier update are not resolved in requirements.txt"
        in second.stderr
    )
    assert content(project) == before

    (project / "requirements.txt").write_text(marked.replace(wanted, "stateward[embedded]==2.0\n"))
    assert changes(project)["requirements.txt"] == Kind.UPDATED
    assert "stateward[embedded]==3.0" in (project / "requirements.txt").read_text()


def test_streams_are_left_alone_and_their_schema_is_made_again(project: Path, release: Release) -> None:
    new_stream(project, "refunds", topic="payments", key="order_id")
    schema = project / "include" / "streams" / SCHEMA_FILE
    right = schema.read_text()
    schema.write_text("{}\n")
    newer = release("2.0")
    for template in (newer / "stream").rglob("*.j2"):
        template.write_text("# another one\n")
    before = content(project)

    assert changes(project)[f"include/streams/{SCHEMA_FILE}"] == Kind.UPDATED
    assert schema.read_text() == right
    after = content(project)
    mine = [path for path in before if "refunds" in path]
    assert len(mine) >= 6
    assert [before[path] for path in mine] == [after[path] for path in mine]


def test_a_stream_that_cannot_be_imported_is_named_and_does_not_stop_the_update(
    project: Path, release: Release
) -> None:
    new_stream(project, "refunds", topic="payments", key="order_id")
    (project / "spark_jobs" / "refunds" / "model.py").write_text("import no_such_module\n")
    release("2.0")
    done = run()
    assert done.exit_code == UpdateExit.DONE
    assert "stream.schema.json" in done.output and "no_such_module" in done.output
    assert "==2.0" in (project / "requirements.txt").read_text()


def test_files_come_and_go_with_the_templates(project: Path, release: Release) -> None:
    edit(project / "pyproject.toml", "line-length = 110", "line-length = 90")
    (project / "dags" / "streams_yaml_check.py").unlink()
    (project / "Makefile").write_text("mine:\n")
    newer = release("1.0.1") / "project"
    (newer / "wheels" / "README.md.j2").write_text("# {{ project }}\n")
    (newer / "Makefile.j2").write_text("theirs:\n")
    for name in ("dot_dockerignore.j2", "pyproject.toml.j2"):
        (newer / name).unlink()
    edit(newer / "dags" / "streams_yaml_check.py.j2", "No DAG", "No DAG at all")

    found = changes(project)
    assert {path: kind for path, kind in found.items() if "requirements" not in path} == {
        ".dockerignore": Kind.REMOVED,
        "Makefile": Kind.KEPT,
        "dags/streams_yaml_check.py": Kind.KEPT,
        "pyproject.toml": Kind.KEPT,
        "wheels/README.md": Kind.NEW,
    }
    assert (project / "wheels" / "README.md").read_text() == "# shop\n"
    assert not (project / ".dockerignore").exists()
    assert not (project / "dags" / "streams_yaml_check.py").exists()
    assert (project / "Makefile").read_text() == "mine:\n"
    assert "line-length = 90" in (project / "pyproject.toml").read_text()
    # A file of the person's own stays so; what was decided once is not listed again.
    assert changes(project) == {"Makefile": Kind.KEPT}
    assert "dags/streams_yaml_check.py" in map(str, init(project).new)


def test_a_trial_writes_nothing(project: Path, release: Release) -> None:
    edit(project / "requirements.txt", "==1.0", ">=1.0")
    release("2.0")
    before = content(project)
    done = run("--dry-run")
    assert done.exit_code == UpdateExit.CONFLICT
    assert "There would be conflicts in requirements.txt." in done.stderr
    assert re.search(r"^updated +requirements-dev.txt$", done.output, re.MULTILINE)
    assert content(project) == before


def test_a_project_keeps_its_name_in_a_folder_of_another_name(
    project: Path, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = project.rename(project.with_name("checkout-2"))
    monkeypatch.setenv("STATEWARD_PROJECT", str(moved))
    edit(release("2.0") / "docker-compose.yaml", "restart: unless-stopped", "restart: always")
    assert changes(moved)["docker-compose.yaml"] == Kind.UPDATED
    assert "\nname: shop\n" in (moved / "docker-compose.yaml").read_text()
    assert init(moved).differ == ()
    # A name that the person has given to the services is an edit of theirs.
    edit(moved / "docker-compose.yaml", "\nname: shop\n", "\nname: store\n")
    assert changes(moved) == {}


def test_without_a_record_its_name_is_that_of_its_services(
    project: Path, release: Release, tmp_path: Path
) -> None:
    (project / FILE).unlink()
    moved = project.rename(tmp_path / "checkout-2")
    init(tmp_path / "shop")
    release("2.0")
    assert "README.md" not in changes(moved, tmp_path / "shop")
    assert "\nname: shop\n" in (moved / "docker-compose.yaml").read_text()


def test_a_project_without_a_record_says_how_to_get_one(
    project: Path, release: Release, tmp_path: Path
) -> None:
    (project / FILE).unlink()
    edit(project / "Dockerfile", "procps", "procps git")
    edit(project / ".gitignore", "/var\n", "/var\n/notes\n")
    init(tmp_path / "as-laid-out")
    (tmp_path / "as-laid-out" / FILE).unlink()
    newer = release("2.0")
    edit(
        newer / "project" / "Dockerfile.j2",
        "COPY --chown=stateward dags",
        "COPY --chown=stateward --link dags",
    )
    with pytest.raises(UpdateError, match=r"expected \.stateward\.json.*stateward update --base FOLDER"):
        plan_update(project)

    assert changes(project, tmp_path / "as-laid-out")["Dockerfile"] == Kind.MERGED
    dockerfile = (project / "Dockerfile").read_text()
    assert "procps git" in dockerfile and "--link dags" in dockerfile
    assert (project / "README.md").read_text().startswith("# shop\n")
    assert "/notes" in (project / ".gitignore").read_text()
    assert changes(project) == {}


def test_without_the_former_release_edits_are_kept_and_merged_from_then_on(
    project: Path, release: Release, tmp_path: Path
) -> None:
    (project / FILE).unlink()
    edit(project / "Dockerfile", "procps", "procps git")
    release("2.0")
    init(tmp_path / "fresh")
    # The pins of 1.0 count as edits.
    assert changes(project, tmp_path / "fresh") == {}
    assert "==1.0" in (project / "requirements.txt").read_text()

    edit(release("3.0") / "project" / "Dockerfile.j2", "slim-bookworm", "slim-trixie")
    assert changes(project)["Dockerfile"] == Kind.MERGED
    dockerfile = (project / "Dockerfile").read_text()
    assert "procps git" in dockerfile and "slim-trixie" in dockerfile


def test_init_records_only_files_that_are_as_the_templates_are(project: Path, release: Release) -> None:
    (project / FILE).unlink()
    edit(project / "Dockerfile", "procps", "procps git")
    init(project)
    record = read_record(project)
    assert record is not None and "README.md" in record.files and "Dockerfile" not in record.files
    edit(release("2.0") / "project" / "Dockerfile.j2", "slim-bookworm", "slim-trixie")
    assert changes(project)["Dockerfile"] == Kind.KEPT
    assert "procps git" in (project / "Dockerfile").read_text()


def test_init_of_a_later_release_names_the_update_and_leaves_it_to_do(
    project: Path, release: Release
) -> None:
    edit(project / "Dockerfile", "procps", "procps git")
    (project / "README.md").unlink()
    edit(release("2.0") / "project" / "Dockerfile.j2", "slim-bookworm", "slim-trixie")
    done = CliRunner().invoke(app, ["init", str(project)])
    assert "stateward update" in done.output and re.search(r"^new +README.md$", done.output, re.MULTILINE)
    assert changes(project)["Dockerfile"] == Kind.MERGED


def test_a_folder_with_work_of_its_own_is_no_former_template(
    project: Path, release: Release, tmp_path: Path
) -> None:
    (project / FILE).unlink()
    new_stream(project, "refunds", topic="payments", key="order_id")
    copy = shutil.copytree(project, tmp_path / "copy")
    empty = tmp_path / "empty"
    empty.mkdir()
    for folder in (copy, empty, project):
        with pytest.raises(UpdateError, match="expected a folder as stateward init lays it out"):
            plan_update(project, folder)
    shutil.rmtree(project / "include" / "streams")
    (project / "include" / "streams").mkdir()
    with pytest.raises(UpdateError, match="expected a folder as stateward init lays it out"):
        plan_update(project, project)


def test_an_update_that_was_interrupted_is_repeated(
    project: Path, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(project / "Dockerfile", "procps", "procps git")
    edit(project / "requirements.txt", "asyncpg\n", "asyncpg\nrequests\n")
    edit(release("2.0") / "project" / "Dockerfile.j2", "slim-bookworm", "slim-trixie")
    written: list[Path] = []

    def full_disk(path: Path, text: bytes) -> None:
        if written:
            raise OSError(28, "No space left on device")
        written.append(path)
        replace_file(path, text)

    used = "stateward.cli.project.update.replace_file"
    monkeypatch.setattr(used, full_disk)
    with pytest.raises(OSError, match="No space left"):
        changes(project)
    monkeypatch.setattr(used, replace_file)
    assert written == [project / "Dockerfile"]
    changes(project)
    dockerfile, requirements = ((project / name).read_text() for name in ("Dockerfile", "requirements.txt"))
    assert "procps git" in dockerfile and "slim-trixie" in dockerfile
    assert "requests" in requirements and "==2.0" in requirements
    assert changes(project) == {}


def test_modes_links_and_bytes_of_a_file_are_the_persons(
    project: Path, release: Release, tmp_path: Path
) -> None:
    (project / "Dockerfile").chmod(0o750)
    (project / ".env.example").rename(tmp_path / "elsewhere")
    (project / ".env.example").symlink_to(tmp_path / "elsewhere")
    (project / "README.md").write_bytes((project / "README.md").read_bytes() + b"caf\xe9\n")
    newer = release("2.0")
    edit(newer / "project" / "Dockerfile.j2", "slim-bookworm", "slim-trixie")
    edit(newer / "project" / "README.md.j2", "Streams supervised", "All streams supervised")
    (newer / "env.example").write_text("A=1\n")
    found = changes(project)
    assert (found["Dockerfile"], found["README.md"]) == (Kind.UPDATED, Kind.MERGED)
    assert found[".env.example"] == Kind.KEPT
    assert (project / ".env.example").is_symlink() and (tmp_path / "elsewhere").read_text() != "A=1\n"
    assert (project / "Dockerfile").stat().st_mode & 0o777 == 0o750
    assert (project / "README.md").read_bytes().endswith(b"caf\xe9\n")


def test_what_cannot_be_merged_is_named_and_nothing_is_changed(
    project: Path, release: Release, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (project / "requirements.txt").write_bytes(b"\0\1")
    release("2.0")
    before = content(project)
    with pytest.raises(UpdateError, match=r"requirements.txt: git merge-file failed.*Nothing was changed"):
        plan_update(project)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UpdateError, match=r"expected git.*Install git"):
        plan_update(project)
    assert content(project) == before


def test_a_record_that_cannot_be_read_is_named(project: Path) -> None:
    record = json.loads((project / FILE).read_text())
    (project / FILE).write_text(json.dumps({**record, "since": "later"}))
    assert read_record(project) is not None
    (project / FILE).write_text(json.dumps({**record, "version": 2}))
    with pytest.raises(InvalidDocumentError, match=r"expected version 1, found 2.*release of stateward"):
        plan_update(project)
    (project / FILE).write_text("<<<<<<< HEAD\n")
    with pytest.raises(CorruptDocumentError, match="Restore it from version control"):
        plan_update(project)


def test_a_folder_that_is_no_project_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoProjectError, match="stateward init FOLDER"):
        plan_update(tmp_path)
