"""The house rules that hold for the source, read from its syntax trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tidy import tree

FUNCTION_LINES = 40
VERB_LINES = 30

ONLY_IN = {
    "httpx2": ("src/mooring/clients/", "src/mooring/agent_api/"),
    "libvirt": ("src/mooring/agent/libvirt/",),
    "os_brick": ("src/mooring/agent/brick/",),
    "netapp_ontap": ("src/mooring/agent/arrays/netapp.py",),
    "PyPowerStore": ("src/mooring/agent/arrays/powerstore.py",),
    "minio": ("src/mooring/volume/backups/stores/s3.py",),
    "subprocess": ("src/mooring/agent/run.py",),
    "asyncio.subprocess": (
        "src/mooring/agent/run.py",
        "src/mooring/host_fence.py",
        "src/mooring/lab/processes.py",
        "src/mooring/process_groups.py",
    ),
    "asyncio.create_subprocess_exec": (
        "src/mooring/agent/run.py",
        "src/mooring/host_fence.py",
        "src/mooring/lab/processes.py",
    ),
    "oslo_utils": ("src/mooring/qcow2.py",),
    "oslo_policy": ("src/mooring/web/policy.py",),
    "oslo_config": ("src/mooring/web/policy.py",),
    "prometheus_client": ("src/mooring/metrics/exposition.py",),
}
"""Which part of the source may import what; nobody else does."""

NOT_IN_AGENTS = ("sqlalchemy", "alembic", "psycopg", "mooring.store", "mooring.saga")
REAL_TIME = ("tests/kill/", "tests/hosts/", "tests/contract/", "tests/beside/")
"""Tests of real processes, which have no clock to turn: they may look again after a pause."""
EXCUSE = re.compile(r"#\s*(?:noqa|type:\s*ignore|pyright:\s*ignore)(?P<rest>.*)$")
REASON = re.compile(r"^(?::\s*|\[)[\w\[\], -]+?\]?\s+\(.{8,}")


def violations(found: list[str]) -> str:
    return "\n".join(["", *found])


def lines_of(function: tree.Function) -> int:
    """The lines of a function without its docstring."""
    end = function.end_lineno or function.lineno
    first = function.body[0]
    described = 0
    if ast.get_docstring(function, clean=False) is not None:
        described = (first.end_lineno or first.lineno) - first.lineno + 1
    return end - function.lineno + 1 - described


def test_functions_stay_short() -> None:
    found = [
        f"{path}:{function.lineno}: {function.name} has {lines_of(function)} lines"
        for path in tree.python()
        if not path.startswith(tree.MIGRATIONS)
        for function in tree.functions(path)
        if lines_of(function) > FUNCTION_LINES
    ]
    assert not found, violations(found)


def test_access_rules_of_servers_have_two_doors() -> None:
    """Compute makes and denies the rules of shares in one module alone (specs 003)."""
    asking = {
        path
        for path in tree.python("src/mooring/compute/")
        for node in tree.nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in {"allow_access", "deny_access"}
    }
    assert asking == {"src/mooring/compute/shares/doors.py"}


def test_an_agents_verbs_are_shorter_still() -> None:
    verbs = [
        (path, function)
        for path in tree.python("src/mooring/agent/")
        for function in tree.functions(path)
        if any(ast.unparse(one).startswith("handlers.of(") for one in function.decorator_list)
    ]
    assert len(verbs) > 30
    found = [
        f"{path}:{verb.lineno}: {verb.name} has {lines_of(verb)} lines"
        for path, verb in verbs
        if lines_of(verb) > VERB_LINES
    ]
    assert not found, violations(found)


@pytest.mark.parametrize("module", ONLY_IN)
def test_a_library_is_used_in_its_one_place(module: str) -> None:
    found = [
        f"{path}:{line}: imports {name}"
        for path in tree.python("src/")
        if not path.startswith(ONLY_IN[module])
        for name, line in tree.imports(path)
        if name == module or name.startswith(f"{module}.")
    ]
    found += [
        f"{path}:{call.lineno}: calls {name}"
        for path in tree.python("src/")
        if not path.startswith(ONLY_IN[module])
        for name, call in tree.calls(path)
        if name == module
    ]
    assert not found, violations(found)


def makes_typed(name: str, call: ast.Call) -> bool:
    """Whether a call has msgspec make values of a type."""
    if name in {"msgspec.json.decode", "msgspec.msgpack.decode"}:
        return len(call.args) > 1 or any(word.arg == "type" for word in call.keywords)
    return name == "msgspec.convert" or name.endswith(".Decoder")


def test_values_get_their_types_where_no_second_thread_interferes() -> None:
    found = [
        f"{path}:{call.lineno}: calls {name}; mooring.typed does that"
        for path in tree.python("src/")
        if path != "src/mooring/typed.py"
        for name, call in tree.calls(path)
        if makes_typed(name, call)
    ]
    found += [
        f"{path}:{line}: imports {name}; mooring.typed has it"
        for path in tree.python("src/")
        for name, line in tree.imports(path)
        if name.startswith(("msgspec.json", "msgspec.msgpack", "msgspec.convert"))
    ]
    assert not found, violations(found)


def test_steps_have_names_of_their_own() -> None:
    """Who asks for a function's name asks for another step's once the function is renamed."""
    found = [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path in tree.python("src/")
        if "/sagas/" in path
        for node in tree.nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in {"__name__", "__qualname__"}
    ]
    assert not found, violations(found)


def test_agents_know_no_database() -> None:
    found = [
        f"{path}:{line}: imports {name}"
        for path in tree.python("src/mooring/agent/", "src/mooring/agent_api/")
        for name, line in tree.imports(path)
        if name.startswith(NOT_IN_AGENTS)
    ]
    assert not found, violations(found)


def test_the_environment_is_read_by_the_settings_alone() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in tree.python("src/")
        if path != "src/mooring/config.py"
        for node in ast.walk(tree.parsed(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.getenv"}
    ]
    assert not found, violations(found)


def is_bare_read(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "tx.get"


def tolerated_reads(path: str) -> Iterator[ast.AST]:
    """The `tx.get`s of the function that decides who sees, and those that ask "is it there?"."""
    for function in tree.functions(path):
        if "visible" in function.name or function.name.lstrip("_").startswith("find"):
            yield from filter(is_bare_read, ast.walk(function))
    for node in ast.walk(tree.parsed(path)):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            yield node.left


def test_a_row_is_reached_through_what_its_reader_may_see() -> None:
    """Refuse a bare `tx.get` in API and rules, unless a comment at it says who has looked.

    Sagas and loops act for nobody, so they may read what they like.
    """
    found: list[str] = []
    for path in tree.python(*(f"{tree.PACKAGE}{service}/" for service in tree.SERVICES)):
        if "/sagas/" in path or "/loops/" in path:
            continue
        lines, tolerated = tree.text(path).splitlines(), set(tolerated_reads(path))
        found += [
            f"{path}:{call.lineno}: {lines[call.lineno - 1].strip()}"
            for _, call in tree.calls(path)
            if is_bare_read(call) and call not in tolerated
            if "#" not in lines[call.lineno - 1] and "#" not in lines[call.lineno - 2]
        ]
    assert not found, violations(found)


def test_an_exemption_carries_its_reason() -> None:
    """In brackets behind it, or in a comment on the line before."""
    found: list[str] = []
    for path in tree.python():
        if path.startswith("tests/tidy/"):
            continue
        before = ""
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            match = EXCUSE.search(line)
            if match and not REASON.match(match["rest"]) and not before.startswith("#"):
                found.append(f"{path}:{number}: {line.strip()}")
            before = line.strip()
    assert not found, violations(found)


POLLS_PROCESSES = {"tests/kill/harness.py"}
"""Asks a process of its own again and again, because that one cannot tell when it is done."""


def test_tests_use_neither_mocks_nor_sleeps() -> None:
    found = [
        f"{path}:{line}: imports {name}"
        for path in tree.python("tests/")
        for name, line in tree.imports(path)
        if name in {"unittest.mock", "mock", "pytest_mock"}
    ]
    found += [
        f"{path}:{call.lineno}: {ast.unparse(call)}"
        for path in tree.python("tests/")
        if not path.startswith(REAL_TIME)
        for name, call in tree.calls(path)
        if name in {"time.sleep", "asyncio.sleep", "anyio.sleep"} and path not in POLLS_PROCESSES
        if [ast.unparse(argument) for argument in call.args] != ["0"]
    ]
    assert not found, violations(found)


def described_methods() -> set[str]:
    """The names of methods that some class in the source describes, protocols above all."""
    return {
        method.name
        for path in tree.python("src/")
        for method in tree.functions(path)
        if ast.get_docstring(method)
    }


def is_described_elsewhere(path: str, owner: ast.ClassDef) -> bool:
    """Whether a class of another package says what the methods do."""
    foreign = {
        name.rpartition(".")[2]
        for name, _ in tree.imports(path)
        if not name.startswith(("mooring", "typing", "collections", "msgspec"))
    }
    return any(ast.unparse(base).split("[")[0].split(".")[-1] in foreign for base in owner.bases)


def public_methods(path: str) -> Iterator[tuple[str, tree.Function]]:
    """The methods of the public classes of a file that nobody else describes."""
    for node in tree.parsed(path).body:
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        if not is_described_elsewhere(path, node):
            for method in node.body:
                if isinstance(method, tree.Function) and not method.name.startswith("_"):
                    yield node.name, method


def test_every_public_method_is_described_where_it_stands_or_in_its_protocol() -> None:
    described = described_methods()
    found = [
        f"{path}:{method.lineno}: {owner}.{method.name}"
        for path in tree.python("src/")
        for owner, method in public_methods(path)
        if method.name not in described
    ]
    assert not found, violations(found)


def test_every_signal_is_checked() -> None:
    signals = [
        ast.unparse(call.args[0])
        for path in tree.python("src/")
        for name, call in tree.calls(path)
        if name in {"os.kill", "os.killpg"}
    ]
    assert len(signals) >= 3
    assert [one for one in signals if not one.startswith("check_pid(")] == ["os.getpid()"]
