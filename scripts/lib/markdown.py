"""What the documentation check needs to know of a Markdown page: headings, anchors, fences, links.

Reads ATX headings (`## Title`) and fenced code as GitHub does; setext headings (underlined) are not used in this
repository. Pure functions over text, no I/O.
"""

import re
from dataclasses import dataclass, field

_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})(.*)$")
_HEADING = re.compile(r"^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_INLINE_LINK = re.compile(r"\]\(\s*(?:<([^>]*)>|([^)\s]+))(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)")
_REFERENCE = re.compile(r"^ {0,3}\[[^\]^]+\]:\s+<?([^\s>]+)>?")
_HTML_LINK = re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)=[\"']([^\"']+)[\"']", re.IGNORECASE)
_HTML_ANCHOR = re.compile(r"<a\b[^>]*?\b(?:id|name)=[\"']([^\"']+)[\"']", re.IGNORECASE)
_LANGUAGE_LINE = re.compile(r"^\[English\]\(([^)\s]+)\) \| \[한국어\]\(([^)\s]+)\)$")


@dataclass
class Page:
    """One page, read once. `levels` is the sequence of heading levels, `slugs` the anchors that headings make."""

    levels: list[int] = field(default_factory=list)
    slugs: list[str] = field(default_factory=list)
    html_anchors: set[str] = field(default_factory=set)
    fences: int = 0
    open_fence: bool = False
    links: list[tuple[int, str]] = field(default_factory=list)
    language_lines: list[tuple[str, str]] = field(default_factory=list)

    @property
    def anchors(self) -> set[str]:
        """Everything that a `#fragment` may name."""
        return set(self.slugs) | self.html_anchors


def parse(text: str) -> Page:
    page = Page()
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if fence:
            # Only the same mark, at least as long and with nothing after it, closes a fence.
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
            continue
        if mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
            page.fences += 1
            continue
        _read_line(page, number, line)
    page.open_fence = bool(fence)
    return page


def slug(title: str) -> str:
    """GitHub's anchor of a heading: link text only, lower case, no punctuation, spaces as hyphens. Hangul stays."""
    title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
    title = re.sub(r"[^\w\- ]", "", title.strip().lower())
    return title.replace(" ", "-")


def _read_line(page: Page, number: int, line: str) -> None:
    if heading := _HEADING.match(line):
        page.levels.append(len(heading[1]))
        page.slugs.append(_unique(slug(heading[2] or ""), page.slugs))
    if language := _LANGUAGE_LINE.match(line):
        page.language_lines.append((language[1], language[2]))
    prose = _CODE_SPAN.sub("", line)
    page.html_anchors.update(_HTML_ANCHOR.findall(prose))
    targets = [angle or plain for angle, plain in _INLINE_LINK.findall(prose)]
    targets += _REFERENCE.findall(prose) + _HTML_LINK.findall(prose)
    page.links += [(number, target) for target in targets]


def _unique(base: str, taken: list[str]) -> str:
    """The second heading of a name is `name-1`, the third `name-2`."""
    candidate, count = base, 0
    while candidate in taken:
        count += 1
        candidate = f"{base}-{count}"
    return candidate
