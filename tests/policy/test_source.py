"""Reading policies: every mistake is told with its file and line, and nothing that is half right is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.policy.source import PolicyError, read_folder, shipped_folder, split
from tests.policy.folder import ACTIONS, copied, edited

PERMIT = "permit (principal, action, resource)"


def told(folder: Path) -> tuple[str, ...]:
    with pytest.raises(PolicyError) as caught:
        read_folder(folder, ACTIONS)
    return caught.value.mistakes


def test_statements_end_at_a_semicolon_outside_strings_and_comments() -> None:
    text = (
        '// a; b\n\n@id("x;\\";") // c;\npermit (principal, action, resource);\n\n'
        "  forbid (principal,\n action, resource)  ;  // d\n"
    )
    assert [(one.line, one.text.count(";")) for one in split("f", text)] == [(3, 4), (6, 1)]
    assert [one.line for one in split("f", "permit (principal);\n\nforbid (")] == [1, 3]
    assert not list(split("f", "// nothing;\n\n"))


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (f'\n@id("a")\n{PERMIT} when {{ foo }};', 2, "invalid variable: foo"),
        (f'@id("a")\n{PERMIT};\n@id("b")\n{PERMIT} when {{ resource.nothing == 1 }};', 3, "nothing"),
        (f'@id("a")\n{PERMIT} when {{ context.model == "x" }};', 1, "model"),
        ('@id("a")\npermit (principal == Usr::"x", action, resource);', 1, "Usr"),
        ('@id("a")\npermit (principal, action == Action::"threads.create", resource);', 1, "threads.create"),
        (f"{PERMIT};", 1, "needs an ID"),
        (f'@id("A b")\n{PERMIT};', 1, "needs an ID"),
        (f'@id("tenants")\n{PERMIT};', 1, "is taken in tenants.cedar"),
        ('@id("a")\npermit (principal == ?principal, action, resource);', 1, "must be one policy"),
        (f'@id("a")\n{PERMIT}', 1, "unexpected end of input"),
        (";", 1, ""),
    ],
)
def test_a_mistake_in_a_policy_is_told_with_file_and_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    folder = copied(tmp_path)
    (folder / "zz.cedar").write_text(text)
    mistakes = told(folder)
    assert mistakes[0].startswith(f"zz.cedar:{line}: ")
    assert what in "\n".join(mistakes)


def test_mistakes_in_several_files_are_told_together(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    (folder / "access.cedar").write_text("permit (")
    (folder / "tools.cedar").write_text(f"{PERMIT};")
    assert [mistake.partition(":")[0] for mistake in told(folder)] == ["access.cedar", "tools.cedar"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("entity Role;", "entity Role = ;", 9),
        ("tenant: Tenant,", "tenant: Tenent,", 12),
        ("model?: String,", "model?: Strin,", 30),
        ("stream: Bool,", "stream Bool,", 30),
    ],
)
def test_a_mistake_in_the_schema_is_told_with_its_line(tmp_path: Path, old: str, new: str, line: int) -> None:
    (mistake,) = told(edited(tmp_path, "schema.cedarschema", old, new))
    assert mistake.startswith(f"schema.cedarschema:{line}: ")


def test_a_schema_without_a_kind_of_object_is_refused(tmp_path: Path) -> None:
    (mistake,) = told(edited(tmp_path, "schema.cedarschema", ", VectorStoreBatch", ""))
    assert mistake.startswith("schema.cedarschema:")


def test_a_folder_without_policies_or_schema_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in told(tmp_path)[0]
    (tmp_path / "schema.cedarschema").write_text((shipped_folder() / "schema.cedarschema").read_text())
    assert "holds no policy" in told(tmp_path)[0]


def test_the_shipped_policies_are_those_of_the_checkout() -> None:
    assert shipped_folder() == Path(__file__).parents[2] / "policies"
    assert "tenants" in read_folder(shipped_folder(), ACTIONS).ids
