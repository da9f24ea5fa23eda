#!/usr/bin/env python3
"""Holds every English page and its Korean pair together, by the record in docs/translations.json.

    check_docs.py [check]            fails when a page, a pair, a link or the record is out of step
    check_docs.py record [--id ID]   writes the hashes and anchors of all pairs, or of one

The record: {"schema": "codespace-documentation/v1", "documents": [{"id", "source" (English), "translation" (Korean),
"anchors" (the heading anchors of both pages, sorted), "source_sha256", "translation_sha256" (of the files' bytes)}]}.
A new pair is added as {"id", "source", "translation"}, then recorded. Recording a page says that somebody has compared
the two languages: a hash that is stale means that one of them changed and the other was not looked at.
"""

import argparse
import hashlib
import json
import posixpath
import re
import sys
from pathlib import Path
from urllib.parse import unquote

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))
import markdown  # noqa: E402

SCHEMA = "codespace-documentation/v1"
REGISTRY = "docs/translations.json"
TO_RECORD = ("id", "source", "translation")
FIELDS = {**dict.fromkeys((*TO_RECORD, "source_sha256", "translation_sha256"), str), "anchors": list}


class RecordError(Exception):
    """The record cannot be used at all; the message finishes "failed to ..."."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Checks or records the documentation pairs.")
    parser.add_argument("action", nargs="?", choices=["check", "record"], default="check")
    parser.add_argument("--id", help="record only this document")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1], help="the repository")
    options = parser.parse_args(arguments)
    if options.action == "check" and options.id is not None:
        parser.error("--id belongs to record; check always looks at every document")
    try:
        registry = load(options.root)
        if options.action == "record":
            print(f"recorded {record(options.root, registry, options.id)} documents")
            return 0
        problems = check(options.root, registry)
    except RecordError as error:
        problems = [f"failed to {error}"]
    for problem in problems:
        print(f"check_docs: {problem}", file=sys.stderr)
    if problems:
        return 1
    print(f"{len(registry['documents'])} paired documents")
    return 0


def load(root: Path) -> dict:
    try:
        registry = json.loads((root / REGISTRY).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"read {REGISTRY}: {error}") from error
    if not isinstance(registry, dict) or registry.get("schema") != SCHEMA:
        raise RecordError(f"use {REGISTRY}: its schema is not {SCHEMA}")
    documents = registry.get("documents")
    if not isinstance(documents, list) or not all(isinstance(document, dict) for document in documents):
        raise RecordError(f"use {REGISTRY}: documents is not a list of objects")
    return registry


def record(root: Path, registry: dict, only: str | None) -> int:
    """Rewrites hashes and anchors in the file. Returns how many documents were recorded."""
    chosen = [document for document in registry["documents"] if only in (None, document.get("id"))]
    if only is not None and not chosen:
        raise RecordError(f"record {only}: no document has this id")
    for document in chosen:
        if any(not isinstance(document.get(name), str) for name in TO_RECORD):
            raise RecordError(f"record {document.get('id', '?')}: id, source and translation are needed")
        anchors: set[str] = set()
        for side in ("source", "translation"):
            try:
                content = (root / document[side]).read_bytes()
                anchors.update(markdown.parse(content.decode("utf-8")).slugs)
            except (OSError, ValueError) as error:
                raise RecordError(f"record {document['id']}: {error}") from error
            document[f"{side}_sha256"] = hashlib.sha256(content).hexdigest()
        document["anchors"] = sorted(anchors)
    text = json.dumps(registry, ensure_ascii=False, indent=2) + "\n"
    (root / REGISTRY).write_text(text, encoding="utf-8")
    return len(chosen)


def check(root: Path, registry: dict) -> list[str]:
    problems: list[str] = []
    pages = read_pages(root, problems)
    seen: dict[str, set[str]] = {"id": set(), "path": set()}
    for position, document in enumerate(registry["documents"]):
        name = document.get("id", f"document {position}")
        wrong = [key for key, kind in FIELDS.items() if not isinstance(document.get(key), kind)]
        problems += [f"{name}: {key} is missing or of the wrong kind" for key in wrong]
        if wrong:
            continue
        for kind, value in (("id", name), ("path", document["source"]), ("path", document["translation"])):
            if value in seen[kind]:
                problems.append(f"{name}: the {kind} {value} is registered twice")
            seen[kind].add(value)
        problems += check_pair(root, document, pages)
    problems += [f"{path}: not registered in {REGISTRY}" for path in sorted(pages.keys() - seen["path"])]
    for path, page in sorted(pages.items()):
        problems += check_links(root, path, page, pages)
    return problems


def read_pages(root: Path, problems: list[str]) -> dict[str, markdown.Page]:
    """Every page that must have a pair, by its path below the root."""
    pages = {}
    for file in [*sorted(root.glob("README*.md")), *sorted((root / "docs").rglob("*.md"))]:
        path = file.relative_to(root).as_posix()
        try:
            pages[path] = markdown.parse(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            problems.append(f"{path}: failed to read the page: {error}")
            continue
        if pages[path].open_fence:
            problems.append(f"{path}: a code fence is never closed")
    return pages


def check_pair(root: Path, document: dict, pages: dict[str, markdown.Page]) -> list[str]:
    problems = []
    name, paths = document["id"], (document["source"], document["translation"])
    for side, path in zip(("source", "translation"), paths, strict=True):
        if path not in pages:
            problems.append(f"{name}: {path} is no page under docs/ and no README of the root")
        elif hashlib.sha256((root / path).read_bytes()).hexdigest() != document[f"{side}_sha256"]:
            problems.append(f"{name}: {path} has changed since it was recorded; compare the pair, then record it")
    if any(path not in pages for path in paths):
        return problems
    english, korean = (pages[path] for path in paths)
    for path, page in zip(paths, (english, korean), strict=True):
        lines = [tuple(resolve(path, target)[0] for target in line) for line in page.language_lines]
        if paths not in lines:
            problems.append(f"{path}: no line [English](...) | [한국어](...) that leads to {paths[0]} and {paths[1]}")
    for anchor in sorted(set(map(str, document["anchors"])) - set(english.slugs) - set(korean.slugs)):
        problems.append(f"{name}: the recorded anchor #{anchor} is gone")
    if english.levels != korean.levels:
        problems.append(f"{name}: the headings differ in level or number: {english.levels} and {korean.levels}")
    if english.fences != korean.fences:
        problems.append(f"{name}: {english.fences} code blocks in English, {korean.fences} in Korean")
    return problems


def check_links(root: Path, path: str, page: markdown.Page, pages: dict[str, markdown.Page]) -> list[str]:
    problems = []
    for line, target in page.links:
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|//", target):
            continue
        file, fragment = resolve(path, target)
        if file.startswith("../") or file == "..":
            problems.append(f"{path}:{line}: {target} leads out of the repository")
        elif not (root / file).exists():
            problems.append(f"{path}:{line}: {target} leads to no file")
        elif fragment and file.endswith(".md") and fragment not in anchors_of(root, file, pages):
            problems.append(f"{path}:{line}: {target} leads to no heading")
    return problems


def resolve(page: str, target: str) -> tuple[str, str]:
    """A link of a page as a path below the root, and its fragment. A leading slash means the root, as on GitHub."""
    target, _, fragment = target.partition("#")
    target = unquote(target)
    joined = target.lstrip("/") if target.startswith("/") else posixpath.join(posixpath.dirname(page), target)
    return posixpath.normpath(joined) if target else page, unquote(fragment)


def anchors_of(root: Path, file: str, pages: dict[str, markdown.Page]) -> set[str]:
    """Of a page that was read already, or of another Markdown file of the repository."""
    page = pages.get(file) or markdown.parse((root / file).read_text(encoding="utf-8", errors="replace"))
    return page.anchors


if __name__ == "__main__":
    sys.exit(main())
