"""The Transformer of models/transformer.h in PyTorch, as its users would write it.

nn.Linear, nn.LayerNorm, F.scaled_dot_product_attention, F.cross_entropy. It serves two ends: run by
itself it times training steps and prints one JSON object, and
tests/train/golden/make_transformer_steps.py takes golden values from it. Batches are time-major,
(T, B), as ours.
"""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from pytorch_nmt import add_options, measure, set_up


def positions(steps, width):
    """Vaswani et al. 2017, section 3.5: (T, 1, D)."""
    angle = (torch.arange(steps, dtype=torch.float64).unsqueeze(1)
             * 10000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width))
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)[:, :width].float().unsqueeze(1)


class Attention(nn.Module):
    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))

    def forward(self, x, memory, mask=None, causal=False):
        def split(y):  # (T, B, D) -> (B, H, T, D/H)
            return y.unflatten(2, (self.heads, -1)).permute(1, 2, 0, 3)

        y = F.scaled_dot_product_attention(
            split(self.q(x)), split(self.k(memory)), split(self.v(memory)), attn_mask=mask,
            is_causal=causal, dropout_p=self.dropout if self.training else 0.0)
        return self.o(y.permute(2, 0, 1, 3).flatten(2))


class Residual(nn.Module):
    """A sublayer with its residual sum and its layer norm, after it or before it."""

    def __init__(self, sublayer, hidden, norm, dropout):
        super().__init__()
        self.sublayer, self.norm, self.pre = sublayer, nn.LayerNorm(hidden), norm == "pre"
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory=None, **masks):
        y = self.norm(x) if self.pre else x
        if isinstance(self.sublayer, Attention):
            y = self.sublayer(y, y if memory is None else memory, **masks)
        else:
            y = self.sublayer(y)
        x = x + self.dropout(y)
        return x if self.pre else self.norm(x)


class Transformer(nn.Module):
    def __init__(self, source_vocab, target_vocab, hidden=512, ffn=2048, heads=8, encoder_layers=6,
                 decoder_layers=6, norm="post", tie_embeddings="none", dropout=0.1):
        super().__init__()
        self.hidden = hidden
        self.dropout = nn.Dropout(dropout)
        self.source_embedding = nn.Embedding(source_vocab, hidden)
        self.target_embedding = nn.Embedding(target_vocab, hidden)
        self.output = nn.Linear(hidden, target_vocab, bias=False)
        if tie_embeddings == "all":
            self.source_embedding.weight = self.target_embedding.weight
        if tie_embeddings != "none":
            self.output.weight = self.target_embedding.weight

        def layer(attentions):
            sublayers = [Attention(hidden, heads, dropout) for _ in range(attentions)]
            sublayers.append(nn.Sequential(nn.Linear(hidden, ffn), nn.ReLU(), nn.Dropout(dropout),
                                           nn.Linear(ffn, hidden)))
            return nn.ModuleList(Residual(s, hidden, norm, dropout) for s in sublayers)

        self.encoder = nn.ModuleList(layer(1) for _ in range(encoder_layers))
        self.decoder = nn.ModuleList(layer(2) for _ in range(decoder_layers))
        ends = [nn.LayerNorm(hidden) if norm == "pre" else nn.Identity() for _ in range(2)]
        self.encoder_norm, self.decoder_norm = ends

    def embed(self, table, words):
        x = math.sqrt(self.hidden) * table(words) + positions(len(words), self.hidden)
        return self.dropout(x)

    def forward(self, source, lengths, target_in):
        seen = torch.arange(len(source)).unsqueeze(0) < lengths.unsqueeze(1)  # (B, S)
        mask = seen[:, None, None, :]
        x = self.embed(self.source_embedding, source)
        for attention, ffn in self.encoder:
            x = ffn(attention(x, mask=mask))
        memory = self.encoder_norm(x)
        x = self.embed(self.target_embedding, target_in)
        for attention, source_attention, ffn in self.decoder:
            x = ffn(source_attention(attention(x, causal=True), memory, mask=mask))
        return self.output(self.decoder_norm(x))  # (T, B, V)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in [("batch", 64), ("source-length", 30), ("target-length", 30),
                        ("vocab", 8004), ("hidden", 512), ("ffn", 2048), ("heads", 8),
                        ("layers", 6)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dropout", type=float, default=0.1)
    add_options(parser)
    args = parser.parse_args()
    set_up(args)
    model = Transformer(args.vocab, args.vocab, args.hidden, args.ffn, args.heads, args.layers,
                        args.layers, tie_embeddings="all", dropout=args.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=7e-4, betas=(0.9, 0.98), eps=1e-9,
                                 fused=True)  # PyTorch's fastest
    s, t, b = args.source_length, args.target_length, args.batch
    words = [torch.randint(4, args.vocab, shape) for shape in ((s, b), (t, b), (t, b))]
    batch = (words[0], torch.full((b,), s), words[1], words[2])
    measure(args, model, optimizer, batch, label_smoothing=0.1)


if __name__ == "__main__":
    main()
