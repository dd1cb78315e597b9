"""CUDA C++ to C++: what macros cannot say is rewritten here, in the text that the preprocessor leaves.

Three things: dynamic shared memory becomes one symbol, known assembler becomes calls, and kernels are listed in a
table that says their parameters, so that Python can start them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# extern __shared__ __align__(16) unsigned char raw[];
_DYNAMIC = re.compile(r"\bextern\s+__shared__\s+([^;{}]*?)\b(\w+)\s*\[\s*\]\s*;")
_BOUNDS = re.compile(r"__launch_bounds__\s*\(((?:[^()]|\([^()]*\))*)\)")
_ATTRIBUTE = re.compile(
    r"__(?:launch_bounds|align|attribute|cluster_dims)__\s*\((?:[^()]|\([^()]*\))*\)"
)
_NAME = re.compile(r"(\w+)\s*\(")
_C_BLOCK = re.compile(r'extern\s*"C"\s*\{')
_ASSEMBLER = re.compile(r"\basm\s*(?:volatile)?\s*\(")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')

# The instruction without its operands, and the function of cuda_intrinsics.hpp that does the same.
_INSTRUCTIONS = (
    (re.compile(r"ld\.(acquire|relaxed|volatile|weak)?[\w.]*"), "assembler_load"),
    (re.compile(r"st\.(release|relaxed|volatile|weak)?[\w.]*"), "assembler_store"),
    (re.compile(r"red\.[\w.]*add[\w.]*"), "assembler_add"),
    (re.compile(r"atom\.[\w.]*add[\w.]*"), "assembler_fetch_add"),
    (re.compile(r"(fence|membar)\.[\w.]*"), "__threadfence"),
    (re.compile(r"nanosleep\.u32"), "__nanosleep"),
)


class UnknownAssembler(ValueError):
    """Assembler in a kernel that the emulator has no words for."""


def translated(preprocessed: str, expressions: Iterable[str]) -> str:
    """The C++ to compile after ``cuda_emulator.hpp``, with a table of its kernels at the end.

    ``expressions`` name instances of templates, as ``name_expressions`` of ``RawModule``.
    """
    text = _DYNAMIC.sub(r'extern \1 \2[] __asm__("cuda_emulator_dynamic_shared");', preprocessed)
    text = re.sub(r"\bstatic\s+__shared__\b", "__shared__", text)
    text = _without_assembler(text)
    entries = [
        f'CUDA_EMULATOR_ENTRY("{name}", {bounds or 1024}, {name}),'
        for name, bounds in kernels(preprocessed).items()
    ]
    entries += [f'CUDA_EMULATOR_ENTRY("{name}", 1024, {name}),' for name in expressions]
    return "\n".join(
        [
            text,
            "static const cuda_emulator::Entry cuda_emulator_entries[] = {",
            *entries,
            "{nullptr, nullptr, nullptr, 0, 0}};",
            "CUDA_EMULATOR_INTERFACE",
            "",
        ]
    )


def kernels(preprocessed: str) -> dict[str, str]:
    """The names of kernels that C linkage lets a caller find, each with its threads per block, "" if it has no bound."""
    blocks = [
        (block.start(), _end_of_block(preprocessed, block.end()))
        for block in _C_BLOCK.finditer(preprocessed)
    ]
    found = {}
    for match in re.finditer(r"\b__global__\b", preprocessed):
        start = max(preprocessed.rfind(end, 0, match.start()) for end in ";{}") + 1
        declaration = preprocessed[start : match.end() + 1000]
        has_c_linkage = re.match(r'[^;{}]*extern\s*"C"', declaration[: match.end() - start])
        if not has_c_linkage and not any(first < start < last for first, last in blocks):
            continue
        bounds = _BOUNDS.search(declaration.partition("{")[0])
        name = _NAME.search(_ATTRIBUTE.sub("", declaration[match.start() - start :])).group(1)
        found[name] = _split(bounds.group(1), ",")[0].strip() if bounds else ""
    return found


def _end_of_block(text: str, place: int) -> int:
    depth = 1
    while depth and place < len(text):
        depth += (text[place] == "{") - (text[place] == "}")
        place += 1
    return place


def _split(text: str, at: str) -> list[str]:
    """Pieces of ``text`` between separators that stand in no parentheses and no string."""
    pieces, depth, quoted, piece = [], 0, False, ""
    for place, character in enumerate(text):
        if character == '"' and text[place - 1 : place] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (character in "([{") - (character in ")]}")
        if character == at and depth == 0 and not quoted:
            pieces.append(piece)
            piece = ""
        else:
            piece += character
    return [*pieces, piece]


def _without_assembler(text: str) -> str:
    done, place = [], 0
    for match in _ASSEMBLER.finditer(text):
        if match.start() < place:
            continue
        end, depth = match.end(), 1
        while depth:
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        done += [text[place : match.start()], _call_for(text[match.end() : end - 1])]
        place = end
    return "".join([*done, text[place:]])


def _call_for(statement: str) -> str:
    """One or more calls for the assembler between the parentheses of an asm statement."""
    code, *operands = _split(statement, ":")
    instructions = "".join(_STRING.findall(code)).replace("\\n", " ").replace("\\t", " ")
    values = [value.strip()[value.strip().index("(") :] for value in _operands(operands[:2])]
    calls = []
    for instruction in filter(None, (piece.strip() for piece in instructions.split(";"))):
        name, _, rest = instruction.partition(" ")
        known = [function for pattern, function in _INSTRUCTIONS if pattern.fullmatch(name)]
        if not known:
            raise UnknownAssembler(
                f"assembler {instruction!r} is not known to the emulator. Write it with an intrinsic of CUDA, "
                f"or add it to the table of instructions in translating.py."
            )
        arguments = ", ".join(
            re.sub(r"[\[\]]", "", piece).strip() for piece in _split(rest, ",") if piece.strip()
        )
        arguments = re.sub(r"%(\d+)", lambda number: values[int(number.group(1))], arguments)
        prefix = "cuda_emulator::" if known[0].startswith("assembler") else ""
        calls.append(f"{prefix}{known[0]}({arguments})")
    return "((void)0" + "".join(f", {call}" for call in calls) + ")"


def _operands(groups: Sequence[str]) -> list[str]:
    return [piece for group in groups for piece in _split(group, ",") if piece.strip()]
