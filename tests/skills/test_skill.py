"""A skill's folder: every file with its digest, its size and its media type, and what is no skill."""

import hashlib
import os
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_mcp.skills import skill
from django_mcp.skills.skill import Folder, read_folder
from tests.skills.conftest import Write, skill_md


def read(where: Path) -> Folder:
    return read_folder(where.name, where)


def test_every_file_is_told_of_once_with_its_uri_digest_and_size(write: Write) -> None:
    files = {"references/visa rules.md": "# Visa é\r\n", "a.bin": b"\x00\xff", "empty.txt": b""}
    where = write("plan-a-trip", files)

    entry = read(where).entry

    said = {each["uri"]: (each["digest"], each["size"]) for each in entry["resources"]}
    assert list(said) == [
        "skill://plan-a-trip/SKILL.md",
        "skill://plan-a-trip/a.bin",
        "skill://plan-a-trip/empty.txt",
        "skill://plan-a-trip/references/visa%20rules.md",
    ]
    for path, uri in {"a.bin": "a.bin", "references/visa rules.md": "references/visa%20rules.md"}.items():
        data = (where / path).read_bytes()
        assert said[f"skill://plan-a-trip/{uri}"] == (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))
    assert entry["uri"] == "skill://plan-a-trip/SKILL.md"
    assert entry["frontmatter"]["name"] == "plan-a-trip"


def test_a_file_has_the_media_type_of_its_name_or_else_of_its_content(write: Write, subtests: pytest.Subtests) -> None:
    for name, data, media_type in [
        ("a.md", b"# a", "text/markdown"),
        ("a.MD", b"# a", "text/markdown"),
        ("a.py", b"pass", "text/x-python"),
        ("a.json", b"{}", "application/json"),
        ("a.yaml", b"a: b", "application/yaml"),
        ("a.ts", b"let a", "text/x-typescript"),
        ("a.png", b"\x89PNG", "image/png"),
        ("a.svg", b"<svg/>", "image/svg+xml"),
        ("a.tar.gz", b"\x1f\x8b", "application/gzip"),
        ("LICENSE", b"Do as you like.", "text/plain"),
        ("data", b"\xff\xfe", "application/octet-stream"),
    ]:
        with subtests.test(name=name, data=data, media_type=media_type):
            assert read(write("a", {name: data})).files[name].media_type == media_type


def test_text_or_bytes_a_client_gets_the_bytes_that_the_digest_covers(write: Write, subtests: pytest.Subtests) -> None:
    for data in [b"caf\xc3\xa9\r\n\xef\xbb\xbf", b"", b"\xff", b"a\0b", b"\xed\xa0\x80"]:
        with subtests.test(data=data):
            content = read(write("a", {"file": data})).files["file"].content

            assert (content.encode() if isinstance(content, str) else content) == data


def test_what_has_a_nul_in_it_is_no_text(write: Write) -> None:
    assert read(write("a", {"file": b"a\0b"})).files["file"].content == b"a\0b"


def test_what_is_hidden_and_what_python_leaves_behind_is_no_part_of_a_skill(write: Write) -> None:
    left = {".DS_Store": b"", ".git/config": b"", "scripts/__pycache__/a.cpython-311.pyc": b"", "scripts/.env": b""}

    assert set(read(write("a", {**left, "scripts/a.py": b""})).files) == {"SKILL.md", "scripts/a.py"}


def test_a_skill_md_that_is_wrong_is_named_with_what_is_wrong(write: Write, subtests: pytest.Subtests) -> None:
    for text, words in [
        ("# No front matter", "must begin with a line '---'"),
        (skill_md("another"), "has the name 'another', but its folder is called 'a'"),
        ("---\ndescription: d\n---\n", "needs a name"),
        ("---\nname: 3\ndescription: d\n---\n", "needs a name"),
        ("---\nname: a\n---\n", "needs a description"),
        ("---\nname: a\ndescription: '  '\n---\n", "needs a description"),
        ("---\nname: a\ndescription: 3\n---\n", "needs a description"),
        (skill_md("a", "d" * 1025), "a description of 1025 characters; at most 1024"),
        (skill_md("a", more=f"compatibility: {'c' * 501}\n"), "a compatibility of 501 characters; at most 500"),
        (skill_md("a", more="license: 3\n"), "a license that is not a string: 3"),
        (skill_md("a", more="metadata: words\n"), "metadata that is not a mapping"),
        (skill_md("a", more='metadata:\n  io.modelcontextprotocol/x: "1"\n'), "are reserved for the protocol"),
        (b"---\nname: a\ndescription: \xff\n---\n", "is not UTF-8"),
    ]:
        with subtests.test(text=text, words=words):
            where = write("a", {"SKILL.md": text})

            with pytest.raises(ImproperlyConfigured) as refused:
                read(where)

            assert str(where / "SKILL.md") in str(refused.value)
            assert words in str(refused.value)


def test_a_name_the_specification_does_not_allow_is_refused(write: Write, subtests: pytest.Subtests) -> None:
    for name in ["A", "a--b", "-a", "a-", "a_b", "ä", "x" * 65, "a.b"]:
        with subtests.test(name=name):
            where = write(name, {"SKILL.md": f"---\nname: '{name}'\ndescription: d\n---\n"})

            with pytest.raises(ImproperlyConfigured, match="needs a name of 1 to 64 lower-case letters"):
                read(where)


def test_what_the_author_wrote_beside_name_and_description_is_told_as_it_stands(write: Write) -> None:
    more = 'license: MIT\nallowed-tools: [Read]\nfuture-field: 1\nmetadata:\n  version: "2.0"\n'

    assert read(write("a", description="'It''s: so'", more=more)).front_matter == {
        "name": "a",
        "description": "It's: so",
        "license": "MIT",
        "allowed-tools": ["Read"],
        "future-field": 1,
        "metadata": {"version": "2.0"},
    }


def test_a_skill_of_512_files_is_served_and_one_of_513_is_refused(write: Write) -> None:
    where = write("a", {f"{number}.txt": b"" for number in range(511)})
    assert len(read(where).files) == 512

    (where / "one-more").touch()
    with pytest.raises(ImproperlyConfigured, match="more than 512 files"):
        read(where)


def test_a_skill_of_sixteen_mebibytes_is_served_and_one_of_a_byte_more_is_refused(write: Write) -> None:
    where = write("a")
    rest = skill.MAX_BYTES - (where / "SKILL.md").stat().st_size
    with (where / "large").open("wb") as file:
        file.truncate(rest)
    assert sum(each["size"] for each in read(where).entry["resources"]) == 16 * 1024 * 1024

    os.truncate(where / "large", rest + 1)
    with pytest.raises(ImproperlyConfigured, match="16,777,217 bytes"):
        read(where)


def test_a_link_that_leads_out_of_the_folder_is_refused(
    write: Write, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    (tmp_path / "secret.txt").write_text("a secret")
    (tmp_path / "secrets").mkdir()
    for name, target in {"to-a-file": "secret.txt", "to-a-folder": "secrets"}.items():
        where = write(name, {"references/b.md": "b"})
        (where / "references" / "link").symlink_to(tmp_path / target)
        with (
            subtests.test(name),
            pytest.raises(ImproperlyConfigured, match=r"a link that leads out of it: .*references/link"),
        ):
            read(where)


def test_a_link_to_a_file_of_the_same_skill_is_that_file_again(write: Write) -> None:
    where = write("a", {"one.md": "one"})
    (where / "two.md").symlink_to("one.md")

    assert read(where).files["two.md"].data == b"one"


def test_a_link_to_a_folder_is_refused_for_it_may_lead_round_and_round(write: Write) -> None:
    where = write("a", {"b/c.md": "c"})
    (where / "b" / "up").symlink_to("..")

    with pytest.raises(ImproperlyConfigured, match="link to a folder"):
        read(where)


def test_a_link_to_nothing_is_refused(write: Write, subtests: pytest.Subtests) -> None:
    for name, target in {"to-nothing": "nowhere", "to-itself": "self"}.items():
        where = write(name)
        (where / "self").symlink_to(target)
        with subtests.test(name), pytest.raises(ImproperlyConfigured, match=r"a broken link: .*/self"):
            read(where)


def test_a_pipe_is_refused_and_not_waited_for(write: Write) -> None:
    where = write("a")
    os.mkfifo(where / "pipe")

    with pytest.raises(ImproperlyConfigured, match="neither a file nor a folder"):
        read(where)


def test_a_name_that_is_no_utf_8_is_refused(write: Write) -> None:
    where = write("a")
    try:
        Path(os.fsdecode(os.fsencode(where) + b"/\xff")).touch()
    except OSError:  # a file system that does not know such names
        return

    with pytest.raises(ImproperlyConfigured, match="not UTF-8"):
        read(where)
