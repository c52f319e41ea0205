"""Which small changes there are of a C++ source, and how many of them are written into it at once.

A change has two forms. Plain: a stretch of the text is replaced. Guarded: the text stays, and the
changed text stands beside it, each taken or not by a number that is known when the program runs:

    a < b       (pal_change(7) ? (a <= b) : (a < b))
    f(x);       { if (pal_change(7)) {} else { f(x); } }

The source is read as tokens, with no compiler. The house's layout tells operators from the rest: a
binary operator stands between blanks, `*` of a pointer and `<` of a template do not. Where a guard
does not compile (a constant expression, operands of two types), a change has its plain form only.
"""
import bisect
import collections
import itertools
import re

# `begin`, `end` and `made`: the stretch and what replaces it. `wraps`: (begin, end, head, tail), what
# stands before and after stretches of the text in the guarded form, with # for the number; none where
# there is no such form. `what`, `before` and `after` are for people.
Change = collections.namedtuple("Change", "file line column what before after begin end made wraps text id")
Token = collections.namedtuple("Token", "text begin end")

TOKEN = re.compile(
    r"[A-Za-z_]\w*|0[xX][\da-fA-F']+\w*|(?:\d[\d']*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\w*|<<=|>>=|<=>|->|::|&&|\|\|"
    r"|[-+*/%&|^<>=!]=|\+\+|--|(?<=\s)(?:<<|>>)(?=\s)|\S")
NUMBER = re.compile(r"\d[\d']*$|(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?$|\d+[eE][-+]?\d+$")
RANK = {"*": 10, "/": 10, "%": 10, "+": 9, "-": 9, "<<": 8, ">>": 8, "<": 7, "<=": 7, ">": 7, ">=": 7, "<=>": 7,
        "==": 6, "!=": 6, "&": 5, "^": 4, "|": 3, "&&": 2, "||": 1, "?": 0, ":": 0,
        "=": -1, "+=": -1, "-=": -1, "*=": -1, "/=": -1, "%=": -1, "&=": -1, "|=": -1, "^=": -1, "<<=": -1, ">>=": -1}
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "/", "/": "*",
         "%": "*", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "&&": "||", "||": "&&", "++": "--", "--": "++"}
ENDS = {"return", "throw", "else", "case", "do", "co_return"}
HEADS = {"if", "for", "while", "switch"}
NO_STATEMENT = ENDS | HEADS | {
    "using", "const", "auto", "static", "constexpr", "break", "continue", "default", "delete", "try", "catch",
    "template", "namespace", "struct", "class", "enum", "public", "private", "protected", "goto", "typedef", "extern",
    "inline", "friend", "operator", "explicit", "virtual", "static_assert", "new", "sizeof"}


def blank(text):
    """The text with comments, strings, characters and directives as blanks, of the same length."""
    out, i, n = list(text), 0, len(text)
    while i < n:
        if text.startswith("//", i):
            end = text.find("\n", i)
        elif text.startswith("/*", i):
            end = text.find("*/", i) + 2
        elif text.startswith('R"', i):
            tag = text[i + 2:text.index("(", i)]
            end = text.index(")" + tag + '"', i) + len(tag) + 2
        elif text[i] == '"' or (text[i] == "'" and not (i and text[i - 1].isalnum())):
            end = i + 1
            while end < n and text[end] != text[i]:
                end += 2 if text[end] == "\\" else 1
            end += 1
        elif text[i] == "#" and text[text.rfind("\n", 0, i) + 1:i].strip() == "":
            end = text.find("\n", i)
            while end > 0 and text[end - 1] == "\\":
                end = text.find("\n", end + 1)
        else:
            i += 1
            continue
        end = n if end < i + 1 else end
        # A literal stays one token: a name that no code has.
        literal = text[i] in "\"'" or text[i] == "R"
        for k in range(i, min(end, n)):
            if out[k] != "\n":
                out[k] = "_" if literal else " "
        i = end
    return "".join(out)


def is_name(text):
    return text[0].isalpha() or text[0] == "_"


class Source:
    """The tokens of a file, which bracket closes which, and which one each token stands in."""

    def __init__(self, text):
        self.text = text
        self.code = blank(text)
        self.tokens = [Token(m.group(), m.start(), m.end()) for m in TOKEN.finditer(self.code)]
        self.words = [t.text for t in self.tokens]
        self.match, self.inside, self.bodies = {}, [], {}
        stack = []
        for i, word in enumerate(self.words):
            if word in ")]}":
                while stack and self.words[stack[-1]] == "<":
                    stack.pop()
                if stack:
                    self.match[i], self.match[stack[-1]] = stack[-1], i
                    stack.pop()
            elif word == ">" and not self.is_binary(i) and stack and self.words[stack[-1]] == "<":
                self.match[i], self.match[stack[-1]] = stack[-1], i
                stack.pop()
            elif word == ";":
                while stack and self.words[stack[-1]] == "<":
                    stack.pop()
            self.inside.append(stack[-1] if stack else -1)
            if word in "([{" or (word == "<" and not self.is_binary(i)):
                stack.append(i)

    def is_binary(self, i):
        """An operator between two operands: between blanks."""
        t = self.tokens[i]
        return (t.text in RANK and t.begin > 0 and self.code[t.begin - 1].isspace()
                and self.code[t.end:t.end + 1].isspace() and i > 0)

    def first_of(self, i, rank):
        """The first token of the left operand of the operator i."""
        j = i - 1
        while j >= 0:
            word = self.words[j]
            if word in ")]}>" and j in self.match and self.match[j] < j:
                after = self.words[j + 1]
                if word in ")}" and j + 1 < i and (is_name(after) or after[0].isdigit() or after in ("++", "--", "*", "(")) \
                        and not self.is_binary(j + 1):
                    if after != "(" or word == "}":
                        break  # the head of a statement, or a block before it
                j = self.match[j] - 1
                continue
            if word in "([{;," or word in ENDS or word in ("?", ":"):
                break
            if RANK[word] < rank if self.is_binary(j) else word == "<":
                break
            j -= 1
        return j + 1

    def last_of(self, i, rank):
        """The last token of the right operand of the operator i."""
        j = i + 1
        while j < len(self.words):
            word = self.words[j]
            if word in "([{<" and j in self.match and self.match[j] > j:
                if word == "{" and j == i + 1:
                    return -1  # a list, which no expression takes
                j = self.match[j] + 1
                continue
            if word in ")]};," or (word == ">" and not self.is_binary(j)):
                break
            if rank >= 0 and (word in ("?", ":") or (self.is_binary(j) and RANK[word] <= rank)):
                break
            j += 1
        return j - 1

    def is_body(self, i):
        """Whether the brace i opens statements, and no class, enumeration, namespace or list."""
        if i not in self.bodies:
            j = i - 1
            while j >= 0 and self.words[j] not in ";{}":
                if self.words[j] in ("struct", "class", "enum", "union", "namespace", "extern", "=", "return"):
                    break
                j = self.match[j] - 1 if self.words[j] in ")]>" and j in self.match else j - 1
            before = self.words[i - 1] if i else ""
            self.bodies[i] = ((j < 0 or self.words[j] in ";{}" or before in (")", "]", "mutable", "noexcept"))
                              and before not in ("", "=", ",", "("))
        return self.bodies[i]

    def span(self, first, last):
        return self.tokens[first].begin, self.tokens[last].end

    def after_block(self, i):
        """The end of the statement, or of the block, that begins at token i."""
        while i < len(self.words) and self.words[i] != ";":
            i = self.match[i] + 1 if self.words[i] in "([{" and i in self.match else i + 1
        return i


def skipped(source):
    """Tokens in which nothing is changed: they only declare, are checked by the compiler, or are what the
    generic tests feed an operator."""
    out = set()
    for i, word in enumerate(source.words):
        if word in ("static_assert", "using", "typedef"):
            out.update(range(i, source.after_block(i)))
        elif word == "template" and i + 1 in source.match:
            out.update(range(i, source.match[i + 1] + 1))
        elif word == "examples" and source.words[i - 1:i + 2] == [".", "examples", "="]:
            j = i + 2
            while source.words[j] not in (",", "}"):
                j = source.match[j] + 1 if source.words[j] in "([{<" and j in source.match else j + 1
            out.update(range(i, j))
        elif source.words[i:i + 4] == ["{", ".", "operands", "="] and i in source.match:  # one of them
            out.update(range(i, source.match[i]))
        elif source.words[i:i + 3] == ["vector", "<", "Example"]:  # a function that makes them
            j = i + 4
            while j < len(source.words) and source.words[j] not in (";", "{", "="):
                j = source.match[j] + 1 if source.words[j] == "(" and j in source.match else j + 1
            if j < len(source.words) and source.words[j] == "{" and j in source.match:
                out.update(range(i, source.match[j] + 1))
    return out


def constant_expressions(source):
    """Tokens that the compiler computes, so that no number of the run can change them."""
    out = set()
    for i, word in enumerate(source.words):
        if word == "case":
            out.update(range(i, i + 3))
        elif word == "constexpr" and source.words[i - 1] == "if":
            out.update(range(i, source.match[i + 1]))
        elif word in ("constexpr", "enum"):
            j = i
            while j < len(source.words) and source.words[j] != ";":
                ends = source.words[j] == "{" and source.words[j - 1] in (")", "const", "noexcept")
                j = source.match[j] if source.words[j] in "([{" and j in source.match else j + 1
                if ends:
                    break
            out.update(range(i, j))
        elif word == "<" and i in source.match:
            out.update(range(i, source.match[i]))
    return out


def expression(begin, end, made):
    return [(begin, end, f"(pal_change(#) ? ({made}) : (", "))")]


def operators(source, i):
    word, tokens = source.words[i], source.tokens
    if word in ("++", "--"):
        joined = source.code[tokens[i].end:tokens[i].end + 1]
        if joined.isspace() or (i and tokens[i - 1].end == tokens[i].begin and source.words[i - 1] not in "([{!"):
            return
        last = i
        while last + 1 < len(tokens) and (is_name(source.words[last + 1]) or source.words[last + 1] in (".", "->", "::", "*")
                                          or (source.words[last + 1] in "([" and last > i)):
            if source.is_binary(last + 1):
                break
            last = source.match.get(last + 1, last + 1) if source.words[last + 1] in "([" else last + 1
        begin, end = source.span(i, last)
        made = OTHER[word] + source.text[tokens[i].end:end]
        yield i, "operator", word, OTHER[word], begin, end, made, expression(begin, end, made)
    elif word in OTHER and source.is_binary(i):
        rank = RANK[word]
        first, last = source.first_of(i, rank), source.last_of(i, rank)
        if first >= i or last <= i:
            t = tokens[i]
            yield i, "operator", word, OTHER[word], t.begin, t.end, OTHER[word], []
            return
        begin, end = source.span(first, last)
        made = source.text[begin:tokens[i].begin] + OTHER[word] + source.text[tokens[i].end:end]
        yield i, "operator", word, OTHER[word], begin, end, f"({made})", expression(begin, end, made)
    elif word in ("min", "max") and i > 1 and source.words[i - 1] == "::" and source.words[i - 2] == "std":
        other = "std::max" if word == "min" else "std::min"
        begin, end = source.span(i - 2, i)
        last = i + 1
        if source.words[last] == "<" and last in source.match:
            last = source.match[last] + 1
        wraps = []
        if source.words[last] == "(" and last in source.match:
            whole = source.tokens[source.match[last]].end
            wraps = expression(begin, whole, other + source.text[end:whole])
        yield i - 2, "operator", "std::" + word, other, begin, end, other, wraps
    elif word in ("true", "false"):
        begin, end = source.span(i, i)
        other = "false" if word == "true" else "true"
        yield i, "constant", word, other, begin, end, other, expression(begin, end, other)


def constants(source, i):
    word = source.words[i]
    if not NUMBER.match(word) or (i and source.words[i - 1] == "alignas"):
        return
    begin, end = source.span(i, i)
    whole = word.replace("'", "")
    if whole.isdigit():
        others = [str(int(whole) + 1)] + ([str(int(whole) - 1)] if int(whole) > 0 else [])
    else:
        others = [f"({word} + 1)"]
    for other in others:
        yield i, "constant", word, other, begin, end, other, expression(begin, end, other)


def conditions(source, i):
    if source.words[i] not in ("if", "while") or source.words[i + 1] != "(" or i + 1 not in source.match:
        return
    first, last = i + 2, source.match[i + 1] - 1
    if any(source.words[k] in ("=", ";") and source.inside[k] == i + 1 for k in range(first, last)):
        return
    begin, end = source.span(first, last)
    inside = source.text[begin:end]
    yield (i + 1, "condition", f"({inside})", f"(!({inside}))", begin, end, f"!({inside})",
           [(begin, end, "(pal_change(#) != static_cast<bool>(", "))")])


def starts_statement(source, i):
    """Whether a statement of a function begins at token i."""
    around = source.inside[i]
    if i == 0 or around < 0 or source.words[around] != "{" or not source.is_body(around):
        return False
    before = source.words[i - 1]
    if before == ")":
        opens = source.match.get(i - 1, 0)
        head = source.words[opens - 1]
        return head in HEADS or (head == "constexpr" and source.words[opens - 2] == "if")
    return before in ("else", "do", ";", "{", "}")


def end_of_statement(source, i):
    """Its semicolon, where the statement at token i is an expression and declares nothing; or None."""
    words, j, assigned = source.words, i, False
    if words[i] in NO_STATEMENT or not (is_name(words[i]) or words[i] in ("++", "--", "*", "(")):
        return None
    acts = words[i] in ("++", "--")
    while j < len(words) and words[j] != ";":
        word = words[j]
        if word in ")]}," or (word in "{" and not assigned):
            return None
        if not assigned:
            if is_name(word) and j > i and is_name(words[j - 1]):
                return None
            if word in ("*", "&", "&&") and j > i:
                return None
            if word == "<" and (j not in source.match or words[source.match[j] + 1] not in ("(", "::", "{")):
                return None
            if word in RANK and RANK[word] == -1:
                assigned = acts = True
            acts = acts or word in ("(", "++", "--")
        j = source.match[j] + 1 if word in "([{<" and j in source.match and source.match[j] > j else j + 1
    return j if j < len(words) and acts else None


def statements(source, i):
    if starts_statement(source, i):
        last = end_of_statement(source, i)
        if last is not None:
            begin, end = source.span(i, last)
            yield (i, "statement", source.text[begin:end], ";", begin, end, ";",
                   [(begin, end, "{ if (pal_change(#)) {} else { ", " } }")])
    word = source.words[i]
    if word == "return" and source.words[i + 1] != ";":
        last = source.after_block(i)
        begin, end = source.span(i, last)
        said = source.text[begin:end]
        if said[7:-1] not in ("{}", "true", "false", "nullptr", "std::nullopt") and not said[7:-1].isdigit():
            yield (i, "return", said, "return {};", begin, end, "return {};",
                   [(begin, end, "{ if (pal_change(#)) return {}; ", " }")])
    if word == "void":
        j = i + 1
        while j < len(source.words) and (is_name(source.words[j]) or source.words[j] in ("::", "~")):
            j += 1
        if j > i + 1 and source.words[j] == "(" and j in source.match:
            j = source.match[j] + 1
            while source.words[j] in ("const", "noexcept", "override", "final"):
                j += 1
            if source.words[j] == "{" and source.words[j + 1] != "}":
                end = source.tokens[j].end
                yield (j, "return", "{", "{ return;", end, end, " return;",
                       [(end, end, " if (pal_change(#)) return;", "")])


def arguments(source, i):
    """Two names or numbers side by side in a call."""
    words = source.words
    if words[i] != "," or source.inside[i] < 1 or words[source.inside[i]] != "(":
        return
    call = source.inside[i]
    if not (is_name(words[call - 1]) or words[call - 1] == ">") or words[call - 1] in HEADS:
        return
    first = last = i
    while words[first - 1] not in "(,":
        first -= 1
    while words[last + 1] not in "),":
        last += 1
    for k in list(range(first, i)) + list(range(i + 1, last + 1)):
        if not (is_name(words[k]) or words[k][0].isdigit() or words[k] == ".") or set(words[k]) == {"_"}:
            return  # "_": a literal
    simple = all(k % 2 == (0 if is_name(words[a]) or words[a][0].isdigit() else 1)
                 for lo, hi in ((first, i), (i + 1, last + 1)) for k, a in enumerate(range(lo, hi)))
    if not simple or first == i or last == i:
        return
    a, b = source.span(first, i - 1), source.span(i + 1, last)
    left, right = source.text[a[0]:a[1]], source.text[b[0]:b[1]]
    if left != right:
        yield (first, "arguments", f"{left}, {right}", f"{right}, {left}", a[0], b[1],
               f"{right}, {left}", [(*a, f"(pal_change(#) ? {right} : ", ")"), (*b, f"(pal_change(#) ? {left} : ", ")")])


def changes_of(file, text):
    """All changes of a file, in the order of its text."""
    source = Source(text)
    skip, constant = skipped(source), constant_expressions(source)
    lines = text.split("\n")
    starts = list(itertools.accumulate((len(line) + 1 for line in lines), initial=0))
    seen = collections.Counter()
    for i in range(len(source.tokens)):
        if i in skip:
            continue
        for kind in (conditions, statements, operators, constants, arguments):
            for at, what, before, after, begin, end, made, wraps in kind(source, i):
                of = source.tokens[at].begin
                row = bisect.bisect_right(starts, of)
                said = lines[row - 1].strip()
                before, after = " ".join(before.split()), " ".join(after.split())
                name = f"{file} | {said} | {before} -> {after}"
                seen[name] += 1
                if seen[name] > 1:
                    name += f" #{seen[name]}"
                wraps = [] if i in constant else wraps
                yield Change(file, row, of - starts[row - 1] + 1, what, before, after, begin, end, made, wraps, said, name)


def written(text, guarded, plain=None):
    """The text with all changes of `guarded` (number, change) in it, or `plain` alone in its plain form; and
    what stands where in it: (begin, end, number, whether the changed text itself stands there)."""
    if plain:
        return text[:plain.begin] + plain.made + text[plain.end:], []
    wraps = sorted(((b, e, head.replace("#", str(number), 1), tail, number, change.made)
                    for number, change in guarded for b, e, head, tail in change.wraps), key=lambda w: (w[0], -w[1]))
    out, places, size = ["#include \"changes.h\"\n"], [], len("#include \"changes.h\"\n")
    open_wraps, at = [], 0

    def put(piece):
        nonlocal size
        out.append(piece)
        size += len(piece)

    def close(until):
        nonlocal at
        while open_wraps and open_wraps[-1][1] <= until:
            _, end, tail, number, begin = open_wraps.pop()
            put(text[at:end])
            at = end
            put(tail)
            places.append((begin, size, number, False))

    for begin, end, head, tail, number, made in wraps:
        close(begin)
        if open_wraps and end > open_wraps[-1][1]:
            places.append((-1, -1, number, False))  # it cuts another in two
            continue
        put(text[at:begin])
        at = begin
        open_wraps.append((begin, end, tail, number, size))
        if made != ";" and made in head:
            begin = size + head.index(made)
            places.append((begin, begin + len(made), number, True))
        put(head)
    close(len(text))
    put(text[at:])
    return "".join(out), places
