"""Makes one page of the files in page/ and the charts' library: style, scripts and licence inside, and a policy that
lets exactly these run.

usage: bundle.py OUTPUT_FOLDER LIBRARY.js LICENCE PAGE_FILE...

Writes head.html, middle.html and tail.html: between the first two comes the report in words, between the last two the
data (html_page.cc). Styles and scripts are put together in the order in which they are named.
"""

import base64
import hashlib
import pathlib
import re
import sys


def fail(message: str) -> None:
    sys.exit(f"bundle.py: {message}")


def source_hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def checked_script(name: str, text: str) -> str:
    # What would end the block early, or change how its text is read.
    found = re.search(r"<!--|</?script", text, re.IGNORECASE)
    if found:
        fail(f"{name} holds {found.group(0)!r}, which a script block must not")
    return text


def main(arguments: list[str]) -> None:
    if len(arguments) < 4:
        fail(__doc__)
    output = pathlib.Path(arguments[0])
    library_file, licence_file, *page_files = (pathlib.Path(name) for name in arguments[1:])
    read = {path: path.read_text(encoding="utf-8") for path in [library_file, licence_file, *page_files]}
    of_kind = {kind: [path for path in page_files if path.suffix == kind] for kind in (".html", ".css", ".js")}
    (template,) = of_kind[".html"]
    style = "\n".join(read[path] for path in of_kind[".css"])
    if "</style" in style.lower():
        fail("a style sheet holds '</style'")
    scripts = "(() => {\n'use strict';\n" + "\n".join(read[path] for path in of_kind[".js"]) + "\n})();\n"
    library = checked_script(library_file.name, read[library_file])
    checked_script("page/*.js", scripts)
    licence = read[licence_file].replace("--", "- -")  # "--" may end a comment of HTML
    policy = (f"default-src 'none'; script-src {source_hash(library)} {source_hash(scripts)}; "
              f"style-src {source_hash(style)}; base-uri 'none'; form-action 'none'")
    # Split first: what is put in may hold anything.
    pieces = re.split(r"\{\{(\w+)\}\}", read[template])
    values = {"policy": policy, "style": style, "library": library, "scripts": scripts,
              "licence": f"Charts: D3 (d3js.org), bundled by cuheap's build. Its licence:\n\n{licence}"}
    files, text = {}, ""
    for index, piece in enumerate(pieces):
        if index % 2 == 0:
            text += piece
        elif piece in values:
            text += values[piece]
        elif piece in ("words", "data"):
            files["head" if piece == "words" else "middle"] = text
            text = ""
        else:
            fail(f"{template.name} asks for {{{{{piece}}}}}, which is not known")
    files["tail"] = text
    if set(files) != {"head", "middle", "tail"}:
        fail(f"{template.name} must have {{{{words}}}} and {{{{data}}}}, in this order")
    output.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (output / f"{name}.html").write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
