// The keys of a study, a table for each map: study/keys/ has the data. A key of a study is an entry
// there, its use, and its test.
#pragma once

#include "study/study_key.h"

namespace trainyard {

const KeyTable& study_keys();  // of the root; those of the other maps are within its forms

const KeyTable& model_keys();
/// Whether a key of `model:` says something of models of the family.
bool belongs_to(const StudyKey& key, Family family);
/// Whether it changes anything in them: one that is of some transformers of text belongs to all.
bool matters_to(const StudyKey& key, Family family);

// The forms of `cluster:`, and the maps that all of them have.
const KeyTable& preset_cluster_keys();
const KeyTable& local_cluster_keys();
const KeyTable& written_cluster_keys();
const KeyTable& flat_cluster_keys();
const KeyTable& nic_keys();
const KeyTable& fabric_keys();
const KeyTable& pcie_keys();
const KeyTable& host_keys();
const KeyTable& nvme_keys();
const KeyTable& collectives_keys();

const KeyTable& loss_keys();
const KeyTable& link_keys();
const KeyTable& curve_keys();
const KeyTable& by_kind_keys();
const KeyTable& measured_keys();
const KeyTable& rank_group_keys();

const KeyTable& parallel_keys();
const KeyTable& tensor_method_keys();
const KeyTable& split_rule_keys();
const KeyTable& zero_keys();
const KeyTable& zero_offload_keys();
const KeyTable& context_keys();

const KeyTable& training_keys();
const KeyTable& precision_keys();
const KeyTable& learning_rate_keys();

const KeyTable& partition_keys();
const KeyTable& schedule_keys();
const KeyTable& schedule_file_keys();
const KeyTable& recompute_keys();
const KeyTable& offload_keys();

const KeyTable& framework_keys();
const KeyTable& data_keys();
const KeyTable& document_keys();
const KeyTable& document_length_keys();
const KeyTable& checkpoint_keys();

}  // namespace trainyard
