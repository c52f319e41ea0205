// Convolution, batch norm with running statistics, the output layer.
#include "models/conv_layers.h"

#include <cmath>

#include "ops/convolution/conv2d.h"
#include "ops/norms/batch_norm.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"

namespace pal {

Val ConvLayers::conv(const std::string& name, Val x, int64_t outputs, int64_t kernel,
                     int64_t stride, bool zero) {
  Builder::Within scope(b_, name);
  const float deviation = std::sqrt(2.0f / float(kernel * kernel * outputs));
  const Init init = zero ? Init{} : Init{Init::Kind::normal, deviation};
  Val w = b_.weight("weight", {{outputs, kernel, kernel, x.shape().back()}}, init);
  return conv2d(x, w, conv2d_attrs(stride, (kernel - 1) / 2));
}

Val ConvLayers::norm(const std::string& name, Val x, float gain) {
  Builder::Within scope(b_, name);
  const TensorSpec spec{{x.shape().back()}};
  Val gamma = b_.weight("weight", spec, {Init::Kind::constant, gain});
  Val beta = b_.weight("bias", spec, {Init::Kind::constant, 0});
  auto running = [&](const char* own, float start) {
    return b_.state(b_.scope() + "/" + own, spec, Role::statistic, {Init::Kind::constant, start});
  };
  Val mean = running("running_mean", 0), variance = running("running_var", 1);
  if (!training_) return batch_norm_infer(x, gamma, beta, mean, variance, eps_);
  const BatchNorm out = batch_norm(x, gamma, beta, eps_);
  moved_.push_back({mean, out.mean, momentum_});
  moved_.push_back({variance, out.variance, momentum_});
  return out.y;
}

Val ConvLayers::linear(const std::string& name, Val x, int64_t outputs) {
  Builder::Within scope(b_, name);
  const int64_t inputs = x.shape().back();
  const Init init{Init::Kind::uniform, 1 / std::sqrt(float(inputs))};
  Val w = b_.weight("weight", {{inputs, outputs}}, init);
  return add_bias(matmul(x, w), b_.weight("bias", {{outputs}}, init));
}

}  // namespace pal
