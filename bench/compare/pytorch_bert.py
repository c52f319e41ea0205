"""The BERT of models/bert.h in PyTorch, as its users would write it.

nn.TransformerEncoder, whose layers use fused attention, and a head that guesses the hidden words.
Run by itself it times training steps and prints one JSON object. Batches are batch-major, (B, S),
which is the faster one of nn.TransformerEncoder.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

import timing


class Bert(nn.Module):
    def __init__(self, vocab=30522, hidden=768, ffn=3072, heads=12, layers=12, positions=512,
                 dropout=0.1):
        super().__init__()
        self.words = nn.Embedding(vocab, hidden)
        self.positions = nn.Embedding(positions, hidden)
        self.segments = nn.Embedding(2, hidden)
        self.norm, self.dropout = nn.LayerNorm(hidden, eps=1e-12), nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(hidden, heads, ffn, dropout, "gelu", 1e-12,
                                           batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.dense, self.head_norm = nn.Linear(hidden, hidden), nn.LayerNorm(hidden, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(vocab))
        for name, parameter in self.named_parameters():  # Devlin et al. 2019, section A.2
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, padding=None):
        """tokens: (B, S); padding: (B, S), true where there is no word. Returns (B, S, V)."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.positions(places) + self.segments.weight[0]
        x = self.encoder(self.dropout(self.norm(x)), src_key_padding_mask=padding)
        y = self.head_norm(F.gelu(self.dense(x)))
        return F.linear(y, self.words.weight, self.bias)


def train_step(model, optimizer, tokens, hidden):
    """One update; returns the loss, a tensor. hidden: (B, S), the words to guess, 0 elsewhere."""
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(model(tokens).flatten(0, 1), hidden.flatten(), ignore_index=0)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def main():
    parser = timing.options(__doc__, batch=32, length=512, vocab=30522, hidden=768, ffn=3072,
                            heads=12, layers=12)
    args = parser.parse_args()
    timing.start(args)
    model = Bert(args.vocab, args.hidden, args.ffn, args.heads, args.layers,
                 max(512, args.length)).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    shape = (args.batch, args.length)
    tokens = torch.randint(4, args.vocab, shape, device=args.device)
    is_hidden = torch.rand(shape, device=args.device) < 0.15
    hidden = torch.where(is_hidden, torch.randint_like(tokens, 4, args.vocab), 0)
    timing.report(args, model, lambda m: train_step(m, optimizer, tokens, hidden),
                  samples=args.batch, tokens=args.batch * args.length)


if __name__ == "__main__":
    main()
