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
inline const std::string kSmallStudy =
    "model: gpt-tiny\n"
    "cluster: {preset: box, nodes: 2}\n"
    "parallel: {tensor: 2, pipeline: 4}\n"
    "training: {global_batch: 32}\n";

/// Three lines of a llama of 4 layers: model, cluster, training.
inline const std::string kLlamaStudy =
    "model: {family: llama, layers: 4, hidden: 64, heads: 8, kv_heads: 4, ffn: 96, vocab: 64, "
    "seq_len: 48}\n"
    "cluster: {preset: box, nodes: 4}\n"
    "training: {global_batch: 32}\n";

}  // namespace trainyard
