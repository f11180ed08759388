#include "federated/plan/plan_reader.h"

#include <algorithm>
#include <utility>

#include "engine/graph/variable_name.h"

namespace rivulet {

Status PlanReader::CheckName(std::string_view what, std::string_view name) {
  if (name.empty()) return InvalidArgument("the plan gives no {}", what);
  if (name.size() > 1024) return InvalidArgument("the plan's {} has {} bytes, more than 1024", what, name.size());
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return InvalidArgument("the plan's {} has control characters", what);
    }
  }
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<const Plan>> PlanReader::Read(std::string bytes) {
  proto::Plan message;
  if (!message.ParseFromString(bytes)) return DataLoss("these {} bytes are no plan", bytes.size());
  if (message.format() == 1) {
    return InvalidArgument("the plan has format 1: it was built by an older program; build it again with this one");
  }
  if (message.format() < kPlanFormat || message.format() > kNewestPlanFormat) {
    return InvalidArgument("the plan has format {}, and this program reads {} to {}: update the older side",
                           message.format(), kPlanFormat, kNewestPlanFormat);
  }
  PlanReader reader;
  Plan& plan = *reader.plan_;
  plan.digest_ = Sha256Of(bytes);
  plan.format_ = message.format();
  plan.bytes_ = std::move(bytes);
  plan.signature_ = SignatureOf(plan.bytes_);
  // Signature fields may be anywhere in a message; another position would sign other bytes than expected.
  if (message.author() != plan.signature_.author || message.signature() != plan.signature_.signature) {
    return InvalidArgument(
        "the plan names an author, and its signature is not the last of its bytes; sign it with 'rivulet plan sign'");
  }
  RIVULET_RETURN_IF_ERROR(CheckName("name", message.name()));
  plan.name_ = message.name();
  RIVULET_RETURN_IF_ERROR(reader.ReadModel(message.model()));
  plan.download_ = message.model().download();
  if (!plan.external()) RIVULET_RETURN_IF_ERROR(reader.ReadFeatures(message.model()));
  RIVULET_RETURN_IF_ERROR(reader.ReadKernels(message.kernels()));
  RIVULET_RETURN_IF_ERROR(reader.ReadFlats(message.flats()));
  for (const proto::LocalProgramDef& program : message.programs()) {
    const auto two = [](const proto::PassDef& pass) { return !pass.other_gradient_by().empty(); };
    if (std::ranges::any_of(program.passes(), two)) plan.flat_names_.other_grads = true;
  }
  for (const proto::LocalProgramDef& program : message.programs()) {
    RIVULET_RETURN_IF_ERROR(reader.ReadProgram(program));
  }
  if (plan.program(TaskKind::kTrain) == nullptr) return InvalidArgument("the plan has no program to train with");
  RIVULET_RETURN_IF_ERROR(reader.CheckDataSets());
  RIVULET_RETURN_IF_ERROR(reader.CheckMeasured());
  RIVULET_RETURN_IF_ERROR(reader.CheckLocal());
  RIVULET_RETURN_IF_ERROR(reader.ReadAggregation(message.aggregation()));
  RIVULET_RETURN_IF_ERROR(reader.SumEvaluations());
  if (message.has_privacy()) RIVULET_RETURN_IF_ERROR(reader.ReadPrivacy(message.privacy()));
  return std::shared_ptr<const Plan>(std::move(reader.plan_));
}

Status PlanReader::ReadPrivacy(const proto::PrivacyDef& claim) {
  const double z = claim.noise_multiplier(), rate = claim.sampling_rate();
  if (!(z > 0 && z <= 1e6) || !(rate > 0 && rate <= 1) || claim.cohort() < 1) {
    return InvalidArgument(
        "the plan claims noise of {} times the clip, a sampling rate of {} and cohorts of {}; these are above 0, the "
        "rate at most 1",
        z, rate, claim.cohort());
  }
  plan_->privacy_ = PrivacyClaim{z, rate, claim.cohort(), claim.replace_one()};
  return absl::OkStatus();
}

Status PlanReader::CheckDataSets() const {
  for (const auto& [kind, program] : plan_->programs_) {
    if (program.passes[0].dataset == plan_->dataset()) continue;
    return InvalidArgument("the plan's programs read the data sets '{}' and '{}'; a client binds one for a plan",
                           plan_->dataset(), program.passes[0].dataset);
  }
  return absl::OkStatus();
}

// A version has no values for local variables: each client starts a task with its own. So no instance may use the base
// model as a complete model.
Status PlanReader::CheckLocal() const {
  const auto& slices = plan_->layout_->slices();
  const auto local = std::ranges::find(slices, Segment::kLocal, &Slice::segment);
  if (local == slices.end()) return absl::OkStatus();
  const auto refuse = [&](std::string_view what) {
    return InvalidArgument("variable '{}' is local, so that no version has it, and {} the base model", local->name,
                           what);
  };
  if (plan_->program(TaskKind::kEvaluate) != nullptr) {
    for (const LocalPass& pass : plan_->program(TaskKind::kEvaluate)->passes) {
      const auto shared = [](const ModelInstance& instance) { return instance.buffer == "base_params"; };
      if (std::ranges::any_of(pass.models, shared)) return refuse("the plan has clients measure");
    }
  }
  if (std::ranges::any_of(plan_->flat_names_.state, &StateVector::from_base)) return refuse("a state begins as");
  for (const LocalPass& pass : plan_->training().passes) {
    for (const ModelInstance& instance : pass.models) {
      if (instance.buffer != "params") return refuse("a pass runs over");
    }
    for (const auto& graph : {pass.begin, pass.step, pass.end}) {
      if (graph == nullptr) continue;
      for (const auto& node : graph->nodes()) {
        if (node->type() == "VarHandleOp" && VariableName(*node) == "base_params") return refuse("a pass reads");
      }
    }
  }
  return absl::OkStatus();
}

// Passes must report every number that graphs read as measured; only declared numbers may be declared.
Status PlanReader::CheckMeasured() const {
  const FlatNames& names = plan_->flat_names_;
  const auto reported = [&](const std::string& name) {
    return std::ranges::any_of(plan_->programs_, [&](const auto& program) {
      return std::ranges::any_of(program.second.passes, [&](const LocalPass& pass) {
        return std::ranges::find(pass.scalars, name, &PassScalar::name) != pass.scalars.end();
      });
    });
  };
  for (const std::string& name : names.measured) {
    if (reported(name)) continue;
    return InvalidArgument("the plan's graphs read '{}{}', and no pass reports '{}'", kMeasuredPrefix, name, name);
  }
  for (const std::string& name : names.declared) {
    if (!reported(name) && std::ranges::find(names.numbers, name) == names.numbers.end() && name != "examples" &&
        name != "steps" && name != "train_seconds" && name != "loss") {
      continue;
    }
    return InvalidArgument("the plan's graphs declare '{}', which is declared already", name);
  }
  return absl::OkStatus();
}

}  // namespace rivulet
