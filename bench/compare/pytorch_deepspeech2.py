"""Deep Speech 2 of models/deepspeech2.h in PyTorch, as its users would write it.

nn.Conv2d, nn.BatchNorm over packed (that is, valid) frames, nn.GRU or nn.LSTM over packed sequences,
F.ctc_loss. It serves two ends: run by itself it times training steps and prints one JSON object, and
tests/train/golden/make_speech_steps.py takes golden values from it. Features are (B, T, bins).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import timing


class FrameNorm(nn.Module):
    """Batch norm over valid frames, zero elsewhere; x (B, C, T, bins), mask (B, T)."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x, mask):
        y = torch.zeros_like(x).transpose(1, 2)
        y[mask] = self.norm(x.transpose(1, 2)[mask])  # of (N, C, bins)
        return y.transpose(1, 2)


class DeepSpeech2(nn.Module):
    def __init__(self, bins=161, labels=29, convs=((11, 41, 2, 2), (11, 21, 1, 2)), channels=32,
                 cell="gru", layers=5, hidden=800, directions="sum", fully_connected=0):
        super().__init__()
        self.hidden, self.sum = hidden, directions == "sum"
        self.convs, self.conv_norms = nn.ModuleList(), nn.ModuleList()
        before = 1
        for time_extent, bin_extent, time_stride, bin_stride in convs:
            self.convs.append(nn.Conv2d(before, channels, (time_extent, bin_extent),
                                        (time_stride, bin_stride),
                                        (time_extent // 2, bin_extent // 2), bias=False))
            self.conv_norms.append(FrameNorm(channels))
            before = channels
            bins = (bins + 2 * (bin_extent // 2) - bin_extent) // bin_stride + 1
        rnn = {"gru": nn.GRU, "lstm": nn.LSTM}[cell]
        self.rnns, self.norms = nn.ModuleList(), nn.ModuleList()
        width = bins * channels
        for layer in range(layers):
            self.rnns.append(rnn(width, hidden, bidirectional=True))
            width = hidden if self.sum else 2 * hidden
            self.norms.append(nn.BatchNorm1d(width))  # after the layer
        self.fully_connected = nn.Linear(width, fully_connected) if fully_connected else None
        self.output = nn.Linear(fully_connected or width, labels)
        if cell == "lstm":  # one bias a gate, as ours has
            for name, parameter in self.named_parameters():
                if "bias_hh" in name:
                    nn.init.zeros_(parameter)
                    parameter.requires_grad_(False)

    def forward(self, features, frames):
        x = features.unsqueeze(1)  # (B, 1, T, bins)
        for conv, norm in zip(self.convs, self.conv_norms):
            x = conv(x)
            frames = torch.div(frames + 2 * conv.padding[0] - conv.kernel_size[0], conv.stride[0],
                               rounding_mode="floor") + 1
            mask = (torch.arange(x.shape[2]).unsqueeze(0) < frames.unsqueeze(1)).to(x.device)
            x = F.hardtanh(norm(x, mask), 0, 20)
        x = x.permute(2, 0, 3, 1).flatten(2)  # (T', B, bins' * channels)
        x = pack_padded_sequence(x, frames, enforce_sorted=False)
        for rnn, norm in zip(self.rnns, self.norms):
            x, _ = rnn(x)
            data = x.data
            if self.sum:
                data = data[:, :self.hidden] + data[:, self.hidden:]
            x = PackedSequence(norm(data), x.batch_sizes, x.sorted_indices, x.unsorted_indices)
        data = x.data
        if self.fully_connected is not None:
            data = F.hardtanh(self.fully_connected(data), 0, 20)
        x = PackedSequence(self.output(data), x.batch_sizes, x.sorted_indices, x.unsorted_indices)
        return pad_packed_sequence(x)[0], frames  # (T', B, labels)


def train_step(model, optimizer, batch, clip_norm=None):
    features, frames, labels, label_lengths = batch
    optimizer.zero_grad()
    logits, steps = model(features, frames)
    loss = F.ctc_loss(F.log_softmax(logits, 2), labels, steps, label_lengths, reduction="sum",
                      zero_infinity=True) / len(frames)
    loss.backward()
    if clip_norm:
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


def main():
    parser = timing.options(__doc__, batch=8, frames=400, labels=60, hidden=512, layers=3)
    parser.add_argument("--cell", choices=("gru", "lstm"), default="gru")
    args = parser.parse_args()
    timing.start(args)
    model = DeepSpeech2(cell=args.cell, layers=args.layers, hidden=args.hidden).to(args.device)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-4,
                                 fused=True)
    b = args.batch
    # Lengths stay on the host, where PyTorch packs sequences.
    batch = (torch.randn(b, args.frames, 161, device=args.device),
             torch.full((b,), args.frames),
             torch.randint(1, 29, (b, args.labels), device=args.device),
             torch.full((b,), args.labels))
    timing.report(args, model, lambda m: train_step(m, optimizer, batch, clip_norm=100),
                  samples=b, tokens=b * args.frames)


if __name__ == "__main__":
    main()
