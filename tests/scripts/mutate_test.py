"""Which changes scripts/mutate makes of a text, and how it writes them into it. Run by ctest."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import mutants  # noqa: E402


def inside(statements):
    return "void f() {\n" + statements + "\n}\n"


def changed(statements):
    """What its changes make of the statements of a function, each as a whole."""
    text = inside(statements)
    out = [text[:c.begin] + c.made + text[c.end:] for c in mutants.changes_of("x.cc", text)]
    return [made[len("void f() {\n"):-len("\n}\n")] for made in out if made.startswith("void f() {\n")]


class Changes(unittest.TestCase):
    def test_operators_constants_and_conditions(self):
        self.assertEqual(
            sorted(changed("  if (w >= 2 && w < n) continue;")),
            sorted([
                "  if ((w > 2) && w < n) continue;",
                "  if (w >= 2 && (w <= n)) continue;",
                "  if ((w >= 2 || w < n)) continue;",
                "  if (w >= 3 && w < n) continue;",
                "  if (w >= 1 && w < n) continue;",
                "  if (!(w >= 2 && w < n)) continue;",
            ]))

    def test_operands_reach_as_far_as_the_ranks_say(self):
        self.assertIn("  x = (a - b * c) < d;", changed("  x = a + b * c < d;"))
        self.assertIn("  x = (a - b + c);", changed("  x = a - b - c;"))
        self.assertIn("  if (a) (x -= b);", changed("  if (a) x += b;"))
        self.assertIn("  x = f(a, (b / c));", changed("  x = f(a, b * c);"))

    def test_statements_arguments_and_returns(self):
        self.assertIn("  ;", changed("  list.push_back(v);"))
        self.assertIn("  ;", changed("  list[i + 1] =\n      v;"))
        self.assertIn("  copy(b, a);", changed("  copy(a, b);"))
        self.assertIn("  copy(a, 2, b.c);", changed("  copy(a, b.c, 2);"))
        self.assertIn("  return {};", changed("  return bytes(a);"))
        self.assertNotIn("  ;", changed("  const int n = f();"))
        self.assertNotIn("  ;", changed("  std::vector<int> n(f());"))
        text = inside("  g(n);")
        self.assertIn("void f() { return;\n", [text[:c.begin] + c.made + "\n" for c in mutants.changes_of("x.cc", text)])

    def test_keeps_off_what_is_no_code(self):
        for text in ('  // a < b', '  f("a < b", \'c\');', "#if N == 2", "  std::vector<int> v;",
                     '  f(R"(a == 1)");', "/* 1 + 2\n 3 */"):
            for made in changed(text):
                self.assertEqual(made.strip(), ";", text)

    def test_keeps_off_the_examples_of_an_operator(self):
        text = "const OpDef x_op{.name = \"x\", .examples = {{.operands = {example({3, 7})}}}, .arity = 2};\n"
        for more in ("", "std::vector<Example> examples_of(int n) {\n  return {{.attrs = A{.n = 7}}};\n}\n",
                     "const OpDef y_op = op(\"y\", {{.operands = {example({3})}, .attrs = A{.n = 7}}});\n"):
            self.assertEqual([(c.before, c.after) for c in mutants.changes_of("x.cc", text + more)], [("2", "3"), ("2", "1")])

    def test_every_change_changes(self):
        text = (ROOT / "core" / "verify.cc").read_text()
        all_changes = list(mutants.changes_of("core/verify.cc", text))
        self.assertGreater(len(all_changes), 100)
        self.assertEqual(len({c.id for c in all_changes}), len(all_changes))
        for c in all_changes:
            self.assertNotEqual(text[c.begin:c.end].strip(), c.made.strip(), c.id)


PROGRAM = """static int twice(int n) { return n * 2; }
int main() {
  int sum = 0;
  for (int i = 0; i < 4; ++i) {
    if (i > 1 && i != 3) continue;
    sum += twice(i) - 1;
  }
  return sum + 10;
}
"""
HEADER = """#include <cstdlib>
static bool pal_change(int number) {
  const char* made = std::getenv("PAL_CHANGE");
  return made && std::atoi(made) == number;
}
"""


class Guards(unittest.TestCase):
    @unittest.skipIf(shutil.which("c++") is None, "no compiler")
    def test_a_guarded_program_is_each_of_its_plain_ones(self):
        def build(text, name):
            (folder / f"{name}.cc").write_text(text)
            subprocess.run(["c++", "-w", f"-I{folder}", str(folder / f"{name}.cc"), "-o", str(folder / name)], check=True)

        def said(name, **more):
            try:
                done = subprocess.run([str(folder / name)], capture_output=True, env=more, timeout=2, check=False)
                return done.returncode, done.stdout
            except subprocess.TimeoutExpired:
                return "timed out", b""

        changes = list(mutants.changes_of("x.cc", PROGRAM))
        self.assertGreater(len(changes), 15)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "changes.h").write_text(HEADER)
            build(mutants.written(PROGRAM, list(enumerate(changes)))[0], "guarded")
            build(PROGRAM, "plain")
            self.assertEqual(said("guarded"), said("plain"))
            for number in (3, 8, 12, 14):  # a build each
                build(mutants.written(PROGRAM, [], changes[number])[0], "changed")
                self.assertEqual(said("guarded", PAL_CHANGE=str(number)), said("changed"), changes[number].id)


if __name__ == "__main__":
    unittest.main()
