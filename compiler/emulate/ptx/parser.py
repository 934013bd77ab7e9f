"""PTX text to a Module."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from compiler.emulate.ptx.body import Body
from compiler.emulate.ptx.errors import PtxError
from compiler.emulate.ptx.lexer import IDENTIFIER, Cursor
from compiler.emulate.ptx.module import Function, Module, PtxSymbol, StateSpace, Variable
from compiler.emulate.ptx.positions import FILE
from compiler.emulate.ptx.scope import PtxScope, Registers
from compiler.emulate.ptx.variables import variables

_VERSION = re.compile(r"\.version\s+(\d{1,3})\.(\d{1,3})")
_TARGET = re.compile(r"\.target\s+([\w, \t]+)")
_ADDRESS_SIZE = re.compile(r"(\d+)")
_WORD = re.compile(r"\.[a-z_]\w*")
_NAME = re.compile(IDENTIFIER)
_OPEN, _CLOSE, _BRACE, _SEMICOLON = (re.compile(c) for c in (r"\(", r"\)", r"\{", r";"))
_DIRECTIVE = re.compile(
    r'\.pragma\b[^;]*;|(?P<word>\.[a-z_]\w*)(?P<numbers>(?:\s*,?\s*\d{1,9}\b)*)|"[^"\n]*"|,|\([^()]*(?:\([^()]*\))?[^()]*\)'
)
_ATTRIBUTE = re.compile(r"\.attribute\s*\([^()]*(?:\([^()]*\))?[^()]*\)")
_LINKING = frozenset({".visible", ".extern", ".weak", ".common"})
_SPACES = {f".{s.value}": s for s in (StateSpace.GLOBAL, StateSpace.SHARED, StateSpace.CONST, StateSpace.LOCAL)} | {
    ".tex": StateSpace.GLOBAL
}
_PARAM = re.compile(r"\s*\.(param|reg)\b")


def parse(text: str) -> Module:
    """Reads a PTX module (PTX ISA up to 9.0). Raises PtxError, with the line, on anything that is none."""
    return _ModuleParser(text.rstrip("\0")).module()


class _ModuleParser:
    def __init__(self, text: str) -> None:
        self._cursor = Cursor(text)
        self._files = {int(number): name for number, name in FILE.findall(self._cursor.text)}
        self._variables: dict[str, Variable] = {}
        self._functions: dict[str, Function] = {}
        self._aliases: list[tuple[int, str, str]] = []
        self._scope = PtxScope(Registers())

    def module(self) -> Module:
        """The whole text."""
        cursor = self._cursor
        version = cursor.expect(_VERSION, "'.version'", "A PTX text begins with .version, such as .version 9.0.")
        target = cursor.expect(_TARGET, "'.target'", "Name the target after the version, such as .target sm_90a.")
        while not cursor.at_end:
            self._statement()
        self._check_addresses()
        for line, name, of in self._aliases:
            if of not in self._functions:
                raise PtxError(line, f".alias of {of}", "a function", "Declare the function.")
            self._functions[name] = replace(self._functions[of], name=name)
        return Module(
            (int(version[1]), int(version[2])),
            target[1].split(",")[0].strip(),
            tuple(self._variables.values()),
            self._functions,
            self._files,
        )

    def _check_addresses(self) -> None:
        for variable in self._variables.values():
            for _, symbol in variable.relocations:
                if symbol.name not in self._variables and symbol.name not in self._functions:
                    found = f"the address of {symbol.name} in {variable.name}"
                    raise PtxError(self._cursor.line(), found, "a variable or a function", "Declare it.")

    def _statement(self) -> None:
        cursor = self._cursor
        if cursor.take(_SEMICOLON):
            return
        linking = ""
        while True:
            word = cursor.expect(_WORD, "a directive", "At module scope stand variables, functions and directives.")[0]
            if word not in _LINKING:
                break
            linking = word
        if word in _SPACES:
            self._variable(_SPACES[word], is_extern=linking == ".extern")
        elif word in (".entry", ".func"):
            self._function(is_entry=word == ".entry")
        elif word == ".section":
            cursor.until("{", word)
            cursor.pos -= 1
            cursor.skip_braces()
        elif word in (".file", ".loc"):
            cursor.rest_of_line()
        elif word == ".address_size":
            size = cursor.expect(_ADDRESS_SIZE, "a number of bits", "Write .address_size 64.")
            if size[1] != "64":
                found = f".address_size {size[1]}"
                raise PtxError(cursor.line(size.start()), found, "64-bit addresses", "Compile for 64-bit addresses.")
        elif word == ".alias":
            line = cursor.line()
            names = [n.strip() for n in cursor.until(";", word).split(",")]
            if len(names) != 2:
                raise PtxError(line, ".alias of " + ", ".join(names), "two names", "Write .alias new, old;")
            self._aliases.append((line, names[0], names[1]))
        elif word == ".pragma":
            cursor.until(";", word)
        else:
            raise PtxError(cursor.line(cursor.pos), word, "a directive of a module", "Correct or remove it.")

    def _variable(self, space: StateSpace, *, is_extern: bool) -> None:
        fail = self._fail()
        for variable in variables(space, self._cursor.until(";", "a declaration"), fail, is_extern=is_extern):
            known = self._variables.get(variable.name)
            if known is None:
                self._scope.declare_symbol(variable.name, PtxSymbol(variable.name), fail)
            elif not (known.is_extern or variable.is_extern):
                raise fail(f"{variable.name} declared again", "one declaration", "Remove or rename one of them.")
            if known is None or known.is_extern:
                self._variables[variable.name] = variable

    def _function(self, *, is_entry: bool) -> None:
        cursor = self._cursor
        fail = self._fail()
        scope = self._scope.inner()
        scope.registers = Registers()
        cursor.take(_ATTRIBUTE)
        results = self._params(scope)
        name = cursor.expect(_NAME, "the name of a function", "Name the function.")[0]
        params = self._params(scope)
        directives, is_defined = self._directives()
        head = Function(name, is_entry, params, (), (), (), directives, {}, results, is_defined)
        known = self._functions.get(name)
        if known is None:
            self._scope.declare_symbol(name, PtxSymbol(name), fail)
        elif known.is_defined and is_defined:
            raise fail(f"the function {name} again", "one definition", "Remove or rename one of them.")
        if not is_defined:
            self._functions.setdefault(name, head)
            return
        taken = {*self._variables, *self._functions, *(p.name for p in (*params, *results))}
        body = Body(cursor, scope, self._files, taken)
        body.parse()
        for variable in body.module_variables:
            self._variables[variable.name] = variable
        self._functions[name] = replace(
            head,
            registers=tuple(scope.registers.used),
            variables=tuple(body.variables),
            instructions=tuple(body.instructions),
            branch_tables=body.branch_tables,
        )

    def _params(self, scope: PtxScope) -> tuple[Variable, ...]:
        cursor = self._cursor
        if not cursor.take(_OPEN):
            return ()
        fail = self._fail()
        text = cursor.until(")", "the parameters").strip()
        found: list[Variable] = []
        for piece in text.split(",") if text else ():
            kind = _PARAM.match(piece)
            if kind is None or kind[1] != "param":
                raise fail(repr(piece.strip()), "a .param", "Pass parameters in .param space.")
            for variable in variables(StateSpace.PARAM, piece[kind.end() :], fail):
                if variable.name != "_":
                    scope.declare_symbol(variable.name, PtxSymbol(variable.name), fail)
                found.append(variable)
        return tuple(found)

    def _directives(self) -> tuple[dict[str, tuple[int, ...]], bool]:
        """What stands between the parameters and the body, and whether there is a body."""
        cursor = self._cursor
        found: dict[str, tuple[int, ...]] = {}
        while True:
            if cursor.take(_SEMICOLON):
                return found, False
            if cursor.take(_BRACE):
                return found, True
            match = cursor.expect(_DIRECTIVE, "a directive, ';' or the body", "Write the body in braces.")
            if match["word"]:
                found[match["word"][1:]] = tuple(int(n) for n in re.findall(r"\d+", match["numbers"]))

    def _fail(self) -> _Fail:
        return _Fail(self._cursor.line())


@dataclass(frozen=True, slots=True)
class _Fail:
    line: int

    def __call__(self, found: str, expected: str, fix: str) -> PtxError:
        return PtxError(self.line, found, expected, fix)
