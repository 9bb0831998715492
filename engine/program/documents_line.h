// The line of a Program's text that says what its attention inside documents is bound to.
#pragma once

#include <string>

#include "engine/program/line_scanner.h"
#include "engine/program/program.h"

namespace trainyard {

/// " mean:2000 least:1 most:0 seed:7 of:8192 replicas:8 replica:16 sizes:1", or in place of what
/// draws them " lengths:2048,512", or " read:8000,192;8192", those of the step's samples.
std::string documents_text(const DocumentDraws& draws);

/// What documents_text() wrote, to the end of the line. Samples behind those that it lists have
/// theirs over again.
DocumentDraws read_documents(LineScanner& line, std::int64_t num_microbatches);

}  // namespace trainyard
