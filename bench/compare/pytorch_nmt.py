"""The recurrent translator of models/nmt.h in PyTorch, as its users would write it.

nn.Embedding, nn.LSTM over packed sequences in the encoder, nn.LSTMCell in the decoder,
F.cross_entropy. It serves two ends: bench/compare/step.sh times it beside ours, and
tests/train/golden/make_nmt_steps.py takes golden values from it. Run by itself it times training
steps and prints one JSON object.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import timing

PAD = 0


class Nmt(nn.Module):
    """LSTM encoder, attention, LSTM decoder with input feeding; batches are time-major, (T, B)."""

    def __init__(self, source_vocab, target_vocab, embedding=512, hidden=512, attention_size=512,
                 encoder_layers=2, decoder_layers=2, bidirectional=True, reverse_source=False,
                 input_feeding=True, attention="mlp", tie_target=False, dropout=0.0):
        super().__init__()
        self.hidden, self.attention = hidden, attention
        self.input_feeding, self.reverse_source = input_feeding, reverse_source
        self.dropout = nn.Dropout(dropout)
        self.source_embedding = nn.Embedding(source_vocab, embedding)
        self.target_embedding = nn.Embedding(target_vocab, embedding)
        self.encoder = nn.ModuleList()
        for layer in range(encoder_layers):
            two_ways = layer == 0 and bidirectional
            self.encoder.append(nn.LSTM(embedding if layer == 0 else hidden,
                                        hidden // 2 if two_ways else hidden,
                                        bidirectional=two_ways))
        self.init_h = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(decoder_layers))
        self.init_c = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(decoder_layers))
        fed = embedding + hidden if input_feeding else embedding
        self.decoder = nn.ModuleList(nn.LSTMCell(fed if layer == 0 else hidden, hidden)
                                     for layer in range(decoder_layers))
        self.key = nn.Linear(hidden, attention_size, bias=False)
        self.query = nn.Linear(hidden, attention_size, bias=False)
        if attention == "mlp":
            self.v = nn.Parameter(torch.empty(attention_size).uniform_(-0.1, 0.1))
        else:
            self.g = nn.Parameter(torch.ones(1))
        self.combine = nn.Linear(2 * hidden, hidden, bias=False)  # of [context; h]
        self.output = nn.Linear(hidden, target_vocab)
        if tie_target:
            self.output.weight = self.target_embedding.weight
        # One bias a gate, as ours has: PyTorch's second one would double its learning rate.
        for name, parameter in self.named_parameters():
            if "bias_hh" in name:
                nn.init.zeros_(parameter)
                parameter.requires_grad_(False)

    def encode(self, source, lengths):
        if self.reverse_source:
            steps = torch.arange(source.shape[0]).unsqueeze(1)
            flipped = lengths.unsqueeze(0) - 1 - steps
            source = source.gather(0, torch.where(flipped >= 0, flipped, steps).to(source.device))
        x = self.dropout(self.source_embedding(source))
        for number, layer in enumerate(self.encoder):
            if number > 0:
                x = self.dropout(x)
            packed = pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False)
            packed, (h, _) = layer(packed)
            x, _ = pad_packed_sequence(packed, total_length=source.shape[0])
            last = torch.cat(list(h), dim=-1)
        return x, last

    def forward(self, source, lengths, target_in):
        encoded, last = self.encode(source, lengths)  # (S, B, H), (B, H)
        values = encoded.transpose(0, 1).contiguous()  # (B, S, H)
        keys = self.key(values)  # (B, S, A)
        padding = torch.arange(source.shape[0]).unsqueeze(0) >= lengths.unsqueeze(1)  # (B, S)
        padding = padding.to(source.device)
        states = [(torch.tanh(h(last)), torch.tanh(c(last)))
                  for h, c in zip(self.init_h, self.init_c)]
        attended = torch.zeros_like(last)
        words = self.dropout(self.target_embedding(target_in))  # (T, B, E)
        outputs = []
        for word in words.unbind(0):
            x = torch.cat([word, attended], dim=1) if self.input_feeding else word
            for layer, cell in enumerate(self.decoder):
                states[layer] = cell(x if layer == 0 else self.dropout(x), states[layer])
                x = states[layer][0]
            q = self.query(x)  # (B, A)
            if self.attention == "mlp":
                score = torch.tanh(keys + q.unsqueeze(1)) @ self.v  # (B, S)
            else:
                score = self.g * torch.bmm(keys, q.unsqueeze(2)).squeeze(2)
            weights = score.masked_fill(padding, float("-inf")).softmax(dim=1)
            context = torch.bmm(weights.unsqueeze(1), values).squeeze(1)  # (B, H)
            attended = torch.tanh(self.combine(torch.cat([context, x], dim=1)))
            outputs.append(attended)
        return self.output(self.dropout(torch.stack(outputs)))  # (T, B, V)


def train_step(model, optimizer, batch, label_smoothing=0.0, clip_value=None, clip_norm=None):
    """One update; returns the loss, a tensor."""
    source, lengths, target_in, target_out = batch
    optimizer.zero_grad(set_to_none=True)
    logits = model(source, lengths, target_in)
    loss = F.cross_entropy(logits.flatten(0, 1), target_out.flatten(), ignore_index=PAD,
                           label_smoothing=label_smoothing)
    loss.backward()
    weights = [p for p in model.parameters() if p.requires_grad]
    if clip_norm is not None:
        nn.utils.clip_grad_norm_(weights, clip_norm)
    if clip_value is not None:
        nn.utils.clip_grad_value_(weights, clip_value)
    optimizer.step()
    return loss.detach()


def main():
    parser = timing.options(__doc__, batch=128, source_length=30, target_length=30,
                            source_vocab=17192, target_vocab=7710, hidden=512, layers=2)
    parser.add_argument("--attention", choices=["mlp", "scaled_luong"], default="mlp")
    args = parser.parse_args()
    timing.start(args)
    size = {"embedding": args.hidden, "hidden": args.hidden, "attention_size": args.hidden}
    model = Nmt(args.source_vocab, args.target_vocab, **size, encoder_layers=args.layers,
                decoder_layers=args.layers, attention=args.attention,
                reverse_source=True).to(args.device)
    # The fused Adam is PyTorch's fastest on a CPU.
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-4,
                                 fused=True)
    s, t, b = args.source_length, args.target_length, args.batch
    words = [torch.randint(4, vocab, shape, device=args.device) for vocab, shape in (
        (args.source_vocab, (s, b)), (args.target_vocab, (t, b)), (args.target_vocab, (t, b)))]
    batch = (words[0], torch.full((b,), s), words[1], words[2])  # packing wants lengths on the CPU
    timing.report(args, model, lambda m: train_step(m, optimizer, batch, clip_value=1.0),
                  samples=b, tokens=b * (s + t))


if __name__ == "__main__":
    main()
