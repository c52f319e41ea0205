// The list of image networks. Counts are of weights that are trained, statistics excluded; where
// they are from is in docs/zoo.md.
#include "models/zoo.h"

#include <algorithm>

#include "core/error.h"
#include "models/zoo_layers.h"

namespace pal {
namespace {

// A thousand classes but for the films, Kinetics' 400.
constexpr ImageNetwork kNetworks[] = {
    {"alexnet", "Krizhevsky 2014", 224, 0, 1000, 61'100'840, alexnet},
    {"alexnet_2012", "Krizhevsky et al. 2012", 224, 0, 1000, 60'965'224, alexnet_2012},
    {"efficientnet_b0", "Tan and Le 2019", 224, 0, 1000, 5'288'548, efficientnet_b0},
    {"googlenet", "Szegedy et al. 2015, with batch norm", 224, 0, 1000, 6'624'904, googlenet},
    {"inception_v3", "Szegedy et al. 2016", 299, 0, 1000, 23'834'568, inception_v3},
    {"mnasnet", "Tan et al. 2019", 224, 0, 1000, 4'383'312, mnasnet},
    {"mobilenet_v2", "Sandler et al. 2018", 224, 0, 1000, 3'504'872, mobilenet_v2},
    {"nasnet_a_mobile", "Zoph et al. 2018", 224, 0, 1000, 5'289'978, nasnet_a_mobile},
    {"nin", "Lin et al. 2014", 224, 0, 1000, 7'595'176, nin},
    {"overfeat", "Sermanet et al. 2014", 231, 0, 1000, 145'920'872, overfeat},
    {"resnet3d_18", "Tran et al. 2018", 112, 16, 400, 33'371'472, resnet3d_18},
    {"resnext50", "Xie et al. 2017", 224, 0, 1000, 25'028'904, resnext50},
    {"vgg16", "Simonyan and Zisserman 2015", 224, 0, 1000, 138'357'544, vgg16},
    {"vit_b16", "Dosovitskiy et al. 2021", 224, 0, 1000, 86'567'656, vit_b16},
};

}  // namespace

Shape ImageNetwork::input(int64_t batch, int64_t size) const {
  if (frames == 0) return {batch, size, size, 3};
  return {batch, frames, size, size, 3};
}

std::span<const ImageNetwork> image_networks() { return kNetworks; }

std::vector<std::string> image_network_names() {
  std::vector<std::string> names;
  for (const ImageNetwork& n : kNetworks) names.emplace_back(n.name);
  return names;
}

const ImageNetwork& image_network(const std::string& name) {
  const auto found = std::find_if(std::begin(kNetworks), std::end(kNetworks),
                                  [&](const ImageNetwork& n) { return name == n.name; });
  if (found != std::end(kNetworks)) return *found;
  std::string all;
  for (const ImageNetwork& n : kNetworks) all += (all.empty() ? "" : ", ") + std::string(n.name);
  throw UsageError("model.network: there is no '" + name + "'; use one of " + all);
}

ImageModel zoo_model(const ImageNetwork& network, const ZooOptions& options) {
  return {.channels = 3,
          .classes = options.classes,
          .logits = [&network, options](Builder& b, Val x, Val scalars, bool training,
                                        std::vector<MovedStatistic>& moved) {
            ZooLayers net(b, options, scalars, training, moved);
            return network.logits(net, x);
          }};
}

}  // namespace pal
