"""Every failure of the documentation check is provoked once, from a tree that passes."""

import contextlib
import io
import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SCRIPTS))
import check_docs  # noqa: E402

ENGLISH = """# Guide

[English](guide.md) | [한국어](ko/guide.md)

See [the start](../README.md#start), [here](#ending-processes) and [a script](../scripts/run.sh).

## Ending processes

```sh
# no heading, and [no link](nowhere.md)
```
"""
KOREAN = """# 안내

[English](../guide.md) | [한국어](guide.md)

[시작](../../README.ko.md#시작), [여기](#프로세스-끝내기), [스크립트](../../scripts/run.sh).

## 프로세스 끝내기

```sh
# 제목이 아님
```
"""


class Repository(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("README.md", "# Home\n\n[English](README.md) | [한국어](README.ko.md)\n\n## Start\n")
        self.write("README.ko.md", "# 홈\n\n[English](README.md) | [한국어](README.ko.md)\n\n## 시작\n")
        self.write("docs/guide.md", ENGLISH)
        self.write("docs/ko/guide.md", KOREAN)
        self.write("scripts/run.sh", "true\n")
        self.save(
            {
                "schema": "codespace-documentation/v1",
                "documents": [
                    {"id": "home", "source": "README.md", "translation": "README.ko.md"},
                    {"id": "guide", "source": "docs/guide.md", "translation": "docs/ko/guide.md"},
                ],
            }
        )
        self.assertEqual(self.run_tool("record")[0], 0)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def replace(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text(encoding="utf-8")
        self.assertIn(old, text)
        self.write(path, text.replace(old, new))

    def registry(self) -> dict:
        return json.loads((self.root / "docs/translations.json").read_text(encoding="utf-8"))

    def save(self, registry: dict) -> None:
        self.write("docs/translations.json", json.dumps(registry))

    def run_tool(self, *arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = check_docs.main([*arguments, "--root", str(self.root)])
            except SystemExit as exit_:
                code = exit_.code
        return code, out.getvalue(), err.getvalue()

    def assert_passes(self) -> None:
        self.assertEqual(self.run_tool(), (0, "2 paired documents\n", ""))

    def assert_fails(self, *words: str) -> None:
        """Fails with one line per expected text and no other."""
        code, out, err = self.run_tool("check")
        self.assertEqual((code, out), (1, ""), err)
        self.assertEqual(len(err.splitlines()), len(words), err)
        for word in words:
            self.assertIn(word, err)

    def recorded_and_fails(self, *words: str) -> None:
        """The same after a record: what hashes cannot hide."""
        self.assertEqual(self.run_tool("record")[0], 0)
        self.assert_fails(*words)


class Check(Repository):
    def test_a_recorded_tree_passes_and_tells_the_number_of_pairs(self) -> None:
        self.assert_passes()
        self.assertEqual(self.run_tool("check"), (0, "2 paired documents\n", ""))

    def test_a_missing_record_fails(self) -> None:
        (self.root / "docs/translations.json").unlink()
        self.assert_fails("failed to read docs/translations.json")

    def test_a_record_that_is_no_json_fails(self) -> None:
        self.write("docs/translations.json", "{")
        self.assert_fails("failed to read docs/translations.json")

    def test_an_unknown_schema_fails(self) -> None:
        self.save(self.registry() | {"schema": "codespace-documentation/v2"})
        self.assert_fails("its schema is not codespace-documentation/v1")

    def test_documents_of_the_wrong_kind_fail(self) -> None:
        self.save(self.registry() | {"documents": ["guide"]})
        self.assert_fails("documents is not a list of objects")

    def test_each_missing_field_fails(self) -> None:
        whole = self.registry()
        for field in check_docs.FIELDS:
            with self.subTest(field=field):
                broken = json.loads(json.dumps(whole))
                del broken["documents"][1][field]
                self.save(broken)
                code, _, err = self.run_tool("check")
                self.assertEqual(code, 1)
                self.assertIn(f"{field} is missing", err)

    def test_a_duplicate_id_fails(self) -> None:
        registry = self.registry()
        registry["documents"][1]["id"] = "home"
        self.save(registry)
        self.assert_fails("the id home is registered twice")

    def test_a_path_that_two_entries_share_fails(self) -> None:
        registry = self.registry()
        registry["documents"].append(registry["documents"][1] | {"id": "other"})
        self.save(registry)
        self.assert_fails("the path docs/guide.md is registered twice", "the path docs/ko/guide.md is registered twice")

    def test_a_missing_translation_fails(self) -> None:
        (self.root / "docs/ko/guide.md").unlink()
        self.assert_fails("docs/ko/guide.md is no page", "ko/guide.md leads to no file")

    def test_a_missing_source_fails(self) -> None:
        (self.root / "docs/guide.md").unlink()
        self.assert_fails("docs/guide.md is no page", "../guide.md leads to no file")

    def test_a_stale_hash_of_either_language_fails(self) -> None:
        for path in ("docs/guide.md", "docs/ko/guide.md"):
            with self.subTest(path=path):
                text = (self.root / path).read_text(encoding="utf-8")
                self.write(path, text + "\nmore\n")
                self.assert_fails(f"{path} has changed since it was recorded")
                self.write(path, text)

    def test_a_missing_language_line_in_either_file_fails(self) -> None:
        for path in ("docs/guide.md", "docs/ko/guide.md"):
            with self.subTest(path=path):
                text = (self.root / path).read_text(encoding="utf-8")
                self.replace(path, " | ", " / ")
                self.recorded_and_fails(f"{path}: no line [English]")
                self.write(path, text)

    def test_a_language_line_that_leads_to_another_page_fails(self) -> None:
        self.replace("docs/ko/guide.md", "[English](../guide.md)", "[English](../../README.md)")
        self.recorded_and_fails("docs/ko/guide.md: no line [English]")

    def test_a_language_line_inside_a_code_block_does_not_count(self) -> None:
        line = "[English](guide.md) | [한국어](ko/guide.md)\n"
        self.replace("docs/guide.md", line, "")
        self.replace("docs/guide.md", "# no heading", line + "# no heading")
        self.recorded_and_fails("docs/guide.md: no line [English]")

    def test_a_recorded_anchor_that_is_gone_fails(self) -> None:
        registry = self.registry()
        registry["documents"][1]["anchors"].append("an-old-heading")
        self.save(registry)
        self.assert_fails("the recorded anchor #an-old-heading is gone")

    def test_a_link_to_no_file_fails(self) -> None:
        self.replace("docs/guide.md", "run.sh", "walk.sh")
        self.recorded_and_fails("docs/guide.md:5: ../scripts/walk.sh leads to no file")

    def test_a_link_to_no_heading_fails(self) -> None:
        self.replace("docs/guide.md", "README.md#start", "README.md#stop")
        self.recorded_and_fails("docs/guide.md:5: ../README.md#stop leads to no heading")

    def test_a_link_to_no_heading_of_its_own_page_fails(self) -> None:
        self.replace("docs/ko/guide.md", "(#프로세스-끝내기)", "(#프로세스)")
        self.recorded_and_fails("docs/ko/guide.md:5: #프로세스 leads to no heading")

    def test_a_link_out_of_the_repository_fails(self) -> None:
        self.replace("docs/guide.md", "../scripts/run.sh", "../../elsewhere")
        self.recorded_and_fails("../../elsewhere leads out of the repository")

    def test_reference_image_and_html_links_are_looked_at_too(self) -> None:
        more = '\n[x]: gone-1.md\n![alt](gone-2.png "title")\n<a href="gone-3.md">x</a>\n[![b](gone-4.svg)](<gone 5.md>)\n'
        self.write("docs/guide.md", ENGLISH + more)
        self.recorded_and_fails("gone-1.md leads", "gone-2.png leads", "gone-3.md leads", "gone-4.svg leads", "gone 5.md leads")

    def test_outside_links_and_links_in_code_are_left_alone(self) -> None:
        more = "\n<https://example.org> [x](https://example.org/#y) [m](mailto:a@example.org) `[c](gone.md)` ``[`](gone.md)``\n"
        self.write("docs/guide.md", ENGLISH + more)
        self.assertEqual(self.run_tool("record")[0], 0)
        self.assert_passes()

    def test_a_page_without_an_entry_fails(self) -> None:
        for path in ("docs/new.md", "docs/ko/deep/new.md", "README.ja.md"):
            with self.subTest(path=path):
                self.write(path, "# New\n")
                self.assert_fails(f"{path}: not registered in docs/translations.json")
                (self.root / path).unlink()

    def test_different_heading_levels_fail(self) -> None:
        self.replace("docs/ko/guide.md", "## 프로세스", "### 프로세스")
        self.recorded_and_fails("guide: the headings differ in level or number: [1, 2] and [1, 3]")

    def test_a_heading_that_only_one_language_has_fails(self) -> None:
        self.write("docs/guide.md", ENGLISH + "\n## More\n")
        self.recorded_and_fails("guide: the headings differ")

    def test_a_different_number_of_code_blocks_fails(self) -> None:
        self.write("docs/guide.md", ENGLISH + "\n~~~\nx\n~~~\n")
        self.recorded_and_fails("guide: 2 code blocks in English, 1 in Korean")

    def test_a_fence_that_is_never_closed_fails(self) -> None:
        self.write("docs/guide.md", ENGLISH.removesuffix("```\n"))
        self.recorded_and_fails("docs/guide.md: a code fence is never closed")

    def test_a_page_that_is_no_utf8_fails(self) -> None:
        (self.root / "docs/latin.md").write_bytes(b"\xe9")
        self.assert_fails("docs/latin.md: failed to read the page")

    def test_check_refuses_an_id(self) -> None:
        code, _, err = self.run_tool("check", "--id", "guide")
        self.assertEqual(code, 2)
        self.assertIn("--id belongs to record", err)


class Record(Repository):
    def test_anchors_of_both_languages_are_recorded_sorted(self) -> None:
        anchors = self.registry()["documents"][1]["anchors"]
        self.assertEqual(anchors, ["ending-processes", "guide", "안내", "프로세스-끝내기"])

    def test_one_id_leaves_the_others_as_they_are(self) -> None:
        self.write("README.md", (self.root / "README.md").read_text() + "\nmore\n")
        self.write("docs/guide.md", ENGLISH + "\nmore\n")
        self.assertEqual(self.run_tool("record", "--id", "guide"), (0, "recorded 1 documents\n", ""))
        self.assert_fails("README.md has changed")

    def test_an_unknown_id_fails_and_writes_nothing(self) -> None:
        before = self.registry()
        code, _, err = self.run_tool("record", "--id", "nobody")
        self.assertEqual(code, 1)
        self.assertIn("failed to record nobody", err)
        self.assertEqual(self.registry(), before)

    def test_a_missing_page_fails_and_writes_nothing(self) -> None:
        before = self.registry()
        shutil.rmtree(self.root / "docs/ko")
        code, _, err = self.run_tool("record")
        self.assertEqual(code, 1)
        self.assertIn("failed to record guide", err)
        self.assertEqual(self.registry(), before)

    def test_fields_of_others_stay(self) -> None:
        registry = self.registry()
        registry["documents"][0]["section"] = "start"
        self.save(registry)
        self.assertEqual(self.run_tool("record")[0], 0)
        self.assertEqual(self.registry(), registry)


class Slugs(unittest.TestCase):
    def test_slugs_are_those_of_github(self) -> None:
        cases = {
            "Ending processes": "ending-processes",
            "`exec` and its answer": "exec-and-its-answer",
            "What is left? Nothing!": "what-is-left-nothing",
            "A & B": "a--b",
            "snake_case and -- dashes": "snake_case-and----dashes",
            "프로세스를 끝내기 (전체)": "프로세스를-끝내기-전체",
            "[a link](page.md) here": "a-link-here",
            "1.2 Numbers": "12-numbers",
        }
        for title, expected in cases.items():
            with self.subTest(title=title):
                self.assertEqual(check_docs.markdown.slug(title), expected)

    def test_the_second_heading_of_a_name_gets_a_number(self) -> None:
        self.assertEqual(check_docs.markdown.parse("# A\n## A\n## A #\n").slugs, ["a", "a-1", "a-2"])

    def test_a_longer_fence_holds_a_shorter_one(self) -> None:
        page = check_docs.markdown.parse("````\n```\n# no\n```\n````\n# yes\n")
        self.assertEqual((page.fences, page.slugs, page.open_fence), (1, ["yes"], False))


if __name__ == "__main__":
    unittest.main()
