"""Rules of this project that no linter has.

Each rule is a function from a syntax tree or a text to findings, a test that there are none, and a
test with samples that the rule does notice what it is for.
"""

import ast
import doctest
import importlib
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import dueline.client

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "dueline"

FUNCTION_LINES_MAX = 60
KERNEL_LINES_MAX = 100  # a kernel has no objects: its columns are its arguments, a line each
MODULE_LINES_MAX = 500

# A ratchet: functions that are longer than one screen, with their length. Entries may shrink and
# go, never grow; a new one needs a reason beside it.
LONG_FUNCTIONS: dict[str, int] = {}

# Names that nothing in the package uses, with the reason. Short: what is not needed is deleted.
KEPT_NAMES = {
    "compiled.py: switched_off": "how tests run the interpreted way",
}
# What users use: a module for their tests, and the client. And enumerations of what a peer may say,
# which are made by value.
USED_ELSEWHERE = re.compile(
    r"testing\.py: .*|broker/access/values\.py: ResourceType\..*|"
    r"wire/codes\.py: (Language|Serialization)\..*|client/.*: ("
    + "|".join(dueline.client.__all__)
    + r")(\.[A-Za-z].*)?"
)

Rule = Callable[[ast.Module], Iterator[str]]


# --- the rules ------------------------------------------------------------------------------------


def opened_files(tree: ast.Module) -> Iterator[str]:
    """Calls that open a file. A method `open` or `read_bytes` counts if it is called on a path."""
    openers = {
        "open",
        "io.open",
        "mmap.mmap",
        "np.fromfile",
        "np.load",
        "np.memmap",
        "os.fdopen",
        "os.open",
        "pa.OSFile",
        "pa.memory_map",
        "pa.output_stream",
    }
    methods = {"open", "read_bytes", "read_text", "touch", "write_bytes", "write_text"}
    for call in _calls(tree):
        name = _dotted(call.func)
        if name in openers or name.startswith("tempfile."):
            yield f"line {call.lineno}: {name}"
        elif isinstance(call.func, ast.Attribute) and call.func.attr in methods:
            receiver = call.func.value
            text = ast.unparse(receiver).lower()
            if isinstance(receiver, ast.BinOp) or text.endswith("path") or text.startswith("path("):
                yield f"line {call.lineno}: {name}"


def read_wall_clocks(tree: ast.Module) -> Iterator[str]:
    """Uses of the machine's wall clock, called or passed on."""
    names = re.compile(
        r"(time\.time|time\.time_ns|(datetime\.)?datetime\.(now|utcnow|today)|(datetime\.)?date\.today)"
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and names.fullmatch(_dotted(node)):
            yield f"line {node.lineno}: {_dotted(node)}"
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            for alias in node.names:
                if alias.name in ("time", "time_ns"):
                    yield f"line {node.lineno}: from time import {alias.name}"


def sleeps(tree: ast.Module) -> Iterator[str]:
    """Sleeping outside a function that waits for a condition (its name begins with `wait`)."""
    waiting = {
        id(node)
        for function in _functions(tree)
        if function.name.lstrip("_").startswith("wait")
        for node in ast.walk(function)
    }
    for call in _calls(tree):
        if _dotted(call.func).split(".")[-1] != "sleep" or id(call) in waiting:
            continue
        is_mere_yield = [ast.unparse(argument) for argument in call.args] == ["0"]
        if not is_mere_yield:
            yield f"line {call.lineno}: {ast.unparse(call)}"


def prints(tree: ast.Module) -> Iterator[str]:
    """Text that goes to a terminal as it is, whoever wrote it."""
    for call in _calls(tree):
        if _dotted(call.func) in ("print", "sys.stdout.write", "sys.stderr.write"):
            yield f"line {call.lineno}: {_dotted(call.func)}"


def function_lengths(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Each function's name and its number of lines, without its docstring."""
    for function in _functions(tree):
        end = function.end_lineno or function.lineno
        length = end - function.lineno + 1
        if ast.get_docstring(function) is not None:
            docstring = function.body[0]
            length -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
        yield function.name, length


def forbidden_words(text: str) -> Iterator[str]:
    """Names of a workplace, of package hosts, and of the history instead of the thing."""
    # Put together from pieces, so that this file does not contain them.
    hosts = (
        "py" + "pi.org",
        "python" + "hosted",
        "repo1?\\.ma" + "ven",
        "ma" + "ven\\.org",
        "npm" + "js",
    )
    workplace = ("(?<![\\w.])/wo" + "rk/", "/tmp/" + "team")
    history = ("\\bsession (number|no\\.|#)? ?\\d", "\\bissue (number|no\\.|#)? ?\\d")
    pattern = re.compile("|".join((*hosts, *workplace, *history)), re.IGNORECASE)
    for number, line in enumerate(text.splitlines(), start=1):
        if match := pattern.search(line):
            yield f"line {number}: {match.group()}"


def defined_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Functions, classes, methods and constants: each with the class it is in, or "".

    What is inside of functions is ruff's to find; fields of values are part of their shape.
    """
    bodies = [("", tree.body)]
    while bodies:
        owner, body = bodies.pop()
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield owner, node.name
            if isinstance(node, ast.ClassDef):
                bodies.append((node.name, node.body))
            elif isinstance(node, ast.If):
                bodies += [(owner, node.body), (owner, node.orelse)]
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for name in (each for target in targets for each in ast.walk(target)):
                    if isinstance(name, ast.Name) and name.id.lstrip("_").isupper():
                        yield owner, name.id


def used_names(tree: ast.Module) -> Iterator[str]:
    """Every name that is read, called, imported, or looked up by its text."""
    exported = {
        id(text)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for text in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names if alias.asname is not None)
        elif isinstance(node, ast.Constant) and id(node) not in exported:
            yield str(node.value)


def has_logic(tree: ast.Module) -> bool:
    """Does a function decide or repeat something?"""
    kinds = (ast.If, ast.IfExp, ast.For, ast.While, ast.Try, ast.Match, ast.comprehension)
    return any(
        isinstance(node, kinds) for function in _functions(tree) for node in ast.walk(function)
    )


# --- the project follows them ---------------------------------------------------------------------


def test_store_opens_files_in_one_module() -> None:
    modules = [path for path in (PACKAGE / "store").rglob("*.py") if path.name != "files.py"]

    assert _findings(modules, opened_files) == []


def test_wall_clock_is_read_in_one_module() -> None:
    modules = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "clock.py"]

    assert _findings(modules, read_wall_clocks) == []


def test_commands_print_in_one_module() -> None:
    modules = [path for path in (PACKAGE / "commands").rglob("*.py") if path.stem != "terminal"]

    assert _findings([*modules, PACKAGE / "cli.py"], prints) == []


def test_tests_do_not_sleep() -> None:
    assert _findings((ROOT / "tests").rglob("*.py"), sleeps) == []


def test_functions_fit_on_a_screen() -> None:
    long = {
        f"{path.relative_to(PACKAGE)}:{name}": length
        for path in PACKAGE.rglob("*.py")
        for name, length in function_lengths(_tree(path))
        if length > (KERNEL_LINES_MAX if path.stem.endswith("kernels") else FUNCTION_LINES_MAX)
    }

    grown = {name: n for name, n in long.items() if n > LONG_FUNCTIONS.get(name, 0)}
    assert grown == {}, f"split them; {FUNCTION_LINES_MAX} lines are one screen"
    assert long == LONG_FUNCTIONS, "some got shorter: write down the new lengths"


def test_modules_stay_small() -> None:
    sources = [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    lengths = {_name(path): len(path.read_text().splitlines()) for path in sources}

    assert {name: n for name, n in lengths.items() if n > MODULE_LINES_MAX} == {}


def test_every_name_is_used() -> None:
    """By the program, not by its tests alone; or it is there for others, and listed."""
    trees = {path: _tree(path) for path in PACKAGE.rglob("*.py")}
    used = {name for tree in trees.values() for name in used_names(tree)}
    unused = {
        f"{path.relative_to(PACKAGE).as_posix()}: {f'{owner}.' if owner else ''}{name}"
        for path, tree in trees.items()
        for owner, name in defined_names(tree)
        if name not in used and not name.startswith("__")
        if not _is_called_by_a_library(path, owner, name)
    }
    found = {each for each in unused if not USED_ELSEWHERE.fullmatch(each)}

    assert found - KEPT_NAMES.keys() == set(), "delete them"
    assert KEPT_NAMES.keys() - found == set(), "these are used now: strike them from the list"


def test_every_module_says_what_it_is() -> None:
    assert [
        _name(path) for path in PACKAGE.rglob("*.py") if not ast.get_docstring(_tree(path))
    ] == []


def test_every_folder_is_a_package() -> None:
    """One that is not is passed over by the tool that checks the import layers."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")}

    assert [_name(each) for each in folders if not (each / "__init__.py").is_file()] == []


def test_every_unit_test_module_mirrors_a_source_module() -> None:
    unit = ROOT / "tests" / "unit"
    orphans = []
    for path in unit.rglob("test_*.py"):
        mirrored = PACKAGE / path.parent.relative_to(unit) / path.stem.removeprefix("test_")
        if not mirrored.with_suffix(".py").is_file() and not mirrored.is_dir():
            orphans.append(_name(path))

    assert orphans == []


def test_every_module_with_logic_has_a_twin() -> None:
    """A test of its own name."""
    missing = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if has_logic(_tree(path)) and not any(twin.is_file() for twin in _twins(path))
    }

    assert missing == set(), "write a unit test for them"


def test_files_name_no_workplace_and_no_package_host() -> None:
    findings = []
    for path in _project_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        findings += [f"{_name(path)}, {finding}" for finding in forbidden_words(text)]

    assert findings == []


def test_examples_in_docstrings_are_true() -> None:
    with_examples = [path for path in PACKAGE.rglob("*.py") if ">>> " in path.read_text()]
    failed = []
    for path in with_examples:
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        result = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
        if result.failed or not result.attempted:
            failed.append(f"{_name(path)}: {result}")

    assert with_examples
    assert failed == []


# --- and the rules notice what they are for -------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (opened_files, "open('x')"),
        (opened_files, "os.open('x', os.O_RDWR)"),
        (opened_files, "mmap.mmap(3, 0)"),
        (opened_files, "Path('x').open()"),
        (opened_files, "(folder / 'x').read_bytes()"),
        (opened_files, "self.path.write_text('x')"),
        (opened_files, "tempfile.mkstemp()"),
        (read_wall_clocks, "time.time()"),
        (read_wall_clocks, "clock = time.time_ns"),
        (read_wall_clocks, "from time import time"),
        (read_wall_clocks, "datetime.datetime.now(tz)"),
        (read_wall_clocks, "datetime.now(tz)"),
        (prints, "print(message.body)"),
        (prints, "sys.stdout.write(key)"),
        (sleeps, "def test_x():\n    time.sleep(1)"),
        (sleeps, "async def test_x():\n    await asyncio.sleep(0.1)"),
    ],
)
def test_rule_notices(rule: Rule, source: str) -> None:
    assert len(list(rule(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (opened_files, "Store.open(path, options)"),
        (opened_files, "self._files.open(path)"),
        (read_wall_clocks, "clock.time()"),
        (read_wall_clocks, "time.monotonic()"),
        (sleeps, "def wait_until(condition):\n    time.sleep(0.01)"),
        (sleeps, "await asyncio.sleep(0)"),
    ],
)
def test_rule_lets_pass(rule: Rule, source: str) -> None:
    assert list(rule(ast.parse(source))) == []


@pytest.mark.parametrize(
    "text",
    [
        "see /wo" + "rk/notes",
        "https://py" + "pi.org/simple",
        "as in session" + " 12",
        "issue" + " #7",
    ],
)
def test_forbidden_words_are_noticed(text: str) -> None:
    assert len(list(forbidden_words(text))) == 1


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(x):\n    return x + 1", False),
        ("if x:\n    y = 1", False),
        ("def f(x):\n    return 1 if x else 2", True),
        ("class C:\n    def f(self):\n        return [x for x in y]", True),
    ],
)
def test_logic_is_a_decision_or_a_repetition(source: str, expected: bool) -> None:
    assert has_logic(ast.parse(source)) == expected


def test_function_length_does_not_count_the_docstring() -> None:
    source = 'def f():\n    """One.\n\n    Two.\n    """\n    return 1\n'

    assert list(function_lengths(ast.parse(source))) == [("f", 2)]


def test_definitions_are_found() -> None:
    source = (
        "A = 1\n_b = 2\nclass C:\n    D: int = 1\n    e: int = 1\n    def f(self):\n        g = 1\n"
    )

    assert list(defined_names(ast.parse(source))) == [("", "A"), ("", "C"), ("C", "D"), ("C", "f")]


@pytest.mark.parametrize(
    ("source", "is_used"),
    [
        ("print(x)", True),
        ("y.x()", True),
        ("f'{x}'", True),
        ("getattr(y, 'x')", True),
        ("from m import x as y", True),
        ("def f(y: x): ...", True),
        ("from m import x", False),
        ("x = 1", False),
        ("def x(): ...", False),
        ("__all__ = ['x']", False),
        ("'about x'", False),
    ],
)
def test_uses_are_told_from_definitions(source: str, is_used: bool) -> None:
    assert ("x" in used_names(ast.parse(source))) == is_used


# --- reading the sources --------------------------------------------------------------------------


def _findings(paths: Iterator[Path] | list[Path], rule: Rule) -> list[str]:
    return [f"{_name(path)}, {finding}" for path in paths for finding in rule(_tree(path))]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _dotted(node: ast.expr) -> str:
    """A name with its dots, quicker than `ast.unparse`; what is not a name becomes `…`."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{_dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else "…"


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def _twins(path: Path) -> list[Path]:
    """In tests/unit; or, for what needs a port or a session, in the suite of its package."""
    if path.stem == "__init__":
        path = path.parent  # a package's twin is beside the folder of its modules' twins
    inside = path.relative_to(PACKAGE)
    name = f"test_{path.stem}.py"
    suite = inside.parent.name or "unit"
    return [ROOT / "tests" / "unit" / inside.parent / name, ROOT / "tests" / suite / name]


def _is_called_by_a_library(path: Path, owner: str, name: str) -> bool:
    """Does a class outside of this package, which this one derives from, define the method?"""
    if not owner:
        return False
    module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    bases = getattr(importlib.import_module(module), owner).__mro__[1:]
    return any(name in vars(base) for base in bases if not base.__module__.startswith("dueline"))


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _project_files() -> list[Path]:
    """The tracked files; without git (an unpacked archive) the folders that are tracked."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        folders = ("src", "tests", "docs", "benchmarks")
        inside = [path for folder in folders for path in (ROOT / folder).rglob("*")]
        return [path for path in [*ROOT.glob("*"), *inside] if path.is_file()]
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_two_decisions_have_one_number() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))

    numbers = [int(page.name[:4]) for page in pages]
    assert numbers == sorted(set(numbers))
    for number, page in zip(numbers, pages, strict=True):
        assert page.read_text().startswith(f"# {number}. "), page.name


def test_changelog_ends_with_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()

    headings = re.findall(r"^## (.*)$", changelog, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(dueline.__version__)} \(\d{{4}}-\d\d-\d\d\)", headings[1])
