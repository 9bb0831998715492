// What the studies of these tests name: a few models, clusters, links and profiles with round
// numbers, and ways to read a study and to catch what it says wrong.
#pragma once

#include <string>
#include <vector>

#include "study/study_reader.h"

namespace trainyard {

/// Models gpt-tiny, llama-tiny and model files (read as gpt-tiny, but missing.json cannot be read
/// and broken.json is wrong at 3:7); cluster files (read as 4 nodes of box, but for missing.yaml);
/// cluster box (8 devices a node, nvswitch, infiniband) and lone (no network); links nvswitch,
/// infiniband, roce, ethernet, pcie (the last two without a usual bandwidth); devices a100, h100,
/// cpu; frameworks trainyard, megatron-lm (2021 without flash attention, 2022, current) and
/// halfgrad (fp16 gradients).
StudyResolvers fixture_resolvers();

/// Reads `text` as study.yaml.
Study read(const std::string& text, const std::vector<std::string>& sets = {});

/// The message of the ConfigError that reading `text` throws; "no error" when it throws none.
std::string error_of(const std::string& text, const std::vector<std::string>& sets = {});

/// All that is wrong with it, in the order of the file.
std::vector<std::string> errors_of(const std::string& text,
                                   const std::vector<std::string>& sets = {});

/// A small study that reads: lines 1 to 4 are model, cluster, parallel, training.
extern const std::string kSmallStudy;

/// Three lines of a llama of 4 layers: model, cluster, training.
extern const std::string kLlamaStudy;

}  // namespace trainyard
