from pathlib import Path

from dueline.server.rotating import RotatingFile


def test_lines_are_appended_also_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"before\n")
    file = RotatingFile(path)

    file.write(b"one\n")
    file.write(b"two\n")

    assert path.read_bytes() == b"before\none\ntwo\n"


def test_the_file_and_the_one_before_it_stay_small(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    file = RotatingFile(path, size_bytes_max=100)
    lines = [b"line %03d\n" % number for number in range(100)]

    for line in lines:
        file.write(line)

    older = tmp_path / "x.log.1"
    kept = older.read_bytes() + path.read_bytes()
    assert sorted(tmp_path.iterdir()) == [path, older]
    assert b"".join(lines).endswith(kept)
    assert 100 < len(kept) <= 2 * (100 + len(lines[0]))
