#!/usr/bin/env python3
"""Makes bleu.json: what sacreBLEU says of tricky small corpora.

    pip install sacrebleu==2.6.0 && python make_bleu.py
"""
import json
import os

from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

LINES = [
    "", " ", "Hello, world!", "It cost 1,000.5 dollars, 5.", "a.b,c 1.a a.1 1.1 ,1 1, .5 5.",
    "well-known 10-year-old 5-4 -5 a-5 5-", "&quot;Quoted&quot; &amp;amp; &lt;b&gt; &apos;s &amp;lt;",
    "Ellipsis... and more.... ..,, .,.,", "don't 'quoted' it's o'clock", "«Guten Tag», sagte er – „ja“.",
    "Xin chào, thế giới!", "Tôi nói: “Không…” rồi đi.", "non\u00a0breaking\u2003space\u3000wide ",
    "trailing nbsp\u00a0", "tab\tseparated\x1ccontrol", "$5.00 50% #1 @home a/b c\\d [x] {y} (z) <skipped>w",
    "~`!@#$%^&*()_+-={}[]|:;\"<>?,./'", "日本語。テスト、です。 3.14、2,5", "é.è,ê ễ. ,ộ 1.ế ế.1 1,ế", "U.S.A. e.g. 3.5.7",
    "semi;colon:12:30", "soft\u00adhyphen zero\u200bwidth", "mid\nline break-\nhyphen", "emoji 😀.😀,5😀",
    "5.😀 5,é 5.", "a--b 1--2 1-a", "1.,2 ,.1 .-. 7-.", "\u2028line\u2029sep\x85nel",
]

CASES = {
    "perfect": (["The cat sat on the mat."], ["The cat sat on the mat."]),
    "typical": (
        ["The quick brown fox jumped over the lazy dog.", "He said \"no\", and 1,000.5 people left.",
         "It's a well-known fact that 3-4 cats sleep."],
        ["The quick brown fox jumps over the lazy dog.", "He said &quot;no&quot; and 1,000.5 people went.",
         "It is a well-known fact that 3-4 cats are sleeping."]),
    "vietnamese": (
        ["Tôi không biết anh ấy ở đâu .", "Hôm nay trời đẹp quá !", "Chúng tôi sẽ đi đến thành phố."],
        ["Tôi không biết anh ấy đang ở đâu.", "Hôm nay trời rất đẹp!", "Chúng ta sẽ đi đến thành phố ."]),
    "short sentences": (["Hi there.", "Yes."], ["Hi there!", "Yes."]),
    "two words only": (["a b"], ["a b"]),
    "smoothed orders": (["a x b y c z d w"], ["a q b r c s d t"]),
    "smoothed one order": (["a b c x d e f y g h"], ["a b c d e f g h i j k"]),
    "no match": (["a b c d e"], ["v w x y z"]),
    "empty hypothesis": (["", "the cat sat on the mat"], ["a dog ran far away", "the cat sat on a mat"]),
    "all hypotheses empty": (["", ""], ["a b c d", "e f g h"]),
    "empty reference": (["a b c d e", "one two three four five"], ["", "one two three four five six"]),
    "all references empty": (["a b c d e"], [""]),
    "repeated words are clipped": (["the the the the the the the"], ["the cat is on the mat with the hat"]),
    "too long": (["a b c d e f g h i j k l"], ["a b c d e f"]),
    "too short": (["a b c d e"], ["a b c d e f g h i j k l"]),
    "case matters": (["The Cat Sat On The Mat"], ["the cat sat On The Mat"]),
    "unicode punctuation": (
        ["“Quoted” — said she… right?", "«Oui», dit-il ; 3 000 €."],
        ["\"Quoted\" - said she... right?", "« Oui », dit-il ; 3 000 €."]),
    "unicode spaces": (["a\u00a0b c\u3000d e f\u00a0"], ["a b c d e f"]),
    "the lines, crossed": (LINES[:-1], LINES[1:]),
    "the lines, halved": ([line[: len(line) // 2 + 1] for line in LINES], LINES),
}


def main():
    cases = []
    for name, (hypotheses, references) in CASES.items():
        for tokenizer in ("13a", "none"):
            score = BLEU(tokenize=tokenizer).corpus_score(hypotheses, [references])
            cases.append({
                "name": name, "tokenizer": tokenizer, "hypotheses": hypotheses, "references": references,
                "score": score.score, "correct": score.counts, "total": score.totals,
                "precisions": score.precisions, "brevity_penalty": score.bp,
                "hypothesis_length": score.sys_len, "reference_length": score.ref_len,
                "printed": str(score)})
    tokenizer = Tokenizer13a()
    lines = [{"line": line, "words": tokenizer(line.rstrip())} for line in LINES]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bleu.json")
    with open(path, "w") as out:
        json.dump({"lines": lines, "cases": cases}, out, indent=1)
        out.write("\n")


main()
