"""Count lines of code as the example states them: formatted, without blank lines, comments and docstrings.

python tools/count_glue.py FOLDER: every Python file below FOLDER counts as glue, except those that its README lists on
the line that begins with "Not glue:".  Exit code 1 if there is more glue than LIMIT.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from pathlib import Path

LIMIT = 50
_NOT_GLUE = re.compile(r"^Not glue: (.+)$", re.MULTILINE)
_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(text: str) -> int:
    """The lines of *text* that hold code."""
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            docstring = node.body[0]
            lines -= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def count(folder: Path) -> tuple[dict[str, int], dict[str, int]]:
    """The lines of every file of glue below *folder*, and of the files that its README leaves out."""
    stated = _NOT_GLUE.search((folder / "README.md").read_text(encoding="utf-8"))
    others = set(re.findall(r"`([\w/.-]+)`", stated[1])) if stated else set()
    files = [path for path in sorted(folder.rglob("*.py")) if "tests" not in path.relative_to(folder).parts]
    lines = {str(path.relative_to(folder)): code_lines(path.read_text(encoding="utf-8")) for path in files}
    glue = {name: number for name, number in lines.items() if Path(name).name not in others}
    return glue, {name: number for name, number in lines.items() if name not in glue}


def main() -> int:
    """Print the table; 1 if there is too much glue."""
    parser = argparse.ArgumentParser(description="Count the lines of glue of a workload.")
    parser.add_argument("folder", type=Path)
    glue, others = count(parser.parse_args().folder)
    for name, lines in [*others.items(), *glue.items()]:
        print(f"{lines:>5}  {'glue' if name in glue else 'game'}  {name}")
    print(f"{sum(glue.values()):>5}  lines of glue, at most {LIMIT}")
    return int(sum(glue.values()) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
