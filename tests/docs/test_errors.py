"""Checks that errors, the tree in their docstring, their pages and their messages agree.

The tests read the messages from the source, so a message that only a rare crash raises obeys the same rules.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

import leasehold
from leasehold import errors
from leasehold.errors import Conflict, InvalidInput, LeaseholdError

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/leasehold"
FOLDER = ROOT / "docs/reference/errors"
INDEX = FOLDER / "README.md"
PAGES = {page.stem: page.read_text() for page in sorted(FOLDER.glob("LH-*.md"))}
KINDS: dict[str, type[LeaseholdError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, LeaseholdError)
}
OWN_CODES = {name: vars(kind)["code"] for name, kind in KINDS.items() if "code" in vars(kind)}
ROOT_CODE = LeaseholdError.code

CODE = re.compile(r"LH-\d{4}")
GAP = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Marks a value in a message that the source does not show."""


# ------------------------------------------------------------------------------------------------ what is raised


@dataclass(frozen=True)
class Site:
    """A place in the source that makes an error, with its text as far as it is written there."""

    place: str
    kind: type[LeaseholdError]
    code: str
    happened: str
    fix: str | None

    @property
    def message(self) -> str:
        return f"{self.code}: {self.happened} {self.fix}"


# Parsed and walked once: every process of a test run imports this module.
TREES = [(file, ast.parse(file.read_text())) for file in sorted(SOURCE.rglob("*.py"))]
NODES = [(file, node) for file, tree in TREES for node in ast.walk(tree) if isinstance(node, ast.Call | ast.Constant)]


def constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                yield name, text


CONSTANTS = {name: text for _, tree in TREES for name, text in constants(tree)}


def text_of(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part) for part in parts)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return text_of(left) + text_of(right)
        case ast.Name(id=name) | ast.FormattedValue(value=ast.Name(id=name), conversion=-1):
            return CONSTANTS.get(name, GAP)
        case _:
            return GAP


def named(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def given_to(call: ast.Call) -> dict[str, str]:
    return {keyword.arg: text_of(keyword.value) for keyword in call.keywords if keyword.arg}


def sites() -> Iterator[Site]:
    for file, node in NODES:
        if isinstance(node, ast.Call) and (name := named(node.func)) in KINDS:
            given = given_to(node)
            yield Site(
                place=f"{file.relative_to(ROOT)}:{node.lineno}",
                kind=KINDS[name],
                code=given.get("code", KINDS[name].code),
                happened=text_of(node.args[0]) if node.args else GAP,
                fix=given.get("fix"),
            )


def findings() -> Iterator[str]:
    """Yields the findings of `leasehold doctor` as they are printed: mark, check, finding, code, fix."""
    for _, node in NODES:
        if isinstance(node, ast.Call) and named(node.func) == "Finding" and "code" in (given := given_to(node)):
            check, _, text = map(text_of, node.args)
            yield f"{GAP} {check} {text} {given['code']} {given['fix']}"


def refusals_in_sql() -> Iterator[Site]:
    """Yields the errors of the public SQL functions: `leasehold.refuse('LH-…', message, fix)`. Gaps: % and ||."""
    kinds = {kind.code: kind for kind in KINDS.values() if "code" in vars(kind)}
    for file in sorted(SOURCE.rglob("migrations/*.sql")):
        text = file.read_text()
        for match in re.finditer(r"perform leasehold\.refuse\((.*?)\);\n", text, re.DOTALL):
            (code, _), *said = re.findall(r"'((?:[^']|'')*)'(\s*\|\|\s*[a-z])?", match[1])
            sentences = [
                re.sub(r"%[sL]", GAP, part.replace("''", "'")) + (GAP if appended else "")
                for part, appended in said
                if " " in part
            ]
            line = text.count("\n", 0, match.start()) + 1
            place = f"{file.relative_to(ROOT)}:{line}"
            yield Site(place, kinds[code], code, sentences[0], " ".join(sentences[1:]) or GAP)


def strings() -> Iterator[str]:
    for _, node in NODES:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


# Errors of another process: their text is checked where it is made.
ALL_SITES = list(sites())
PASSED_ON = [site for site in ALL_SITES if (site.happened, site.fix) == (GAP, GAP)]
SITES = [*(site for site in ALL_SITES if site not in PASSED_ON), *refusals_in_sql()]
LOGGED = [re.sub(r"%[sdg]", GAP, text) for text in strings() if CODE.match(text) and ": " in text]
SAID = [*(site.message for site in SITES), *LOGGED, *findings()]
"""Every message with a code in the source."""


def test_every_class_except_base_classes_is_raised_somewhere() -> None:
    assert len(SITES) > 80
    assert {site.kind for site in SITES} == set(KINDS.values()) - {LeaseholdError, Conflict}


def test_only_what_another_process_raised_is_passed_on_unread() -> None:
    assert {site.place.partition(":")[0] for site in PASSED_ON} <= {"src/leasehold/cli/app_description.py"}


def test_every_error_says_what_to_do() -> None:
    assert [site.place for site in SITES if not site.fix] == []


def test_what_refuses_says_that_nothing_was_changed() -> None:
    refusals = [site for site in SITES if issubclass(site.kind, InvalidInput | Conflict)]
    assert [site.place for site in refusals if not re.search(r"\b[Nn]othing was \w+", site.message)] == []


def test_what_happened_is_a_whole_sentence() -> None:
    assert [site.place for site in SITES if site.happened[-1] not in f".?{GAP}"] == []


# ---------------------------------------------------------------------------------------------------- the tree


@dataclass(frozen=True)
class Drawn:
    name: str
    parent: str | None
    codes: tuple[str, ...]


def drawn(docstring: str) -> dict[str, Drawn]:
    """Four characters to the right is a generation down; a line without a name has one more code of the one above."""
    found: dict[str, Drawn] = {}
    path: list[str] = []
    for line in docstring.split("\n\n")[1].splitlines():
        branch, name, rest = re.fullmatch(r"([│├└─ ]*)(\w*)(.*)", line).groups()  # type: ignore[union-attr]
        if re.fullmatch(r"[A-Z][a-z]\w+", name):
            path[len(branch) // 4 :] = [name]
            found[name] = Drawn(name, path[-2] if len(path) > 1 else None, tuple(CODE.findall(rest)))
        else:
            last = found[path[-1]]
            found[last.name] = Drawn(last.name, last.parent, (*last.codes, *CODE.findall(line)))
    return found


TREE = drawn(inspect.cleandoc(errors.__doc__ or ""))


def test_the_tree_draws_every_class_and_no_other() -> None:
    assert set(TREE) == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_the_tree_draws_whose_child_a_class_is(name: str) -> None:
    parent = KINDS[name].__bases__[0].__name__
    assert TREE[name].parent == (None if KINDS[name] is LeaseholdError else parent)


@pytest.mark.parametrize("name", KINDS)
def test_the_tree_gives_a_class_the_codes_that_it_is_raised_with(name: str) -> None:
    at_sites = {site.code for site in SITES if site.kind is KINDS[name]}
    assert set(TREE[name].codes) == ({OWN_CODES.get(name, ROOT_CODE)} | at_sites) - {ROOT_CODE}


def test_no_two_classes_share_a_code() -> None:
    codes = [*OWN_CODES.values(), *{site.code for site in SITES} - set(OWN_CODES.values())]
    assert len(codes) == len(set(codes))
    given = {code: {site.kind for site in SITES if site.code == code} for code in codes}
    assert [code for code, kinds in given.items() if len(kinds) > 1] == []


# ---------------------------------------------------------------------------------------------------- the pages

CODES = {code for text in strings() for code in CODE.findall(text)}
CLASS_OF = {code: name for name, code in OWN_CODES.items()} | {site.code: site.kind.__name__ for site in SITES}
RAISED = sorted(PAGES.keys() & CLASS_OF.keys())


def table(page: str) -> list[list[str]]:
    rows = re.findall(r"^\| (.+) \|$", page, re.MULTILINE)
    return [re.split(r" \| ", row) for row in rows]


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert set(PAGES) == CODES


@pytest.mark.parametrize("code", PAGES)
def test_the_title_of_a_page_names_its_code_and_class(code: str) -> None:
    title = PAGES[code].splitlines()[0]
    assert re.fullmatch(rf"# {code} · .+", title)
    assert title == f"# {code} · {CLASS_OF[code]}" if code in CLASS_OF else title.rpartition(" ")[2] not in KINDS


@pytest.mark.parametrize("code", PAGES)
def test_a_page_says_what_was_changed_and_who_raises_it(code: str) -> None:
    assert re.findall(r"^\| (Changed|Exit code|Raised by) \| .", PAGES[code], re.MULTILINE) == [
        "Changed",
        "Exit code",
        "Raised by",
    ]


@pytest.mark.parametrize("code", RAISED)
def test_a_page_names_the_class_to_catch_and_its_parent(code: str) -> None:
    kind = KINDS[CLASS_OF[code]]
    home = "leasehold" if kind.__name__ in leasehold.__all__ else "leasehold.errors"
    parent = kind.__bases__[0]
    child = "" if parent in (LeaseholdError, Exception) else f", an? `{parent.__name__}`"
    assert re.search(rf"^\| Class \| `{home}\.{kind.__name__}`{child} \|$", PAGES[code], re.MULTILINE)


@pytest.mark.parametrize("code", RAISED)
def test_a_page_and_the_index_give_the_exit_code_of_the_command_line(code: str) -> None:
    from leasehold.operations.statuses import exit_code

    expected = exit_code(KINDS[CLASS_OF[code]]("", fix=""))
    assert re.findall(r"^\| Exit code \| (\d+)\b", PAGES[code], re.MULTILINE) == [f"{expected}"]
    assert [row[3] for row in table(INDEX.read_text()) if row[0] == f"[{code}]({code}.md)"] == [f"{expected}"]


@pytest.mark.parametrize("code", sorted(set(PAGES) - {ROOT_CODE}))
def test_the_messages_on_a_page_are_ones_that_the_source_says(code: str) -> None:
    said = [text for text in SAID if code in text]
    block = re.search(r"^```text\n(.+?)\n```$", PAGES[code], re.MULTILINE | re.DOTALL)
    assert block is not None
    for shown in block[1].split("\n\n"):
        message = " ".join(shown.split())
        assert any(fits(message, template) for template in said), message


def fits(message: str, template: str) -> bool:
    return bool(re.fullmatch(re.escape(template).replace(GAP, ".*"), message))


def test_the_index_lists_exactly_the_pages() -> None:
    listed = [(row[0], row[1]) for row in table(INDEX.read_text()) if len(row) == 4 and CODE.search(row[0])]
    assert listed == [
        (f"[{code}]({code}.md)", f"`{CLASS_OF[code]}`" if code in CLASS_OF else "–") for code in sorted(PAGES)
    ]


def test_the_index_draws_the_tree_of_the_source() -> None:
    assert inspect.cleandoc(errors.__doc__ or "").split("\n\n")[1] in INDEX.read_text()


def test_every_command_that_a_page_or_a_message_names_exists() -> None:
    from leasehold.cli import app

    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    texts = [*PAGES.values(), INDEX.read_text()]
    named_on_pages = {name for text in texts for name in re.findall(r"`leasehold ([a-z][a-z-]+)", text)}
    named_in_messages = {name for site in SITES for name in re.findall(r"[:`] ?leasehold ([a-z-]+)", site.message)}
    assert len(named_on_pages) > 5
    assert (named_on_pages | named_in_messages) - set(known) == set()
