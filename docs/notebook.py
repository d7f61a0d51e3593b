"""The notebook of the documentation: run as a script, with what its cells say stored in it, and shown on a page.

python docs/notebook.py docs/own_policy.ipynb      # after `make reproduce`: runs it and stores the outputs
"""

import ast
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


def run(path: Path) -> None:
    """Run the cells of a notebook in the working folder, one after another, and store their outputs in the file."""
    notebook, known = json.loads(path.read_text(encoding="utf-8")), {"__name__": "__main__"}
    for number, cell in enumerate(_code(notebook), 1):
        said = io.StringIO()
        with redirect_stdout(said):
            shown = _executed("".join(cell["source"]), known)
        outputs = [{"output_type": "stream", "name": "stdout", "text": _lines(said.getvalue())}] if said.tell() else []
        if shown is not None:
            data = {"text/plain": _lines(repr(shown))}
            if hasattr(shown, "_repr_html_"):
                data["text/html"] = _lines(shown._repr_html_())
            result = {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}
            outputs.append(result)
        cell |= {"outputs": outputs, "execution_count": number}
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def page(path: Path) -> str:
    """The cells and their stored outputs, in Markdown that MyST reads."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text", ())})
            if "text/html" in data:
                parts.append(f"```{{raw}} html\n{''.join(data['text/html'])}\n```")
            else:
                parts.append(f"```text\n{''.join(data['text/plain']).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _code(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _executed(source: str, known: dict[str, Any]) -> Any:
    """Run the source; return the value of its last line, where that is an expression."""
    *before, last = ast.parse(source).body
    body = before if isinstance(last, ast.Expr) else [*before, last]
    exec(compile(ast.Module(body, []), "<cell>", "exec"), known)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "<cell>", "eval"), known)
    return None


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        run(Path(name))
