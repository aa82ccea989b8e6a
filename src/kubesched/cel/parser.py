"""Source text to a syntax tree: a grammar for lark, and the actions that build nodes while it reduces.

lark's LALR parser keeps its own stack, so deep nesting costs memory, not Python frames. Limits on the length of the
source and on the depth of the tree are cel-go's; they bound the recursion of everything that later walks the tree.
"""

import re
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any, cast

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken, VisitError

from kubesched.cel.errors import Issue, ParseError
from kubesched.cel.macros import expand
from kubesched.cel.syntax import (
    Call,
    Entry,
    FieldInit,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    StructNode,
    measured,
)
from kubesched.cel.values import MAX_UINT, MIN_INT, Uint

MAX_LENGTH = 100_000
MAX_DEPTH = 250
#: Some macros use an argument twice. Without a limit, a chain of them would double the tree at each step.
MAX_NODES = 100_000

_GRAMMAR = r"""
start: expr
?expr: or | or QUESTION or COLON expr -> ternary
?or: and | or_chain -> logic
or_chain: and OR and | or_chain OR and
?and: relation | and_chain -> logic
and_chain: relation AND relation | and_chain AND relation
?relation: sum | relation (LT | LE | GE | GT | EQ | NE | IN) sum -> binary
?sum: product | sum (PLUS | MINUS) product -> binary
?product: unary | product (STAR | SLASH | PERCENT) unary -> binary
?unary: member | NOT+ member -> negate | MINUS+ member -> negate
?member: primary
       | member DOT QUESTION? (IDENT | ESCAPED) -> select
       | member DOT IDENT LPAR args? RPAR -> member_call
       | member LSQB QUESTION? expr RSQB -> index
       | member LBRACE RBRACE -> struct
       | member LBRACE inits COMMA? RBRACE -> struct
?primary: IDENT -> ident
        | DOT IDENT -> ident
        | IDENT LPAR args? RPAR -> call
        | DOT IDENT LPAR args? RPAR -> call
        | LPAR expr RPAR -> nested
        | LSQB COMMA? RSQB -> list_literal
        | LSQB elements COMMA? RSQB -> list_literal
        | LBRACE COMMA? RBRACE -> map_literal
        | LBRACE entries COMMA? RBRACE -> map_literal
        | (NUM_INT | NUM_UINT | NUM_FLOAT | STRING | BYTES | TRUE | FALSE | NULL) -> literal
args: expr | args COMMA expr
elements: element | elements COMMA element
element: QUESTION? expr
entries: entry | entries COMMA entry
entry: QUESTION? expr COLON expr
inits: init | inits COMMA init
init: QUESTION? (IDENT | ESCAPED) COLON expr

QUESTION: "?"
COLON: ":"
OR: "||"
AND: "&&"
LT: "<"
LE: "<="
GE: ">="
GT: ">"
EQ: "=="
NE: "!="
IN: "in"
PLUS: "+"
MINUS: "-"
STAR: "*"
SLASH: "/"
PERCENT: "%"
NOT: "!"
DOT: "."
COMMA: ","
LPAR: "("
RPAR: ")"
LSQB: "["
RSQB: "]"
LBRACE: "{"
RBRACE: "}"
TRUE: "true"
FALSE: "false"
NULL: "null"
NUM_FLOAT.4: /[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+([eE][+-]?[0-9]+)?/
NUM_UINT.3: /0x[0-9a-fA-F]+[uU]|[0-9]+[uU]/
NUM_INT.2: /0x[0-9a-fA-F]+|[0-9]+/
STRING.3: /@STRING@/s
BYTES.3: /[bB](@STRING@)/s
IDENT: /[A-Za-z_][A-Za-z0-9_]*/
ESCAPED: /`[A-Za-z0-9_.\/ -]+`/
%ignore /[\t \r\n\f]+/
%ignore /\/\/[^\n]*/
"""
_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_STRING = "|".join(
    (
        r"[rR]\"\"\".*?\"\"\"|[rR]'''.*?'''",
        rf"\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"|'''(?:{_ESCAPE}|[^\\])*?'''",
        r"[rR]\"[^\"\n\r]*\"|[rR]'[^'\n\r]*'",
        rf"\"(?:{_ESCAPE}|[^\\\"\n\r])*\"|'(?:{_ESCAPE}|[^\\'\n\r])*'",
    )
)
_ESCAPES = re.compile(_ESCAPE)
_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, '"': 34, "'": 39, "\\": 92, "?": 63, "`": 96}

_OPERATORS = {"-": "_-_", "!": "!_", "in": "@in"}
_RESERVED = frozenset(
    """as break const continue else false for function if import in let loop package namespace null return true var
    void while""".split()  # noqa: SIM905
)
# The terminals in the order in which cel-go lists them, as it spells them.
_SPELLED = {
    "LSQB": "'['",
    "RSQB": "']'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LPAR": "'('",
    "RPAR": "')'",
    "DOT": "'.'",
    "COMMA": "','",
    "MINUS": "'-'",
    "NOT": "'!'",
    "COLON": "':'",
    "TRUE": "'true'",
    "FALSE": "'false'",
    "NULL": "'null'",
    "NUM_FLOAT": "NUM_FLOAT",
    "NUM_INT": "NUM_INT",
    "NUM_UINT": "NUM_UINT",
    "STRING": "STRING",
    "BYTES": "BYTES",
    "IDENT": "IDENTIFIER",
}
_CLOSING = frozenset({"RSQB", "RBRACE", "RPAR", "COMMA", "COLON"})
# A string without its end, half an operator, or one character of something else.
_UNKNOWN = re.compile(
    rf"[bB]?[rR]?(?:\"(?:{_ESCAPE}|[^\\\"\n\r])*|'(?:{_ESCAPE}|[^\\'\n\r])*)(?:\\.?)?|[&|=].?|.", re.DOTALL
)
_MAX_ERRORS = 30
_BUILDING = Lock()


def parse(source: str) -> Node:
    """The tree of an expression, with macros expanded. Raises ParseError."""
    if len(source) > MAX_LENGTH:
        message = f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_LENGTH}"
        raise ParseError(-1, message)
    unknown: list[Issue] = []
    text = source
    while True:
        try:
            node = cast(Node, _lark().parse(text))
        except UnexpectedCharacters as error:
            text = _skipped(text, error.pos_in_stream or 0, unknown)
        except UnexpectedToken as error:
            raise ParseError(*_syntax_error(error, text), unknown) from None
        except VisitError as error:
            raise error.orig_exc from None
        else:
            break
    if unknown:
        raise ParseError(unknown[0].offset, unknown[0].message, unknown[1:])
    return node


def _skipped(text: str, at: int, unknown: list[Issue]) -> str:
    """Note characters that start no token, and blank them so that the rest can be parsed."""
    match = _UNKNOWN.match(text, at)
    assert match is not None
    unknown.append(Issue(at, f"Syntax error: token recognition error at: '{match[0]}'"))
    if len(unknown) > _MAX_ERRORS:
        raise ParseError(unknown[0].offset, unknown[0].message, unknown[1:])
    return text[:at] + " " * len(match[0]) + text[match.end() :]


def prepare() -> None:
    """Build the parser, which takes about 0.2 s, before the first expression needs it."""
    _lark()


def _lark() -> Lark:
    with _BUILDING:
        return _build()


@cache
def _build() -> Lark:
    grammar = _GRAMMAR.replace("@STRING@", _STRING)
    return Lark(
        grammar, parser="lalr", lexer="basic", transformer=_Actions(), maybe_placeholders=False, keep_all_tokens=True
    )


def _syntax_error(error: UnexpectedToken, source: str) -> tuple[int, str]:
    """Where the error is and cel-go's words for it."""
    token, accepted = error.token, error.accepts or error.expected
    ended = token.type == "$END"
    at, text = (len(source), "<EOF>") if ended else (_at(token), str(token))
    wanted = accepted if "NUM_INT" in accepted else accepted & {"$END"} or accepted & _CLOSING
    if not wanted:
        if token.type in ("TRUE", "FALSE", "NULL"):
            return at, f"Syntax error: mismatched input '{text}' expecting IDENTIFIER"
        return at, f"Syntax error: no viable alternative at input '.{'' if ended else text}'"
    words = [spelled for name, spelled in _SPELLED.items() if name in wanted] or ["<EOF>"]
    expected = words[0] if len(words) == 1 else "{" + ", ".join(words) + "}"
    if ended and len(words) == 1 and words[0] not in ("<EOF>", "':'"):
        return at, f"Syntax error: missing {expected} at '{text}'"
    # Without the token, the expression would go on: then the token is too much, otherwise it is the wrong one.
    extra = not ended and _next_type(source, at + len(text)) in wanted
    return at, f"Syntax error: {'extraneous' if extra else 'mismatched'} input '{text}' expecting {expected}"


def _next_type(source: str, at: int) -> str:
    try:
        return next((token.type for token in _lark().lex(source[at:])), "$END")
    except UnexpectedCharacters:
        return ""


def _measured(node: Node) -> Node:
    return _bounded(measured(node))


def _bounded(node: Node) -> Node:
    if node.depth > MAX_DEPTH:
        raise ParseError(-1, f"expression recursion limit exceeded: {MAX_DEPTH}")
    if node.weight > MAX_NODES:
        raise ParseError(-1, f"expression has too many parts after macros are expanded: limit {MAX_NODES}")
    return node


def _at(token: Token) -> int:
    return token.start_pos or 0


def _leading_number(node: Node) -> Literal | None:
    """The number literal at the start of a chain such as ``1.f()``: a minus sign before it belongs to the literal."""
    while True:
        match node:
            case Literal(value=bool() | Uint()) | Literal(closed=True):
                return None
            case Literal(value=int() | float()):
                return node
            case Select():
                node = node.operand
            case Call(target=Node()):
                node = cast(Node, node.target)
            case Call(function="_[_]" | "_[?_]" | "_?._"):
                node = node.args[0]
            case _:
                return None


def _dotted(node: Node, opening: Token) -> str:
    match node:
        case Ident():
            return node.name
        case Select(test=False):
            return f"{_dotted(node.operand, opening)}.{node.field}"
    raise ParseError(_at(opening), f"Syntax error: mismatched input '{opening}' expecting <EOF>")


def _int(token: Token) -> int:
    value = int(token, 16) if token.startswith("0x") else int(token) if len(token) < 100 else MAX_UINT
    if value > -MIN_INT:
        raise ParseError(_at(token), "invalid int literal")
    return value


def _uint(token: Token) -> Uint:
    text = token[:-1]
    value = int(text, 16) if text.startswith("0x") else int(text) if len(text) < 100 else MAX_UINT + 1
    if value > MAX_UINT:
        raise ParseError(_at(token), "invalid uint literal")
    return Uint(value)


def _float(token: Token) -> float:
    value = float(token)
    if value in (float("inf"), float("-inf")):
        raise ParseError(_at(token), "invalid double literal")
    return value


def _string(token: Token) -> str:
    body, raw = _body(str(token))
    if raw:
        return body

    def character(match: re.Match[str]) -> str:
        code = _code(match[0])
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise ParseError(_at(token), "invalid unicode code point")
        return chr(code)

    return _ESCAPES.sub(character, body)


def _bytes(token: Token) -> bytes:
    body, raw = _body(token[1:])
    if raw:
        return body.encode()
    parts, last = [], 0
    for match in _ESCAPES.finditer(body):
        if match[0][1] in "uU":
            raise ParseError(_at(token), "unable to unescape string")
        parts += [body[last : match.start()].encode(), bytes([_code(match[0])])]
        last = match.end()
    return b"".join([*parts, body[last:].encode()])


def _body(text: str) -> tuple[str, bool]:
    raw = text[0] in "rR"
    text = text[1:] if raw else text
    quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    body = text[quotes:-quotes]
    return body.replace("\r\n", "\n").replace("\r", "\n") if quotes == 3 else body, raw


def _code(escape: str) -> int:
    kind = escape[1]
    if kind in "xXuU":
        return int(escape[2:], 16)
    return int(escape[1:], 8) if kind in "0123" else _SIMPLE[kind]


_LITERALS: dict[str, Callable[[Token], object]] = {
    "NUM_INT": _int,
    "NUM_UINT": _uint,
    "NUM_FLOAT": _float,
    "STRING": _string,
    "BYTES": _bytes,
    "TRUE": lambda _: True,
    "FALSE": lambda _: False,
    "NULL": lambda _: None,
}


@v_args(inline=True)
class _Actions(Transformer[Any, Node]):
    """One method for each rule of the grammar; lark calls it as soon as the rule is complete."""

    def start(self, node: Node) -> Node:
        return node

    def ternary(self, condition: Node, mark: Token, yes: Node, _colon: Token, no: Node) -> Node:
        return _measured(Call("_?_:_", [condition, yes, no], offset=_at(mark)))

    def or_chain(self, first: Any, operator: Token, last: Node) -> Any:
        """Left recursion: the chain so far as one list, then an operator and a term."""
        chain = first if isinstance(first, list) else [first]
        chain += [operator, last]
        return chain

    and_chain = or_chain

    def logic(self, chain: list[Any]) -> Node:
        """A chain of one operator, as a balanced tree: a long chain is not a deep one."""
        return self._balanced(f"_{chain[1]}_", chain[::2], chain[1::2])

    def _balanced(self, function: str, terms: list[Node], operators: list[Token]) -> Node:
        if len(terms) == 1:
            return terms[0]
        middle = (len(terms) + 1) // 2
        left = self._balanced(function, terms[:middle], operators[: middle - 1])
        right = self._balanced(function, terms[middle:], operators[middle:])
        return _measured(Call(function, [left, right], offset=_at(operators[middle - 1])))

    def binary(self, left: Node, operator: Token, right: Node) -> Node:
        function = "@in" if operator == "in" else f"_{operator}_"
        return _measured(Call(function, [left, right], offset=_at(operator)))

    def negate(self, *parts: Any) -> Node:
        operators, operand = parts[:-1], parts[-1]
        if len(operators) % 2 == 0:
            return cast(Node, operand)
        if operators[0] == "-" and (number := _leading_number(operand)):
            number.value, number.offset = -cast(int, number.value), _at(operators[-1])
            return cast(Node, operand)
        return _measured(Call("-_" if operators[0] == "-" else "!_", [operand], offset=_at(operators[0])))

    def select(self, operand: Node, dot: Token, *rest: Token) -> Node:
        name = str(rest[-1])
        if name.startswith("`"):
            raise ParseError(_at(rest[-1]), "unsupported syntax: '`'")
        if len(rest) == 2:
            return _measured(Call("_?._", [operand, Literal(name, offset=_at(rest[-1]))], offset=_at(dot)))
        return _measured(Select(operand, name, offset=_at(dot)))

    def member_call(self, target: Node, _dot: Token, name: Token, opening: Token, *rest: Any) -> Node:
        args = rest[0] if len(rest) == 2 else []
        expanded = expand(_at(opening), str(name), target, args)
        return _measured(expanded or Call(str(name), args, target, offset=_at(opening)))

    def index(self, operand: Node, opening: Token, *rest: Any) -> Node:
        function = "_[?_]" if len(rest) == 3 else "_[_]"
        return _measured(Call(function, [operand, rest[-2]], offset=_at(opening)))

    def struct(self, name: Node, opening: Token, *rest: Any) -> Node:
        inits = rest[0] if isinstance(rest[0], list) else []
        return _measured(StructNode(_dotted(name, opening), inits, offset=_at(opening)))

    def ident(self, *tokens: Token) -> Node:
        name = tokens[-1]
        if str(name) in _RESERVED:
            raise ParseError(_at(name), f"reserved identifier: {name}")
        return Ident("".join(tokens), offset=_at(tokens[0]))

    def call(self, *parts: Any) -> Node:
        args = parts[-2] if isinstance(parts[-2], list) else []
        name = next(part for part in parts if part.type == "IDENT")
        opening = next(part for part in parts if isinstance(part, Token) and part.type == "LPAR")
        if str(name) in _RESERVED:
            raise ParseError(_at(name), f"reserved identifier: {name}")
        expanded = expand(_at(opening), str(name), None, args)
        return _measured(expanded or Call(str(name), args, offset=_at(opening)))

    def nested(self, _opening: Token, node: Node, _closing: Token) -> Node:
        node.depth += 1
        if isinstance(node, Literal):
            node.closed = True
        return _bounded(node)

    def list_literal(self, opening: Token, *rest: Any) -> Node:
        elements = rest[0] if isinstance(rest[0], list) else []
        optional = frozenset(index for index, (marked, _) in enumerate(elements) if marked)
        return _measured(ListNode([node for _, node in elements], optional, offset=_at(opening)))

    def map_literal(self, opening: Token, *rest: Any) -> Node:
        entries = rest[0] if isinstance(rest[0], list) else []
        return _measured(MapNode(entries, offset=_at(opening)))

    def literal(self, token: Token) -> Node:
        return Literal(_LITERALS[token.type](token), offset=_at(token))

    def args(self, first: Any, *rest: Any) -> Any:
        """Left recursion: the list so far, then one more. A trailing comma needs no lookahead this way."""
        if not rest:
            return [first]
        first.append(rest[-1])
        return first

    elements = entries = inits = args

    def element(self, *parts: Any) -> Any:
        return len(parts) == 2, parts[-1]

    def entry(self, *parts: Any) -> Any:
        return Entry(parts[-3], parts[-1], len(parts) == 4, _at(parts[-2]))

    def init(self, *parts: Any) -> Any:
        return FieldInit(str(parts[-3]), parts[-1], len(parts) == 4, _at(parts[-2]))
