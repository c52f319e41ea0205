// Which options of speech recognisers combine.
#include "train/config/speech_config.h"

namespace pal {
Rules<SpeechConfig> speech_rules() {
  return {
      {"data.join_least, data.join_most, data.features",
       "join_most is at least join_least; only sound is joined and played at another tempo",
       [](const SpeechConfig& data) -> std::string {
         if (*data.join_most < *data.join_least)
           return "data.join_most: is below data.join_least; raise it";
         if (*data.features == "mfcc" && (*data.join_most > 1 || *data.tempo))
           return std::string(*data.tempo ? "data.tempo" : "data.join_most") +
                  ": files of data.features mfcc can be neither joined nor played; leave it out";
         return "";
       }},
  };
}

}  // namespace pal
