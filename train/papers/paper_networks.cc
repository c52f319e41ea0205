// Image classifiers from models/zoo.h, translators and language models at the sizes of their
// papers.
#include "train/papers/paper_networks.h"

#include "models/bert.h"
#include "models/gnmt.h"
#include "models/nmt.h"
#include "models/resnet.h"
#include "models/rhn.h"
#include "models/transformer.h"
#include "models/zoo.h"
#include "ops/losses/cross_entropy.h"
#include "train/loop/step_program.h"

namespace pal {
namespace {

using Forward = std::function<Recorded(Builder&, Val scalars, int64_t batch)>;

PaperNetwork network(std::string name, std::string of, int64_t published, Forward forward) {
  return {std::move(name), std::move(of), published, [forward](int64_t batch) {
            TrainConfig config;
            config.optimizer = OptimizerSpec::Kind::sgd;
            return record_step([&](Builder& b, Val s) { return forward(b, s, batch); }, config,
                               MicroBatch::only);
          }};
}

Recorded classify(Builder& b, Val scalars, const ImageModel& model, const Shape& images) {
  Recorded out;
  Val x = b.input("images", {images}), labels = b.input("labels", {{images[0]}, DType::i32});
  Val logits = model.logits(b, x, scalars, true, out.moved);
  out.loss = cross_entropy(logits, labels, scalars, {.ignore = -1}).loss;
  return out;
}

PaperNetwork classifier(const ImageNetwork& n, bool norm = true) {
  const std::string edge = std::to_string(n.edge);
  const std::string of = (n.frames ? std::to_string(n.frames) + "x" : "") + edge + "x" + edge;
  return network(n.name, of, norm ? n.weights : 0, [&n, norm](Builder& b, Val s, int64_t batch) {
    const ImageModel model = zoo_model(n, {.classes = n.classes, .norm = norm});
    return classify(b, s, model, n.input(batch, n.edge));
  });
}

PaperNetwork resnet50() {
  return network("resnet50", "224x224", 25'557'032, [](Builder& b, Val s, int64_t batch) {
    return classify(b, s, resnet_model({}), {batch, 224, 224, 3});
  });
}

PaperNetwork translator(const std::string& name, int64_t words, int64_t published,
                        const TranslationModel& model) {
  const std::string of = std::to_string(words) + " + " + std::to_string(words) + " words";
  return network(name, of, published, [=](Builder& b, Val s, int64_t batch) {
    return Recorded{model.loss(b, {words, words, batch}, s, true).loss};
  });
}

PaperNetwork bert(const std::string& name, int64_t published, const BertOptions& options) {
  return network(name, "128 words", published, [=](Builder& b, Val s, int64_t batch) {
    return Recorded{bert_loss(b, options, 128, batch, s, true).loss};
  });
}

}  // namespace

std::vector<PaperNetwork> paper_networks() {
  std::vector<PaperNetwork> all;
  for (const ImageNetwork& n : image_networks()) all.push_back(classifier(n));
  all.push_back(resnet50());
  all.push_back(translator(
      "transformer", 64, 0,
      transformer_model(
          {.source_vocab = 37000, .target_vocab = 37000, .tie = TransformerOptions::Tie::all})));
  // Published with the pooler, which guessing words does without, and without the head, which it
  // needs: 590,592 and 592,128 (+ a bias a word) weights.
  const auto guessing = [](int64_t published, const BertOptions& o) {
    const int64_t D = o.hidden;
    return published - (D * D + D) + (D * D + 3 * D + o.vocab);
  };
  all.push_back(bert("bert_base", guessing(109'482'240, bert_base()), bert_base()));
  all.push_back(bert("xlmr_base", guessing(278'043'648, xlmr_base()), xlmr_base()));
  // NVIDIA's count but for PyTorch's second bias of nine LSTM layers, and one scale.
  all.push_back(translator("gnmt", 50, 160'671'297 - 9 * 4 * 1024 - 1,
                           gnmt_model({.source_vocab = 32320, .target_vocab = 32320})));
  all.push_back(translator("nmt", 50, 0, nmt_model({.source_vocab = 17192, .target_vocab = 7710})));
  all.push_back(network("rhn", "35 words", 0, [](Builder& b, Val s, int64_t batch) {
    return Recorded{rhn_loss(b, {}, 35, batch, s, true).loss};
  }));
  return all;
}

std::vector<PaperNetwork> gist_networks() {
  std::vector<PaperNetwork> all;
  for (const char* name : {"alexnet", "nin", "overfeat", "vgg16"}) {
    all.push_back(classifier(image_network(name)));
  }
  all.push_back(classifier(image_network("googlenet"), false));
  all.back().name = "inception";
  return all;
}

std::vector<PaperNetwork> gist_networks_apart() {
  return {resnet50(), classifier(image_network("inception_v3"))};
}

PaperNetwork deep_resnet(int64_t depth) {
  return network("resnet" + std::to_string(depth), "32x32", 0,
                 [depth](Builder& b, Val s, int64_t batch) {
                   const ResNetOptions options{
                       .family = ResNetOptions::Family::cifar, .depth = depth, .classes = 10};
                   return classify(b, s, resnet_model(options), {batch, 32, 32, 3});
                 });
}

int64_t weights_of(const Program& program) {
  int64_t count = 0;
  for (const StateSlot& slot : program.state) {
    if (slot.role == Role::weight) count += program.value(slot.start).spec.numel();
  }
  return count;
}

}  // namespace pal
