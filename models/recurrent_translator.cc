// Names and order of a decoder's states.
#include "models/recurrent_translator.h"

namespace pal {

std::vector<std::string> state_names(int64_t layers, bool feeds) {
  std::vector<std::string> names;
  for (int64_t l = 0; l < layers; ++l) {
    names.push_back("decoder/h" + std::to_string(l));
    names.push_back("decoder/c" + std::to_string(l));
  }
  if (feeds) names.emplace_back("decoder/feed");
  return names;
}

std::vector<Val> values_of(const DecoderState& state) {
  std::vector<Val> out;
  for (const LstmState& layer : state.layers) out.insert(out.end(), {layer.h, layer.c});
  if (state.attended) out.push_back(state.attended);
  return out;
}

DecoderState state_of(const std::vector<Val>& values) {
  DecoderState state;
  for (size_t i = 0; i + 1 < values.size(); i += 2) {
    state.layers.push_back({values[i], values[i + 1]});
  }
  if (values.size() % 2 == 1) state.attended = values.back();
  return state;
}

}  // namespace pal
