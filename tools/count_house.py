"""Counts how readable the code is, on this or any other checkout.

    python tools/count_house.py
    python tools/count_house.py --at ../old-checkout
    python tools/count_house.py --before ../old-checkout

Prints one Markdown row per measure; with `--before`, the rows of the table in docs/architecture.md. The script reads
source files only, so it also counts a checkout whose dependencies are not installed.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path

LONG_FILE, LONG_FUNCTION = 400, 40
MANY_METHODS, MANY_ATTRIBUTES = 20, 12
# Without "whose": "claims whose lease ran out" names its subject.
WHO = re.compile(r"\b(?:who|whoever|whom|nobody|somebody|someone|anybody|everybody)\b", re.IGNORECASE)
WHAT = re.compile(r"\b(?:what|whatever)\b", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z][A-Za-z'’]*")
SQL_COMMENT = re.compile(r"--(.*)$", re.MULTILINE)
SCHEME = re.compile(r"\.scheme\b|urlsplit|urlparse|startswith\(\(?\"postgres\w*:/|[\"']postgres(?:ql)?(?:\+\w+)?://")
DRIVERS = {"asyncpg", "psycopg", "sqlalchemy"}
ENGINES = "leasehold.engines"
ENGINE_FOR = {f"{ENGINES}.{name}" for name in ("engine_for", "DEFAULT_URL", "DEFAULT_SCHEMA")}
CHOOSES_ENGINE = {"url", "schema", "passed"}
# They read the addresses of pages and servers. A contract keeps them from every engine.
WEB = ("leasehold.api", "leasehold.console")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A Python file and its syntax tree."""

    path: Path
    name: str

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    def functions(self) -> Iterator[Function]:
        return (node for node in self.nodes if isinstance(node, Function))

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in self.nodes if isinstance(node, ast.ClassDef))

    def prose(self) -> Iterator[str]:
        """Yields the docstrings and the comments."""
        for node in self.nodes:
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield node.value.value
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT:
                yield token.string.lstrip("# ")

    def imports(self, *, for_types: bool) -> set[str]:
        """Returns the modules that are imported at run time, or those under `if TYPE_CHECKING`."""
        guarded = {
            id(node)
            for block in self.nodes
            if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
            for node in ast.walk(block)
        }
        return {name for node in self.nodes if (id(node) in guarded) is for_types for name in _imported(node)}


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


class House:
    """The source and the tests of one checkout."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = self._modules("src")
        self.tests = self._modules("tests")

    def _modules(self, folder: str) -> dict[str, Module]:
        found = {}
        for path in sorted((self.root / folder).rglob("*.py")):
            parts = path.relative_to(self.root / folder).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = Module(path, name)
        return found

    # ------------------------------------------------------------------------------------------------- classes

    def largest_classes(self) -> str:
        methods, attributes = Counter[str](), Counter[str]()
        for module in self.source.values():
            for node in module.classes():
                methods[node.name] = max(methods[node.name], sum(isinstance(part, Function) for part in node.body))
                attributes[node.name] = max(attributes[node.name], len(_attributes(node)))
        return (
            f"methods: {_top(methods)}; attributes: {_top(attributes)}; "
            f"past {MANY_METHODS} methods: {_past(methods, MANY_METHODS)}, "
            f"past {MANY_ATTRIBUTES} attributes set in methods: {_past(attributes, MANY_ATTRIBUTES)}"
        )

    # ------------------------------------------------------------------------------------------------- imports

    def hidden_cycles(self) -> str:
        graph = {name: self._known(module.imports(for_types=False)) for name, module in self.source.items()}
        reachable = cache(partial(_reachable, graph))
        cycles = [
            f"{name} ↔ {other}"
            for name, module in self.source.items()
            for other in sorted(self._known(module.imports(for_types=True)))
            if name in reachable(other)
        ]
        return f"{len(cycles)} ({', '.join(cycles).replace('leasehold.', '')})" if cycles else "0"

    def _known(self, names: set[str]) -> set[str]:
        return {name for name in names if name in self.source}

    def engine_functions(self) -> str:
        """Lists the functions of leasehold.engines that choose an engine by what they are passed."""
        functions = self.source["leasehold.engines"].functions()
        chosen_by = ((each.name, [argument.arg for argument in each.args.args][:1]) for each in functions)
        return _listed([name for name, first in chosen_by if name[0] != "_" and first and first[0] in CHOOSES_ENGINE])

    def engine_files(self) -> str:
        """Lists the files outside engines/ that take more from it than `engine_for`, or name a driver or a scheme."""
        found = []
        for name, module in self.source.items():
            if name.startswith(("leasehold.engines", "leasehold.embedded", *WEB)):
                continue
            imported = module.imports(for_types=False)
            drivers = {each.split(".")[0] for each in imported} & DRIVERS
            engines = {each for each in imported if each.startswith(f"{ENGINES}.")} - ENGINE_FOR
            if engines or drivers or SCHEME.search(module.text):
                found.append(name.removeprefix("leasehold."))
        return _listed(found)

    def scheme_files(self) -> str:
        modules = ((name, module) for name, module in self.source.items() if not name.startswith(WEB))
        return _listed([name.removeprefix("leasehold.") for name, module in modules if SCHEME.search(module.text)])

    # --------------------------------------------------------------------------------------------------- tests

    def reach_ins(self) -> str:
        """Counts uses of a private name of another object, and imports of one, in the tests."""
        used = Counter[str]()
        for module in self.tests.values():
            for node in module.nodes:
                if isinstance(node, ast.Attribute) and _is_private(node.attr) and not _is_own(node.value):
                    used[node.attr] += 1
                elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("leasehold"):
                    used.update(alias.name for alias in node.names if _is_private(alias.name))
                elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("setattr", "patch")):
                    used.update(name for text in _texts(node) for name in _patched(text))
        return f"{used.total()} ({', '.join(f'{count} × `{name}`' for name, count in used.most_common(4))})"

    # --------------------------------------------------------------------------------------------------- prose

    def pronouns(self) -> str:
        text = "\n".join(self._prose())
        words = len(WORD.findall(text))
        who, what = len(WHO.findall(text)), len(WHAT.findall(text))
        return f"{1000 * who / words:.1f} and {1000 * what / words:.1f} ({words:,} words)"

    def _prose(self) -> Iterator[str]:
        for module in self.source.values():
            yield from module.prose()
        for path in sorted((self.root / "src").rglob("*.sql")):
            yield from SQL_COMMENT.findall(path.read_text())

    # -------------------------------------------------------------------------------------------------- length

    def long_files(self) -> str:
        return f"{self._long_files(self.source)} in src, {self._long_files(self.tests)} in tests"

    @staticmethod
    def _long_files(modules: dict[str, Module]) -> str:
        long = {module.path.name: module.lines for module in modules.values() if module.lines > LONG_FILE}
        largest = max(long, key=lambda name: long[name], default=None)
        return f"{len(long)} (largest {largest}, {long[largest]})" if largest else "0"

    def long_functions(self) -> str:
        return f"{self._long_functions(self.source)} in src, {self._long_functions(self.tests)} in tests"

    @staticmethod
    def _long_functions(modules: dict[str, Module]) -> int:
        functions = (function for module in modules.values() for function in module.functions())
        return sum((node.end_lineno or 0) - node.lineno + 1 > LONG_FUNCTION for node in functions)

    def size(self) -> str:
        sizes = {"src": self.source, "tests": self.tests}
        return ", ".join(
            f"{len(modules)} files and {sum(module.lines for module in modules.values()):,} lines in {name}"
            for name, modules in sizes.items()
        )

    def rows(self) -> Iterator[tuple[str, str]]:
        yield "size", self.size()
        yield "largest classes", self.largest_classes()
        yield "cycles hidden by TYPE_CHECKING", self.hidden_cycles()
        yield "private reach-ins from tests", self.reach_ins()
        yield "who, nobody … and what, whatever per 1,000 words of comments", self.pronouns()
        yield "functions that choose an engine", self.engine_functions()
        yield "files above the engines that know more of them than `engine_for`", self.engine_files()
        yield "files that look at a URL's scheme", self.scheme_files()
        yield f"files past {LONG_FILE} lines", self.long_files()
        yield f"functions past {LONG_FUNCTION} lines", self.long_functions()


def _attributes(node: ast.ClassDef) -> set[str]:
    """Returns the names that methods assign on self."""
    return {
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and _is_own(part.value)
    }


def _is_own(owner: ast.expr) -> bool:
    return isinstance(owner, ast.Name) and owner.id in ("self", "cls")


def _is_private(name: str) -> bool:
    """Returns whether a name is private. The library's `os._exit` and a named tuple's `_replace` are public."""
    return name.startswith("_") and not name.startswith("__") and name not in ("_", "_exit", "_replace")


def _texts(call: ast.Call) -> list[str]:
    return [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def _patched(text: str) -> list[str]:
    """Returns the private names of a text such as "leasehold.worker.run._start" or "_start"."""
    return [text.rpartition(".")[2]] if re.fullmatch(r"(?:leasehold(?:\.\w+)*\.)?_[a-z]\w+", text) else []


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        for name in graph.get(left.pop(), set()) - seen:
            seen.add(name)
            left.append(name)
    return seen


def _top(counted: Counter[str]) -> str:
    return ", ".join(f"`{name}` {count}" for name, count in counted.most_common(3))


def _past(counted: Counter[str], most: int) -> int:
    return sum(count > most for count in counted.values())


def _listed(names: list[str]) -> str:
    return f"{len(names)} ({', '.join(names)})" if names else "0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at", type=Path, default=Path(__file__).parents[1], help="the checkout that is counted")
    parser.add_argument("--before", type=Path, help="an older checkout, whose values come first")
    given = parser.parse_args()
    before = dict(House(given.before).rows()) if given.before else {}
    for name, value in House(given.at).rows():
        sys.stdout.write("| " + " | ".join([name, *([before[name]] if before else []), value]) + " |\n")


if __name__ == "__main__":
    main()
