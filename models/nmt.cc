// The translator as its layers and the programs of recurrent translators make it.
#include "models/nmt.h"

#include "core/error.h"
#include "models/nmt_layers.h"

namespace pal {

namespace {

void check_nmt(const NmtOptions& o) {
  for (const Rule<NmtOptions>& rule : NmtOptions::rules()) {
    if (const std::string why = rule.fault(o); !why.empty()) throw UsageError(why);
  }
  const bool one = o.tie == NmtOptions::Tie::embeddings || o.tie == NmtOptions::Tie::all;
  if (one && o.source_vocab != o.target_vocab) {
    throw UsageError(
        "model.tie_embeddings: one table needs one vocabulary for both languages "
        "(data.shared_vocabulary)");
  }
}

}  // namespace

TranslationModel nmt_model(const NmtOptions& o) {
  check_nmt(o);
  return recurrent_translator<NmtLayers>(o, o.attention_size, true);
}

}  // namespace pal
