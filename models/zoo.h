// The papers' zoo of image classifiers: each a plain function from images to logits, which reads
// like its paper's figure. Gist's, OLLA's, DELTA's and Zico's figures are about these networks.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "models/image_model.h"
#include "models/zoo_options.h"

namespace pal {

class ZooLayers;

struct ImageNetwork {
  const char* name;   // alexnet
  const char* paper;  // "Krizhevsky 2014, ..."
  int64_t edge;       // of the square images that it was published for
  int64_t frames;     // of the films that it was published for; 0: single images
  int64_t classes;    // of the published network, which has so many
  int64_t weights;
  // x (N, H, W, 3), of a film (N, D, H, W, 3) -> (N, classes).
  Val (*logits)(ZooLayers& net, Val x);

  Shape input(int64_t batch, int64_t edge) const;  // the shape of x
};

// All of them, sorted by name.
std::span<const ImageNetwork> image_networks();
// UsageError("model.network...") when there is none of that name.
const ImageNetwork& image_network(const std::string& name);

// The network as the trainer wants it.
ImageModel zoo_model(const ImageNetwork& network, const ZooOptions& options);

Val alexnet(ZooLayers& net, Val x);
Val alexnet_2012(ZooLayers& net, Val x);
Val efficientnet_b0(ZooLayers& net, Val x);
Val googlenet(ZooLayers& net, Val x);
Val inception_v3(ZooLayers& net, Val x);
Val mnasnet(ZooLayers& net, Val x);
Val mobilenet_v2(ZooLayers& net, Val x);
Val nasnet_a_mobile(ZooLayers& net, Val x);
Val nin(ZooLayers& net, Val x);
Val overfeat(ZooLayers& net, Val x);
Val resnet3d_18(ZooLayers& net, Val x);
Val resnext50(ZooLayers& net, Val x);
Val vgg16(ZooLayers& net, Val x);
Val vit_b16(ZooLayers& net, Val x);

}  // namespace pal
