# SentencePiece as sentencepiece::sentencepiece: the model (libsentencepiece) and its training
# (libsentencepiece_train). Debian's package has no CMake configuration of its own.
find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_trainer.h REQUIRED)
find_library(SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)
find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train REQUIRED)
mark_as_advanced(SENTENCEPIECE_INCLUDE_DIR SENTENCEPIECE_LIBRARY SENTENCEPIECE_TRAIN_LIBRARY)
add_library(sentencepiece::sentencepiece UNKNOWN IMPORTED)
set_target_properties(sentencepiece::sentencepiece PROPERTIES
  IMPORTED_LOCATION ${SENTENCEPIECE_LIBRARY}
  INTERFACE_LINK_LIBRARIES ${SENTENCEPIECE_TRAIN_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${SENTENCEPIECE_INCLUDE_DIR})
