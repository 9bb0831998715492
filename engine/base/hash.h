// SHA-256 over a stream of text, for the Program's digest.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace trainyard {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::string_view bytes);
  std::string hex();  // lowercase; ends the stream, update() must not follow

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace trainyard
