"""Which changes scripts/mutate makes of a line, and of which text it keeps off. Run by ctest."""
import importlib.machinery
import importlib.util
import pathlib
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LOADER = importlib.machinery.SourceFileLoader("mutate", str(ROOT / "scripts" / "mutate"))
mutate = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", LOADER))
LOADER.exec_module(mutate)


def changed(text):
    """The texts that its changes make of it, each as a whole."""
    lines = text.split("\n")
    out = []
    for m in mutate.mutants_of("x.cc", text):
        line = lines[m.line - 1]
        made = line[:m.column] + m.after + line[m.column + len(m.before):]
        out.append("\n".join(lines[:m.line - 1] + [made] + lines[m.line:]))
    return out


class Changes(unittest.TestCase):
    def test_operators_constants_and_conditions(self):
        self.assertEqual(
            sorted(changed("  if (w >= 2 && w < n) continue;")),
            sorted([
                "  if (w > 2 && w < n) continue;",
                "  if (w >= 2 && w <= n) continue;",
                "  if (w >= 2 || w < n) continue;",
                "  if (w >= 3 && w < n) continue;",
                "  if (w >= 1 && w < n) continue;",
                "  if (!(w >= 2 && w < n)) continue;",
            ]))

    def test_statements_arguments_and_returns(self):
        self.assertIn("  ;", changed("  list.push_back(v);"))
        self.assertIn("  copy(b, a);", changed("  copy(a, b);"))
        self.assertIn("  return {};", changed("  return bytes;"))
        self.assertIn("void f(int n) { return;\n  g(n);", changed("void f(int n) {\n  g(n);"))
        self.assertNotIn("  ;", changed("  const int n = f();"))

    def test_keeps_off_what_is_no_code(self):
        for text in ('  // a < b', '  f("a < b", \'1\');', "#if N == 2", "  std::vector<int> v;",
                     'R"(a == 1)"', "/* 1 + 2\n 3 */"):
            for made in changed(text):
                self.assertEqual(made.strip(), ";", text)

    def test_every_change_changes(self):
        text = (ROOT / "core" / "verify.cc").read_text()
        all_made = changed(text)
        self.assertGreater(len(all_made), 100)
        self.assertNotIn(text, all_made)


if __name__ == "__main__":
    unittest.main()
