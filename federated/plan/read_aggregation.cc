#include <algorithm>

#include "federated/plan/plan_reader.h"

namespace rivulet {

Status PlanReader::ReadAggregation(const proto::AggregationDef& message) {
  RIVULET_RETURN_IF_ERROR(CheckName("aggregation rule", message.rule()));
  const std::map<std::string, PartSource>& sources = plan_->training().parts;
  const auto same = [&] {
    if (std::ssize(sources) != message.parts_size()) return false;
    return std::all_of(message.parts().begin(), message.parts().end(),
                       [&](const proto::PartDef& part) { return sources.contains(part.name()); });
  };
  if (message.parts_size() < 1 || !same()) {
    return InvalidArgument(
        "the plan's training gives {} parts and its aggregation takes {}; they must be one and the same",
        sources.size(), message.parts_size());
  }
  AggregationSpec& spec = plan_->aggregation_;
  spec.rule = message.rule();
  for (const proto::SettingDef& setting : message.rule_settings()) {
    RIVULET_RETURN_IF_ERROR(CheckName("setting of an aggregation rule", setting.name()));
    if (!spec.rule_settings.emplace(setting.name(), setting.number()).second) {
      return InvalidArgument("the plan gives '{}' of its aggregation rule twice", setting.name());
    }
  }
  spec.updates_per_version = message.updates_per_version();
  spec.max_weight = message.max_weight();
  spec.weight_fraction_bits = message.weight_fraction_bits();
  spec.staleness_bits = message.staleness_bits();
  if (message.has_secure()) {
    const proto::SecureSumDef& secure = message.secure();
    RIVULET_RETURN_IF_ERROR(CheckName("secure aggregation", secure.protocol()));
    spec.secure = {.protocol = secure.protocol(),
                   .min_cohort = secure.min_cohort(),
                   .min_survivors = secure.min_survivors(),
                   .max_colluding = secure.max_colluding(),
                   .drop_out = secure.drop_out(),
                   .least_sum = secure.least_sum()};
  }
  for (const proto::PartDef& part : message.parts()) RIVULET_RETURN_IF_ERROR(ReadPart(part, spec));
  for (const proto::ScalarDef& entry : message.scalars()) spec.scalars.push_back({entry.name(), entry.weigh()});
  RIVULET_RETURN_IF_ERROR(Annotate(ValidateSpec(spec), "the plan's aggregation"));
  for (const PartSpec& part : spec.parts) {
    if (!part.only_where || Declared(part.only_where->scalar)) continue;
    return InvalidArgument("the plan's part '{}' is of updates that declare '{}', and its training declares none",
                           part.name, part.only_where->scalar);
  }
  // Plans state these values for other readers; they are checked, because another resolution would give another model.
  for (size_t p = 0; p < spec.parts.size(); ++p) {
    const int32_t stated = message.parts(static_cast<int>(p)).fraction_bits();
    if (stated == spec.fraction_bits(spec.parts[p])) continue;
    return InvalidArgument("the plan states {} fraction bits where its bounds give {}", stated,
                           spec.fraction_bits(spec.parts[p]));
  }
  return absl::OkStatus();
}

Status PlanReader::ReadPart(const proto::PartDef& entry, AggregationSpec& spec) const {
  RIVULET_RETURN_IF_ERROR(CheckName("codec", entry.codec()));
  const ModelLayout& layout = *plan_->layout_;
  const PartSource& source = plan_->training().parts.at(entry.name());
  const int64_t elements = source.shared_too ? layout.update_elements() : layout.parameters();
  if (entry.elements() != elements) {
    return InvalidArgument("the plan states {} elements of part '{}' where its training gives {}", entry.elements(),
                           entry.name(), elements);
  }
  PartSpec& part = spec.parts.emplace_back();
  part.name = entry.name();
  part.codec = entry.codec();
  for (const proto::SettingDef& setting : entry.codec_settings()) {
    RIVULET_RETURN_IF_ERROR(CheckName("setting of a codec", setting.name()));
    if (!part.codec_settings.emplace(setting.name(), setting.number()).second) {
      return InvalidArgument("the plan gives '{}' of codec '{}' twice", setting.name(), part.codec);
    }
  }
  part.error_feedback = entry.error_feedback();
  if (part.error_feedback && !plan_->training().mechanisms.empty()) {
    return InvalidArgument(
        "the plan has error feedback for part '{}', so that its mechanism '{}' would bound and hide less than stated",
        part.name, plan_->training().mechanisms[0].name);
  }
  part.elements = elements;
  part.value_bits = entry.value_bits();
  if (entry.sum_bits() != 0) part.sum_bits = entry.sum_bits();
  part.weigh = entry.weigh();
  part.optional = entry.optional();
  if (entry.has_only_where()) part.only_where = {entry.only_where().scalar(), entry.only_where().value()};
  const int32_t kind = entry.denominator().kind();
  if (kind < 0 || kind > static_cast<int32_t>(Denominator::Kind::kScalar)) {
    return InvalidArgument("the plan divides part '{}' by the unknown denominator {}; this client knows 0 to 3",
                           part.name, kind);
  }
  part.denominator.kind = static_cast<Denominator::Kind>(kind);
  part.denominator.constant = entry.denominator().constant();
  part.denominator.scalar = entry.denominator().scalar();
  return absl::OkStatus();
}

// Whether a training task declares the scalar.
bool PlanReader::Declared(const std::string& name) const {
  const FlatNames& names = plan_->flat_names_;
  const auto in = [&](const std::vector<std::string>& some) { return std::ranges::find(some, name) != some.end(); };
  return in(names.declared) || in(names.numbers) || name == "examples" || name == "steps" ||
         std::ranges::any_of(plan_->training().passes, [&](const LocalPass& pass) {
           return std::ranges::find(pass.scalars, name, &PassScalar::name) != pass.scalars.end();
         });
}

// Derived from the passes' reports, so plans do not state it.
Status PlanReader::SumEvaluations() {
  const LocalProgram* const program = plan_->program(TaskKind::kEvaluate);
  if (program == nullptr) return absl::OkStatus();
  AggregationSpec& spec = plan_->evaluation_;
  spec.secure = plan_->aggregation_.secure;
  spec.updates_per_version = spec.secure.on() ? kMostSecureUpdates : int64_t{1} << 31;
  spec.max_weight = kMaxWeight;
  spec.scalars = {{"examples", "one"}};
  for (const LocalPass& pass : program->passes) {
    for (const PassScalar& scalar : pass.scalars)
      spec.scalars.push_back({scalar.name, scalar.sum ? "one" : "examples"});
  }
  return Annotate(ValidateSpec(spec), "the plan's program to evaluate");
}

}  // namespace rivulet
