// Random training steps of real operators, for properties of passes that look at what operators say
// of themselves: predicates, fused forms, costs.
#pragma once
#include <cstdint>

#include "core/program.h"

namespace pal::test {

struct NetworkOptions {
  int layers = 10;  // picked at random, each on a recent value
  int64_t batch = 4, width = 8, steps = 3;
};

// A loss over a random composition of products, activations (ReLU and ReLU6 among them), dropout
// with and without a mask, LSTM cells with and without lengths, and attention, all of separate
// nodes; its gradients; and plain gradient descent. Deterministic in the seed. Inputs "scalars"
// (the step's), "x", "c", "lengths" i32; state "keys", "v" and "w0", ..; outputs "loss" and
// gradients.
Program random_network(uint64_t seed, const NetworkOptions& options = {});

// How many a test tries: PAL_TEST_NETWORKS where that is set, else `usual`.
uint64_t networks_asked(uint64_t usual);

}  // namespace pal::test
