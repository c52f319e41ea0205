// The networks that the papers' figures are about, at their published sizes: training steps that
// can be recorded and planned without data.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/program.h"

namespace pal {

struct PaperNetwork {
  std::string name;
  std::string of;         // what a sample is: "224x224", "50 + 50 words"
  int64_t published = 0;  // weights; 0: the papers give no exact count
  // A step of plain gradient descent on so many samples.
  std::function<Program(int64_t batch)> record;
};

// The zoo of image networks, ResNet-50, and the text networks.
std::vector<PaperNetwork> paper_networks();

// Gist's five (figure 1): AlexNet, NiN, Overfeat, VGG16, and as Inception, which is its reference
// [49], GoogLeNet without batch norm.
std::vector<PaperNetwork> gist_networks();
// Two that its averages are without, for comparison: ResNet-50 and Inception v3.
std::vector<PaperNetwork> gist_networks_apart();

// Figure 16's: CIFAR's ResNet of a depth (509, 851, 1202) on images of 32x32 of ten classes.
PaperNetwork deep_resnet(int64_t depth);

// Weights of a recorded program that are trained.
int64_t weights_of(const Program& program);

}  // namespace pal
