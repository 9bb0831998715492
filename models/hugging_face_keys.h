// Every key that a config.json may have, by model type, and what becomes of it here.
// hugging_face_keys.py makes the table from the transformers library.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace trainyard {

enum class KeyUse : std::uint8_t {
  kUsed,      // hugging_face.cpp reads it
  kHarmless,  // the model that a study trains is the same with any value
  kRefused,   // a value other than the default makes a model that no family here has
  kOtherName  // of the key that `otherwise` names
};

struct HuggingFaceKey {
  std::string_view model_type;
  std::string_view key;
  KeyUse use;
  std::string_view otherwise;  // the default in JSON where used or refused; "": of no matter
};

extern const char* const kTransformersVersion;
std::span<const HuggingFaceKey> hugging_face_keys();

}  // namespace trainyard
