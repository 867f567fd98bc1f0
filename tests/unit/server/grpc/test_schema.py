"""What is served is what docs/protocol/grpc.md says."""

import re
from pathlib import Path

from dueline.server.grpc.codes import Code
from dueline.server.grpc.schema import METHODS

PAGE = (Path(__file__).parents[4] / "docs" / "protocol" / "grpc.md").read_text()


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_page_names_every_method_with_its_kind() -> None:
    kinds: dict[str, str] = {}
    for names, kind in re.findall(
        r"^\| ([\w, ]+) \| ([\w ]+) \|", section("Methods"), re.MULTILINE
    ):
        kinds |= dict.fromkeys(names.split(", "), kind)
    kinds.pop("method")

    assert kinds == {
        name: {
            (False, False): "unary",
            (False, True): "answers as a stream",
            (True, True): "both ways",
        }[request.startswith("*"), answer.startswith("*")]
        for name, (request, answer) in METHODS.items()
    }


def test_page_names_every_code() -> None:
    cells = re.findall(r"^\| ([\d, ]+) \|", section("Codes"), re.MULTILINE)

    assert {int(number) for cell in cells for number in cell.split(", ")} == set(Code)
