#include "tests/engine/data/megatron_writer.h"

#include <limits>

#include "engine/base/error.h"
#include "engine/data/megatron_index.h"

namespace trainyard {

namespace {

template <class T>
void write(std::ofstream& file, T value) {
  file.write(reinterpret_cast<const char*>(&value), sizeof value);
}

std::ofstream open(const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) throw BackendError(path + ": cannot be written");
  return file;
}

void close(std::ofstream& file, const std::string& path) {
  file.close();
  if (!file) throw BackendError(path + ": writing failed; is the disk full?");
}

}  // namespace

MegatronWriter::MegatronWriter(const std::string& prefix, std::int64_t vocab)
    : prefix_(prefix),
      vocab_(vocab),
      type_(vocab <= 65'500 ? TokenType::kUint16 : TokenType::kInt32),
      bin_(open(prefix + ".bin")) {}

void MegatronWriter::add_document(std::span<const std::int64_t> tokens) {
  if (tokens.size() > std::numeric_limits<std::int32_t>::max()) {
    throw ConfigError(prefix_ + ".bin: a document of " + std::to_string(tokens.size()) +
                      " tokens; at most 2^31 - 1 are allowed");
  }
  for (const std::int64_t token : tokens) {
    if (token < 0 || token >= vocab_) {
      throw ConfigError(prefix_ + ".bin: token " + std::to_string(token) +
                        " is not of a vocabulary of " + std::to_string(vocab_));
    }
    if (type_ == TokenType::kUint16) {
      write(bin_, static_cast<std::uint16_t>(token));
    } else {
      write(bin_, static_cast<std::int32_t>(token));
    }
  }
  lengths_.push_back(static_cast<std::int32_t>(tokens.size()));
}

void MegatronWriter::finish() {
  close(bin_, prefix_ + ".bin");
  std::ofstream index = open(prefix_ + ".idx");
  index.write(kMegatronMagic.data(), static_cast<std::streamsize>(kMegatronMagic.size()));
  write(index, kMegatronVersion);
  write(index, megatron_type_code(type_));
  write(index, std::uint64_t{lengths_.size()});
  write(index, std::uint64_t{lengths_.size() + 1});
  for (const std::int32_t length : lengths_) write(index, length);
  std::int64_t begin = 0;
  for (const std::int32_t length : lengths_) {
    write(index, begin);
    begin += length * size_of(type_);
  }
  for (std::size_t i = 0; i <= lengths_.size(); ++i) write(index, static_cast<std::int64_t>(i));
  close(index, prefix_ + ".idx");
}

}  // namespace trainyard
