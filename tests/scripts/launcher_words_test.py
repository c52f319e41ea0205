"""The words of the launcher (pal, at the root) beside the commands of the program (train/commands): a
word that both have must be handed on by the launcher, or the command could not be reached. Run by
ctest."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LAUNCHER = (ROOT / "pal").read_text()
SOURCES = [path.read_text() for path in sorted((ROOT / "train" / "commands").glob("*.cc"))]


def words_of(launcher):
    """The words of its last case, without patterns and flags."""
    labels = re.findall(r"^  ([^ ()*][^()*]*)\)", launcher[launcher.rindex("\ncase "):], re.M)
    words = {word.strip() for label in labels for word in label.split("|")}
    return {word for word in words if not word.startswith("-")}


def unreachable(launcher, commands):
    """The commands that the launcher keeps to itself."""
    lost = []
    for word in sorted(words_of(launcher) & set(commands)):
        body = re.search(rf"^{word}_command\(\) {{\n(.*?)^}}", launcher, re.M | re.S)
        if not body or f'"$build/pal" {word} ' not in body[1]:
            lost.append(word)
    return lost


class LauncherWords(unittest.TestCase):
    def setUp(self):
        self.commands = [name for source in SOURCES
                         for name in re.findall(r'return command<\w+>\(\s*"([^"]+)"', source)]

    def test_both_lists_are_read(self):
        rows = [row for source in SOURCES for row in re.findall(r"\brow\((\w+)\)", source)]
        self.assertEqual(sorted(name.replace("-", "_") for name in self.commands), sorted(rows))
        self.assertEqual(words_of(LAUNCHER), {"help", "check", "test", "bench"})

    def test_every_command_is_reached(self):
        self.assertEqual(unreachable(LAUNCHER, self.commands), [])

    def test_a_command_that_the_launcher_keeps_is_found(self):
        self.assertEqual(unreachable(LAUNCHER, self.commands + ["check", "help"]),
                         ["check", "help"])
        kept = LAUNCHER.replace('"$build/pal" bench "$@"', "true")
        self.assertEqual(unreachable(kept, self.commands), ["bench"])


if __name__ == "__main__":
    unittest.main()
