"""scripts/check-layers on small houses: what it accepts, and that it finds each kind of fault. Run by
ctest."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MAP = """core:             # programs
ops: core         # operators
memory: core      # bytes
train: ops memory # main
"""
FILES = {
    "core/program.h": "",
    "ops/add.h": '#include "core/program.h"\n',
    "ops/add.cc": '#include "ops/add.h"\n',
    "memory/plan.h": '#include <vector>\n#include "core/program.h"\n',
    "train/main.cc": '#include "core/program.h"\n#include "memory/plan.h"\n',
}


def check(files, rooms=MAP):
    """The exit code and what was printed."""
    with tempfile.TemporaryDirectory() as folder:
        house = pathlib.Path(folder)
        for name, text in {**files, "docs/rooms.txt": rooms}.items():
            (house / name).parent.mkdir(parents=True, exist_ok=True)
            (house / name).write_text(text)
        done = subprocess.run([sys.executable, ROOT / "scripts" / "check-layers", "--root", house],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class CheckLayers(unittest.TestCase):
    def test_a_sound_house_passes(self):
        code, said = check(FILES)
        self.assertEqual(code, 0, said)
        self.assertIn("4 rooms, 4 includes between them", said)

    def test_an_include_against_the_map_is_named_with_its_line(self):
        code, said = check({**FILES, "memory/plan.cc": '// a\n#include "ops/add.h"\n'})
        self.assertEqual(code, 1)
        self.assertIn("memory/plan.cc:2: memory may not use ops (ops/add.h)", said)

    def test_a_circle_between_stems_is_found_through_all_their_files(self):
        code, said = check({**FILES, "core/op.h": "", "core/op.cc": '#include "core/program.h"\n',
                            "core/program.cc": '#include "core/op.h"\n'})
        self.assertEqual(code, 1)
        self.assertIn("circle of includes: core/op, core/program", said)

    def test_the_map_has_every_room_and_no_other(self):
        code, said = check({**FILES, "ops/norms/norm.h": ""})
        self.assertEqual(code, 1)
        self.assertIn("ops/norms: the map has no line for this room", said)
        code, said = check(FILES, MAP + "models: ops\n")
        self.assertEqual(code, 1)
        self.assertIn("models: the map has a line for a room without files", said)

    def test_a_map_that_uses_what_comes_later_is_refused(self):
        code, said = check(FILES, "core: ops\n" + MAP.replace("core:  ", "data:  "))
        self.assertEqual(code, 2)
        self.assertIn("ops must stand on a line above core", said)

    def test_this_house_is_sound(self):
        done = subprocess.run([sys.executable, ROOT / "scripts" / "check-layers"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
