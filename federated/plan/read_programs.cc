#include "federated/plan/plan_reader.h"

namespace rivulet {
namespace {

constexpr int kMaxPasses = 16, kMaxMechanisms = 8;

}  // namespace

Status PlanReader::ReadProgram(const proto::LocalProgramDef& message) {
  if (message.kind() != static_cast<int>(TaskKind::kTrain) && message.kind() != static_cast<int>(TaskKind::kEvaluate)) {
    return InvalidArgument("the plan has a program for tasks of kind {}, of which this program knows nothing",
                           message.kind());
  }
  const auto kind = static_cast<TaskKind>(message.kind());
  if (plan_->program(kind) != nullptr) return InvalidArgument("the plan has two programs to {}", Name(kind));
  if (message.passes().empty() || message.passes_size() > kMaxPasses) {
    return InvalidArgument("the plan's program to {} has {} passes; a client does 1 to {}", Name(kind),
                           message.passes_size(), kMaxPasses);
  }
  LocalProgram& program = plan_->programs_[kind];
  for (const proto::PassDef& pass : message.passes()) {
    RIVULET_RETURN_IF_ERROR(ReadPass(pass, program.passes.emplace_back()));
    if (program.passes.back().dataset == program.passes[0].dataset) continue;
    return InvalidArgument("the plan's passes read the data sets '{}' and '{}'; a client binds one for a plan",
                           program.passes[0].dataset, program.passes.back().dataset);
  }
  if (kind == TaskKind::kEvaluate && message.parts_size() > 0) {
    return InvalidArgument("the plan's program to evaluate has {} parts; an evaluation changes nothing",
                           message.parts_size());
  }
  for (const proto::PartSourceDef& part : message.parts()) RIVULET_RETURN_IF_ERROR(ReadSource(part, program));
  return ReadMechanisms(message, program);
}

// Whether a mechanism exists, and its settings are in range, is checked where it runs.
Status PlanReader::ReadMechanisms(const proto::LocalProgramDef& message, LocalProgram& program) {
  if (message.mechanisms_size() > kMaxMechanisms) {
    return InvalidArgument("the plan has {} mechanisms; a client carries out up to {}", message.mechanisms_size(),
                           kMaxMechanisms);
  }
  for (const proto::MechanismDef& mechanism : message.mechanisms()) {
    RIVULET_RETURN_IF_ERROR(CheckName("mechanism", mechanism.name()));
    PieceSpec& piece = program.mechanisms.emplace_back(PieceSpec{mechanism.name()});
    for (const proto::SettingDef& setting : mechanism.settings()) {
      RIVULET_RETURN_IF_ERROR(CheckName("setting of a mechanism", setting.name()));
      if (setting.text().empty()) {
        piece.settings[setting.name()] = setting.number();
      } else {
        piece.settings[setting.name()] = setting.text();
      }
    }
  }
  return absl::OkStatus();
}

// Parts are as long as the trainable segment, followed by the shared one if they say so. Gradients cannot be sources:
// they are not kept after their step.
Status PlanReader::ReadSource(const proto::PartSourceDef& message, LocalProgram& program) {
  RIVULET_RETURN_IF_ERROR(CheckName("part", message.part()));
  const auto check = [&](const std::string& name) -> Status {
    const auto flat = Flat(name);
    if (!flat.ok()) return Annotate(flat.status(), fmt::format("the plan's part '{}'", message.part()));
    if (name != "grads" && name != "other_grads" && *flat == *Flat("params")) return absl::OkStatus();
    return InvalidArgument("the plan's part '{}' cannot be taken from '{}'", message.part(), name);
  };
  RIVULET_RETURN_IF_ERROR(check(message.from()));
  if (!message.less().empty()) RIVULET_RETURN_IF_ERROR(check(message.less()));
  const PartSource source = {message.from(), message.less(), message.shared_too()};
  if (!program.parts.emplace(message.part(), source).second) {
    return InvalidArgument("the plan gives the source of part '{}' twice", message.part());
  }
  return absl::OkStatus();
}

}  // namespace rivulet
