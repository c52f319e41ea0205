// Which options of parallel text combine.
#include "train/config/translation_config.h"

namespace pal {

Rules<ParallelTextConfig> parallel_text_rules() {
  return {
      {"data.tokenizer, data.sentencepiece_file, data.source_vocab, data.target_vocab",
       "with sentencepiece the pieces are the vocabulary: no vocabulary files and sizes (but for "
       "data.synthetic); sentencepiece_file is of no use without it",
       [](const ParallelTextConfig& data) -> std::string {
         if (*data.tokenizer != "sentencepiece") {
           if (!*data.sentencepiece_file) return "";
           return "data.sentencepiece_file: is of no use with data.tokenizer " + *data.tokenizer +
                  "; set that to sentencepiece";
         }
         const char* key = *data.source_vocab        ? "source_vocab"
                           : *data.target_vocab      ? "target_vocab"
                           : *data.synthetic         ? nullptr
                           : *data.source_vocab_size ? "source_vocab_size"
                           : *data.target_vocab_size ? "target_vocab_size"
                                                     : nullptr;
         if (!key) return "";
         return std::string("data.") + key +
                ": with data.tokenizer sentencepiece the pieces are "
                "the vocabulary; leave it null, and set data.sentencepiece_size";
       }},
      {"data.shared_vocabulary, data.source_vocab, data.target_vocab",
       "a shared vocabulary is one file and one size: the target's options stay null, or equal",
       [](const ParallelTextConfig& data) -> std::string {
         if (!*data.shared_vocabulary) return "";
         auto differs = [](const auto& source, const auto& target) {
           return *target && *target != *source;
         };
         if (differs(data.source_vocab, data.target_vocab))
           return "data.target_vocab: with data.shared_vocabulary it is data.source_vocab; "
                  "leave it null";
         if (differs(data.source_vocab_size, data.target_vocab_size))
           return "data.target_vocab_size: with data.shared_vocabulary it is "
                  "data.source_vocab_size; leave it null";
         return "";
       }},
  };
}

}  // namespace pal
