"""Makes ctc.json: PyTorch's CTC loss and gradient of 500 random cases, in f64.

    python make_ctc.py

Needs torch. The cases themselves are not in the file: tests/ops/losses/ctc_loss_test.cc draws the same ones
from the same generator (Lcg), and of a gradient two weighted sums are kept. `loss` is null where no
alignment exists (infinite).
"""
import json
import pathlib

import torch
import torch.nn.functional as F


class Lcg:
    def __init__(self, state):
        self.state = state

    def bits(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.state >> 40  # 24 bits

    def below(self, n):
        return self.bits() % n

    def unit(self):  # in [-1, 1), exact in f32
        return self.bits() / 2**23 - 1


def case(number):
    draws = Lcg(number)
    draws.bits()
    steps, width = 1 + draws.below(20), 2 + draws.below(7)
    length = draws.below(9)
    scale = [1, 4, 16][draws.below(3)]
    labels = []
    for _ in range(length):  # one in three repeats the one before
        again = draws.below(3) == 0 and labels
        labels.append(labels[-1] if again else 1 + draws.below(width - 1))
    logits = [[scale * draws.unit() for _ in range(width)] for _ in range(steps)]
    weights = [[[draws.unit() for _ in range(width)] for _ in range(steps)] for _ in range(2)]
    x = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    loss = F.ctc_loss(F.log_softmax(x, 1).unsqueeze(1), torch.tensor([labels], dtype=torch.long),
                      torch.tensor([steps]), torch.tensor([length]), blank=0, reduction="sum",
                      zero_infinity=False)
    if torch.isinf(loss):
        return {"loss": None}
    loss.backward()
    sums = [(x.grad * torch.tensor(w, dtype=torch.float64)).sum().item() for w in weights]
    return {"loss": loss.item(), "sums": sums}


cases = [case(n) for n in range(500)]
text = "[\n" + ",\n".join(" " + json.dumps(c) for c in cases) + "\n]\n"
(pathlib.Path(__file__).parent / "ctc.json").write_text(text)
print(sum(c["loss"] is None for c in cases), "of 500 impossible; torch", torch.__version__)
