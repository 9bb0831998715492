#include "study/study.h"

namespace trainyard {

Study::Study() = default;
Study::Study(const Study&) = default;
Study::Study(Study&&) noexcept = default;
Study& Study::operator=(const Study&) = default;
Study& Study::operator=(Study&&) noexcept = default;
Study::~Study() = default;

}  // namespace trainyard
