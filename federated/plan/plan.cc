#include "federated/plan/plan.h"

#include <algorithm>
#include <utility>

#include "federated/plan/base_values.h"
#include "federated/plan/plan_reader.h"
#include "federated/weights/model.h"

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

Status Plan::BindBase(std::shared_ptr<const Base> base) const {
  MutexLock lock(base_mutex_);
  if (base_values_ != nullptr) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(base_values_, BaseValues::Of(std::move(base), *layout_));
  return absl::OkStatus();
}

StatusOr<std::span<const Buffer>> Plan::base_buffers() const {
  if (layout_->base_variables().empty()) return std::span<const Buffer>();
  MutexLock lock(base_mutex_);
  if (base_values_ != nullptr) return base_values_->buffers();
  return FailedPrecondition("plan '{}' needs the base {}, which is not here; name its file", name_,
                            model_->base->Hex());
}

StatusOr<std::vector<Buffer>> BuffersOver(const Plan& plan, const Model& model) {
  std::vector<Buffer> buffers = {{const_cast<std::byte*>(model.arena().data()), DType::kFloat32, 0}};
  RIVULET_ASSIGN_OR_RETURN(const std::span<const Buffer> of_base, plan.base_buffers());
  buffers.insert(buffers.end(), of_base.begin(), of_base.end());
  return buffers;
}

CompileOptions Plan::compile_options() const {
  CompileOptions options;
  options.kernels.portable = portable_kernels_;
  return options;
}

StatusOr<std::shared_ptr<const Plan>> Plan::Open(std::string bytes) { return PlanReader::Read(std::move(bytes)); }

}  // namespace rivulet
