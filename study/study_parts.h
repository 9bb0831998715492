// The steps of read_study_node(), in the order in which they run. Private to the study reader.
#pragma once

#include <string>

#include "engine/passes/tensor_methods.h"
#include "engine/schedule/pipeline_schedule.h"
#include "study/study_reader.h"
#include "study/study_section.h"

namespace trainyard {

// Each reads its part of the root map and records origins; keys that depend on another part stay
// at 0 or empty until resolve_defaults().
void read_model(Section& root, const StudyResolvers& resolvers);
/// `loss` of the model's section, once its file is known.
void read_losses(Section& model_section, ModelConfig& model);
void read_cluster(Section& root, const StudyResolvers& resolvers);
void read_parallel(Section& root);
void read_sharding(Section& root);  // behind parallel: its axes are what specs name
void read_training(Section& root);
void read_plan(Section& root);  // partition, schedule, recompute, offload
void read_recompute(Section& root);
void read_schedule_file(Section& section);  // the map `schedule: {file: ...}`
/// A list of a CSV's lines, as schedule_csv() writes them; `on`: where stages lie.
std::string read_schedule_rows(const YamlNode& node, const StageRanks& on);
void read_run(Section& root);  // framework, data, checkpoint, fidelity

/// Fills what depends on several parts: framework.version, parallel.placement, training.kernels,
/// dropout, grad_dtype, flash_attention, model.pad_vocab_to, a case's partition.
void resolve_defaults(Study& study, const StudyResolvers& resolvers);

/// Where partition is rannc: what the study leaves out of pipeline, data, microbatch, schedule and
/// recompute, decided by a planner as if the study said it, with cuts; before check_rules().
void plan_pipeline(StudyDraft& draft, const StudyResolvers& resolvers);

/// Where partition is smp: where its modules lie, and the stages that follow; before check_rules().
void plan_modules(StudyDraft& draft, const StudyResolvers& resolvers);

/// The rules across keys, each where nothing is wrong with the keys that it needs: defaults, then
/// whether the model, the devices, the degrees, the schedule and the batch go together. Sizes are
/// bounded before anything multiplies them.
void check_rules(StudyDraft& draft, const StudyResolvers& resolvers);

/// Refuses tensors of more than 2^40 elements, at the largest number that the user said.
void check_tensor_sizes(const Study& study);

/// Whether the family is trained on such files, and whether what is said of them is said of such.
void check_data(const Study& study);

/// What parallel.zero leaves to the plan, once parallel.data is known; and whether the two go
/// together.
void resolve_zero(Study& study);
void check_zero(const Study& study);
void check_fp8_gathers(Study& study);  // defaults are known

/// Whether stages of the layers can be made as partition says.
void check_partition(const Study& study);

/// The devices divided by the degrees, and the global batch by data, microbatch and the rounds of
/// the schedule. `resolved`: defaults are known.
void check_batch_fits(StudyDraft& draft, bool resolved);

/// parallel.pipeline of a study that says where its stages lie, or how many replicas each pipeline
/// rank has.
void resolve_pipeline_ranks(Study& study);

/// What follows from partition.replicas, and whether it goes with the rest.
void resolve_replicas(Study& study);

/// parallel.virtual_stages of schedules that have a number of their own.
void resolve_virtual_stages(Study& study);

/// Whether ranks can share the model's sequences so; behind resolve_defaults().
void check_context(const Study& study);

/// Whether the rest goes with the method of tensor parallelism; and its mesh, where the study
/// leaves it to the cluster's links: behind resolve_data_parallel(), without which ranks have no
/// devices.
void check_tensor_method(Study& study);
void choose_tensor_mesh(Study& study);

/// Entries of `sharding:`, or of a map like it at `key`; they name axes of the study's degrees.
void read_sharding_entries(Study& study, const YamlNode& block, const std::string& key,
                           std::vector<GivenSharding>& out);

/// Whether samples can be packed of documents as data.documents says; behind resolve_defaults().
/// Those of a file are opened.
void check_documents(Study& study);

/// Whether the schedule suits the pipeline; behind resolve_data_parallel(), the microbatches.
void check_schedule(StudyDraft& draft);
void check_schedule_microbatches(const Study& study);

/// Whether recomputation that differs by stage suits the pipeline and the schedule.
void check_recompute(const Study& study);

/// Whether the rows of schedule.file suit the pipeline; behind resolve_data_parallel(), the step,
/// and whether schedule.microbatch_group divides it.
void check_schedule_rows(const Study& study);
void check_schedule_row_microbatches(const Study& study);
void check_microbatch_group(const Study& study);

/// Whether there is something of activations to copy to the host, and a link to copy it over;
/// behind resolve_defaults().
void check_offload(const Study& study);
void check_host_link(const Study& study, const StudyResolvers& resolvers);

/// What parallel.zero.offload and training.cpu_offload, which are one, leave to the study: whether
/// the plan has state that a host can update, and how fast. The devices are known.
void resolve_host_state(Study& study, const StudyResolvers& resolvers);

/// What says how ranks of a group share something, where the group is one rank; behind all
/// defaults.
void warn_of_single_ranks(Study& study, const StudyResolvers& resolvers);

/// parallel.data, or whether the one given has the devices it needs.
void resolve_data_parallel(Study& study);

/// What gives a step so many microbatches: "global_batch 24", or "a list of 8 in
/// training.microbatch".
std::string step_of_microbatches(const Study& study, std::int64_t microbatches);

/// `text` names a file rather than a preset: by how it ends.
bool is_path(const std::string& text);
/// Fails at the name of a preset that leads into another folder. `file`: what would be a file
/// there.
void refuse_path(const YamlNode& name, const std::string& file);
/// A path of the study, relative to the study's folder.
std::string path_from_study(const Study& study, const std::string& path);
/// The absolute path of the file that `node` names, relative to the study's folder, or, of --set,
/// to the working directory: study.resolved.yaml lies elsewhere, and means the same file.
std::string absolute_path(const Study& study, const YamlNode& node);

/// Placement letters with those that are missing put just left of T: "DPT" -> "DPCET".
std::string full_placement(std::string letters);

/// What `look_up` reads from the file that `node` names. That there is no such file, or nothing
/// that can be read, is wrong at the node; what is wrong inside the file has a line there.
template <class LookUp>
auto read_named_file(const Study& study, const YamlNode& node, const LookUp& look_up) {
  try {
    return look_up(path_from_study(study, node.as_string()));
  } catch (const ConfigError& error) {
    if (error.where().line > 0) throw;
    node.fail(error.what());
  }
}

/// The names that a resolver knows, for a message behind `name`: " (did you mean a?); known: a and
/// b".
std::string known_names(const std::string& name, const StudyResolvers& resolvers,
                        StudyResolvers::Names which);

/// `name` as the resolver has it (near_names.h); as it is, where none or several are meant.
std::string known_name(const std::string& name, const StudyResolvers& resolvers,
                       StudyResolvers::Names which);

/// Refuses a name that a resolver did not know.
[[noreturn]] void fail_unknown_name(const YamlNode& node, const std::string& noun,
                                    const std::string& name, const StudyResolvers& resolvers,
                                    StudyResolvers::Names which);

}  // namespace trainyard
