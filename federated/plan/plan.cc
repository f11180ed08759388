#include "federated/plan/plan.h"

#include <algorithm>
#include <utility>

#include "federated/plan/plan_reader.h"

namespace rivulet {

const LocalProgram* Plan::program(TaskKind kind) const {
  const auto found = programs_.find(kind);
  return found == programs_.end() ? nullptr : &found->second;
}

bool Plan::reads_broadcasts(TaskKind kind) const {
  const LocalProgram* const read = program(kind);
  if (read == nullptr || flat_names_.broadcast.empty()) return false;
  return kind == TaskKind::kTrain || std::ranges::any_of(read->passes, [](const LocalPass& pass) {
           return std::ranges::any_of(pass.models, [](const ModelInstance& instance) {
             return instance.buffer.starts_with(kBroadcastPrefix);
           });
         });
}

bool Plan::keeps_state() const {
  return !flat_names_.state.empty() || layout_->elements(Segment::kLocal) > 0 ||
         std::ranges::any_of(aggregation_.parts, &PartSpec::error_feedback);
}

bool Plan::measures_state() const {
  const LocalProgram* const evaluation = program(TaskKind::kEvaluate);
  if (evaluation == nullptr) return false;
  return layout_->elements(Segment::kLocal) > 0 || std::ranges::any_of(evaluation->passes, [](const LocalPass& pass) {
           return std::ranges::any_of(
               pass.models, [](const ModelInstance& instance) { return instance.buffer.starts_with(kStatePrefix); });
         });
}

CompileOptions Plan::compile_options() const {
  CompileOptions options;
  options.kernels.portable = portable_kernels_;
  return options;
}

StatusOr<std::shared_ptr<const Plan>> Plan::Open(std::string bytes) { return PlanReader::Read(std::move(bytes)); }

}  // namespace rivulet
